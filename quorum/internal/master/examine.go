package master

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/wire"
	"lockproxy/resp/respio"
)

// Findings is what Examine finds out about a server.
type Findings struct {
	admission.ServerInfo
	RTT    time.Duration // the median of some
	Lacks  []string      // rights that lockproxy needs and its user does not have
	Misses []string      // rights that lockproxy can do without

	// Probed says that the server has run the script of a probe. Only then the rest is known.
	Probed bool
	Probe  wire.ProbeReply
	Ahead  time.Duration // how far its clock is ahead of ours, give or take half of RTT
}

// examinePings is how many round trips Examine measures.
const examinePings = 9

// examineLimits bound a reply. The longest ones are sections of INFO.
var examineLimits = respio.Limits{Line: 4096, Text: 1 << 20, Elems: 1024, Depth: 8, Reply: 2 << 20}

// Examine asks a server what a lane asks at first, on a connection of its own. It changes no key
// and no setting. The error is a reason like those of a lane. ctx must have a deadline.
func Examine(ctx context.Context, o *Options, stateKey, prefix string) (e Findings, err error) {
	began := time.Now()
	conn, err := o.Connect(ctx)
	if err != nil {
		return e, Reason(err, time.Since(began).Round(time.Millisecond))
	}
	defer HangUp(conn)
	defer context.AfterFunc(ctx, func() { HangUp(conn) })()
	x := &examiner{o: o, conn: conn, replies: respio.NewReader(conn, examineLimits)}
	var rights trial
	for _, step := range []func() []handshakeCommand{
		func() []handshakeCommand { return append(login(o), infos(must, &e.ServerInfo)...) },
		func() []handshakeCommand { return append(settings(&e.ServerInfo), rights.commands(prefix)...) },
	} {
		if err := x.ask(step()...); err != nil {
			return e, x.reason(ctx, err, began)
		}
	}
	e.Lacks, e.Misses = rights.lacks, rights.misses
	if err = x.measure(&e); err == nil && len(e.Lacks) == 0 {
		err = x.probe(&e, stateKey)
	}
	return e, x.reason(ctx, err, began)
}

// examiner is the connection of one Examine.
type examiner struct {
	o       *Options
	conn    net.Conn
	replies *respio.Reader
}

// reason returns the reason for err.
func (x *examiner) reason(ctx context.Context, err error, began time.Time) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return SilentError(time.Since(began).Round(time.Millisecond))
	}
	if _, refused := errors.AsType[refusedError](err); refused {
		return err
	}
	if _, answered := errors.AsType[*AnswerError](err); answered {
		return err
	}
	return Reason(err, time.Since(began).Round(time.Millisecond))
}

// ask sends commands, all at once, and takes their replies.
func (x *examiner) ask(commands ...handshakeCommand) error {
	var request []byte
	for _, c := range commands {
		request = append(request, wire.AppendCommand(nil, c.args...)...)
	}
	if _, err := x.conn.Write(request); err != nil {
		return err
	}
	for i := range commands {
		var r wire.Reply
		if err := x.replies.Read(&r); err != nil {
			return err
		}
		if err := commands[i].answered(x.o, &r); err != nil {
			return err
		}
	}
	return nil
}

// measure sets the round trip.
func (x *examiner) measure(e *Findings) error {
	var trips []time.Duration
	for range examinePings {
		sent := time.Now()
		if err := x.ask(handshakeCommand{try, []string{"PING"}, nil}); err != nil {
			return err
		}
		trips = append(trips, time.Since(sent))
	}
	slices.Sort(trips)
	e.RTT = trips[len(trips)/2]
	return nil
}

// probe reads the record and the clock.
func (x *examiner) probe(e *Findings, stateKey string) error {
	sent := time.Now()
	script := []string{"EVAL", wire.Probe.Body, "1", stateKey}
	return x.ask(handshakeCommand{must, script, func(r *wire.Reply) error {
		middle := sent.Add(time.Since(sent) / 2)
		if e.Probe, e.Probed = wire.ParseProbe(r); e.Probed {
			e.Ahead = e.Probe.Clock - time.Duration(middle.UnixNano())
		}
		return nil
	}})
}
