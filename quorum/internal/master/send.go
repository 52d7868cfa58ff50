package master

import (
	"context"
	"errors"
	"time"

	"lockproxy/quorum/internal/wire"
)

// Send sends one command, encoded by package wire, to a master that is connected, whether it votes
// or not. It calls done with the reply, which is good until done returns; err is set for an error
// reply, too, and without a reply r is nil. done must not block. An error of Send is the reason
// why the lane did not take the command: then done is not called.
func (l *Lane) Send(request []byte, done func(r *wire.Reply, err error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.status.refusal(wire.Free, l.queue.n); err != nil {
		return err
	}
	c := l.conn
	l.queue.add().call = &plainCommand{request, func(r *wire.Reply) {
		if r == nil {
			done(nil, c.reason)
			return
		}
		if forbids(r) {
			l.mu.Lock()
			l.server.untried = true
			l.mu.Unlock()
		}
		if r.IsError() {
			done(r, Answered(r))
		} else {
			done(r, nil)
		}
	}}
	l.conn.wakeLocked()
	return nil
}

// Call is Send for a caller who can wait, until ctx ends. The reply comes without its elements.
func (l *Lane) Call(ctx context.Context, request []byte) (wire.Reply, error) {
	type answer struct {
		reply wire.Reply
		err   error
	}
	began, answers := time.Now(), make(chan answer, 1)
	err := l.Send(request, func(r *wire.Reply, err error) {
		a := answer{err: err}
		if r != nil {
			a.reply, a.reply.Elems = *r, nil // those are used again
		}
		answers <- a
	})
	if err != nil {
		return wire.Reply{}, err
	}
	select {
	case a := <-answers:
		return a.reply, a.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return wire.Reply{}, SilentError(time.Since(began).Round(time.Millisecond))
		}
		return wire.Reply{}, context.Cause(ctx)
	}
}
