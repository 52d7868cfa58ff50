package master

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// handshake says on a new connection what comes before everything else:
//
//	AUTH, SELECT, CLIENT SETNAME lockproxy, CLIENT ID, INFO by sections; then
//	CLIENT KILL ID <the connection before>, CONFIG GET *append*, SCRIPT LOAD
//
// The releases that the master misses follow, and the first probe, which tries the rights of the
// lane's user: by that the host lets the master vote.
// A refusedError says that only the operator can help.
func (l *Lane) handshake(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	var id int64
	var server admission.Facts
	err := l.ask(ctx, c, append(l.introduction(&id), infos(must, &server)...)...)
	if err != nil {
		return err
	}
	if err := l.identify(&server); err != nil {
		return err
	}
	loaded := false
	script := question{may, []string{"SCRIPT", "LOAD", wire.Packet.Body}, func(r *wire.Reply) error {
		loaded = !r.IsError()
		return nil
	}}
	err = l.ask(ctx, c, append(append(l.barrier(id, server.RunID), settings(&server)...), script)...)
	if err == nil {
		l.lastID, l.lastRun = id, server.RunID
		l.meet(&server, loaded) // where the user may not load scripts, the first packet brings the body
	}
	return err
}

// introduction logs in, selects the database and asks for the connection's id; 0 if the master
// does not tell it.
func (l *Lane) introduction(id *int64) (all []question) {
	switch user, password := l.cfg.Options.Credentials(); {
	case password == "":
	case user == "":
		all = append(all, question{must, []string{"AUTH", password}, nil})
	default:
		all = append(all, question{must, []string{"AUTH", user, password}, nil})
	}
	if db := l.cfg.Options.DB; db != 0 {
		all = append(all, question{must, []string{"SELECT", strconv.Itoa(db)}, nil})
	}
	return append(all, question{may, []string{"CLIENT", "SETNAME", "lockproxy"}, nil},
		question{may, []string{"CLIENT", "ID"}, func(r *wire.Reply) error {
			*id = r.Int
			return nil
		}})
}

// identify claims the server for this lane, if it may be a master.
func (l *Lane) identify(server *admission.Facts) error {
	l.mu.Lock()
	l.watchRoleLocked(server)
	l.mu.Unlock()
	if err := server.Refusal(); err != nil {
		return refusedError{err}
	}
	if other, ok := l.cfg.Host.Claim(server.RunID, l.cfg.Index); !ok {
		return refusedError{admission.Naming(l.cfg.Names, func(name func(int) string) string {
			return "is the same server as " + name(other)
		})}
	}
	return nil
}

// barrier makes sure that nothing written on the lane's last connection is carried out any more:
// after the reply to CLIENT KILL that connection can execute nothing. Ids start anew in a new
// process, so another run_id needs no barrier, and must not get one.
func (l *Lane) barrier(id int64, runID string) (all []question) {
	if l.lastID != 0 && l.lastRun == runID {
		kill := []string{"CLIENT", "KILL", "ID", strconv.FormatInt(l.lastID, 10)}
		all = append(all, question{try, kill, func(r *wire.Reply) error {
			if r.IsError() {
				l.cfg.Log.Warn("master does not let the connection before be closed, a late SET may leave a key until its ttl",
					l.master(), zap.Error(Answered(r)))
			}
			return nil
		}})
	}
	if id == 0 {
		l.cfg.Log.Warn("master does not tell the id of a connection, a broken one cannot be fenced off", l.master())
	}
	return all
}

// meet takes the facts of the server that the connection leads to. From here on the lane carries
// releases.
func (l *Lane) meet(server *admission.Facts, loaded bool) {
	l.mu.Lock()
	another := l.facts.RunID != server.RunID
	if another {
		l.stepped = false
		l.offset.Follow(server.RunID)
	}
	l.facts, l.status.RunID = *server, server.RunID
	l.up, l.loaded, l.untried = l.conn != nil, loaded, true
	if l.status.State != stat.StateRefused { // it may be refused once more: see noteEnd
		l.reason = errProbing
	}
	landed := l.repairs.fenced(time.Now())
	l.mu.Unlock()
	for _, t := range landed {
		l.cfg.Host.Landed(l.cfg.Index, t, 0, time.Time{})
	}
	if another {
		l.describe(server)
	}
}

// replay sends the releases that the master misses. More than there is room for go out while
// answers come in; it returns when the last is on its way. New work is behind, as the lane keeps
// the order.
func (l *Lane) replay(ctx context.Context, c *conn) (err error) {
	more := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.backlog
	}
	for l.sendRepairs(time.Now()); more() && err == nil; {
		err = l.ping(ctx, c)
	}
	return err
}

// question is a command of a handshake or a probe.
type question struct {
	need need
	args []string
	take func(r *wire.Reply) error // takes the answer, where the others are taken; may be nil
}

// need says what an error reply to a question means.
type need uint8

const (
	must need = iota // it is the reason why the master cannot vote
	may              // so it is, unless the master lacks the command or forbids it
	try              // nothing
)

func (l *Lane) answered(q *question, r *wire.Reply) error {
	switch {
	case r.IsError() && (q.need == must || q.need == may && !forbidden(r)):
		return l.refusal(r)
	case q.take == nil:
		return nil
	}
	return q.take(r)
}

// ask asks questions on c, all at once and whatever the state of the lane, and waits for the
// answers.
func (l *Lane) ask(ctx context.Context, c *conn, questions ...question) error {
	answers := make(chan error, len(questions))
	l.mu.Lock()
	for i := range questions {
		q := &questions[i]
		l.queue.add().call = &call{wire.AppendCommand(nil, q.args...), func(r *wire.Reply) {
			if r != nil {
				answers <- l.answered(q, r)
			}
		}}
	}
	l.mu.Unlock()
	l.Flush()
	for range questions {
		select {
		case err := <-answers:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return SilentError(silence)
			}
			return ctx.Err()
		case <-c.broken:
			for len(answers) > 0 {
				if err := <-answers; err != nil {
					return err
				}
			}
			return c.reason
		}
	}
	return nil
}

// forbidden reports whether the master lacks the command, or does not let this user have it.
func forbidden(r *wire.Reply) bool {
	code := r.Code()
	return code == codeNoPerm || code == "ERR" && strings.Contains(strings.ToLower(r.Text), "unknown")
}

// refusal is the reason for an error reply to a question. Those that pass by themselves are tried
// again soon.
func (l *Lane) refusal(r *wire.Reply) error {
	switch r.Code() {
	case codeNoPerm:
		return l.withoutRights(lacking(r, reserved))
	case "LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "MISCONF", "OOM":
		return Answered(r)
	case "WRONGPASS":
		return refusedError{errPassword}
	case "NOAUTH":
		return refusedError{errWantPassword}
	}
	if strings.HasPrefix(r.Text, "ERR max number of clients") {
		return Answered(r)
	}
	return refusedError{Answered(r)}
}
