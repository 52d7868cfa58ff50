package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"lockproxy/resp/respio"
	"lockproxy/upstream"
)

const (
	probeEvery   = time.Second
	probeTimeout = 2 * time.Second
	// probeRenew is how long one connection is used. Later the address may lead to another server.
	probeRenew = 15 * time.Second
)

var errNotAsked = errors.New("has not been asked yet")

var pingLimits = respio.Limits{Line: 64 << 10, Text: 64 << 10, Elems: 1 << 10, Depth: 8, Reply: 1 << 20}

// probe sends a PING to the upstream every second, over a connection of its own, and keeps the
// result.
type probe struct {
	dial func(context.Context) (net.Conn, error)

	conn    net.Conn
	replies *respio.Reader
	since   time.Time // of conn

	mu  sync.Mutex
	err error // of the last PING; nil: it was answered
	rtt time.Duration
}

func newProbe(dial func(context.Context) (net.Conn, error)) *probe {
	return &probe{dial: dial, err: errNotAsked}
}

// last returns whether the upstream answered the last PING, why not, and the round trip.
func (p *probe) last() (up bool, reason string, rtt time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err == nil, upstream.Reason(p.err), p.rtt
}

// run probes until ctx ends.
func (p *probe) run(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	defer p.drop()
	for {
		rtt, err := p.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.err, p.rtt = err, rtt
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask sends one PING.
//
//	> *1\r\n$4\r\nPING\r\n
//	< +PONG\r\n or -NOAUTH Authentication required.\r\n
func (p *probe) ask(ctx context.Context) (rtt time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if p.conn != nil && time.Since(p.since) > probeRenew {
		p.drop()
	}
	if p.conn == nil {
		conn, err := p.dial(ctx)
		if err != nil {
			return 0, err
		}
		p.conn, p.replies, p.since = conn, respio.NewReader(bufio.NewReader(conn), pingLimits), time.Now()
	}
	conn := p.conn // the function may run late, when p has another connection or none
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	start := time.Now()
	if _, err = conn.Write(respio.AppendCommand(nil, "PING")); err == nil {
		err = readPong(p.replies)
	}
	rtt = time.Since(start)
	if !stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		p.drop()
		return 0, err
	}
	return rtt, nil
}

// readPong returns nil if the reply to PING says that the server works, with a password or
// without.
func readPong(replies *respio.Reader) error {
	var r respio.Reply
	err := replies.Read(&r)
	if err != nil && !errors.Is(err, respio.ErrMalformed) && !errors.Is(err, respio.ErrTooLarge) {
		return err
	}
	switch code := r.Code(); {
	case err == nil && (code == "NOAUTH" || code == "NOPERM" || r.Kind == '+' && r.Text == "PONG"):
		return nil
	case err == nil && r.IsError():
		return &upstream.ReplyError{Text: r.Text}
	}
	return errors.New("unexpected reply to PING")
}

func (p *probe) drop() {
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
}
