package master

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/wire"
)

// handshake sends the first commands on a new connection:
//
//	AUTH, SELECT, CLIENT SETNAME lockproxy:<settings>, CLIENT ID, INFO by sections; then
//	CLIENT KILL ID <the connection before>, CONFIG GET *append*, SCRIPT LOAD
//
// The releases that the master has missed follow, and then the first probe, which tries the rights
// of the lane's user. The host lets the master vote because of that probe. A refusedError says
// that only the operator can help.
func (s *supervisor) handshake(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	var id int64
	var server admission.ServerInfo
	err := s.ask(ctx, c, append(s.introduction(&id), infos(must, &server)...)...)
	if err != nil {
		return err
	}
	if err := s.identify(&server); err != nil {
		return err
	}
	loaded := false
	script := handshakeCommand{may, []string{"SCRIPT", "LOAD", wire.Packet.Body}, func(r *wire.Reply) error {
		loaded = !r.IsError()
		return nil
	}}
	err = s.ask(ctx, c, append(append(s.barrier(id, server.RunID), settings(&server)...), script)...)
	if err == nil {
		s.lastID, s.lastRun = id, server.RunID
		s.meet(&server, loaded) // if the user may not load scripts, the first packet brings the body
	}
	return err
}

// introduction logs in, selects the database and asks for the connection's id; 0 if the master
// does not return it.
func (s *supervisor) introduction(id *int64) (all []handshakeCommand) {
	l := s.lane
	all = login(l.cfg.Options)
	return append(all, handshakeCommand{may, []string{"CLIENT", "SETNAME", l.cfg.Client}, nil},
		handshakeCommand{may, []string{"CLIENT", "ID"}, func(r *wire.Reply) error {
			*id = r.Int
			return nil
		}})
}

// login authenticates and selects the database.
func login(o *Options) (all []handshakeCommand) {
	switch user, password := o.Credentials(); {
	case password == "":
	case user == "":
		all = append(all, handshakeCommand{must, []string{"AUTH", password}, nil})
	default:
		all = append(all, handshakeCommand{must, []string{"AUTH", user, password}, nil})
	}
	if o.DB != 0 {
		all = append(all, handshakeCommand{must, []string{"SELECT", strconv.Itoa(o.DB)}, nil})
	}
	return all
}

// identify claims the server for this lane, if it may be a master.
func (s *supervisor) identify(server *admission.ServerInfo) error {
	l := s.lane
	l.mu.Lock()
	l.server.noteRole(server)
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

// barrier makes sure that the master executes no more commands of the lane's last connection:
// after the reply to CLIENT KILL they can no longer run. Ids start anew in a new process, so
// another run_id needs no barrier, and must not get one.
func (s *supervisor) barrier(id int64, runID string) (all []handshakeCommand) {
	l := s.lane
	if s.lastID != 0 && s.lastRun == runID {
		kill := []string{"CLIENT", "KILL", "ID", strconv.FormatInt(s.lastID, 10)}
		all = append(all, handshakeCommand{try, kill, func(r *wire.Reply) error {
			if r.IsError() {
				l.cfg.Log.Warn("master does not let the connection before be closed, a late SET may leave a key until its ttl",
					l.cfg.field(), zap.Error(Answered(r)))
			}
			return nil
		}})
	}
	if id == 0 {
		l.cfg.Log.Warn("master does not tell the id of a connection, a broken one cannot be fenced off", l.cfg.field())
	}
	return all
}

// meet takes the facts of the server that the connection leads to. From here on the lane carries
// releases.
func (s *supervisor) meet(server *admission.ServerInfo, loaded bool) {
	l := s.lane
	l.mu.Lock()
	another := l.server.meet(server)
	l.status.met(server.RunID, l.conn != nil)
	l.packets.loaded = loaded
	landed := l.repairs.fenced(time.Now())
	l.mu.Unlock()
	for _, t := range landed {
		l.cfg.Host.Landed(l.cfg.Index, t, 0, time.Time{})
	}
	if another {
		describe(&l.cfg, server)
	}
}

// replay sends the releases that the master has missed, no faster than the queue has room. It
// returns when the last is on its way. New operations follow in the queue, so the master runs them
// later.
func (s *supervisor) replay(ctx context.Context, c *conn) (err error) {
	l := s.lane
	more := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.repairs.backlog
	}
	for s.sendRepairs(time.Now()); more() && err == nil; {
		err = s.ping(ctx, c)
	}
	return err
}

// ask sends commands on c, all at once and in any state of the lane, and waits for the answers.
func (s *supervisor) ask(ctx context.Context, c *conn, commands ...handshakeCommand) error {
	l := s.lane
	answers := make(chan error, len(commands))
	l.mu.Lock()
	for i := range commands {
		q := &commands[i]
		l.queue.add().call = &plainCommand{wire.AppendCommand(nil, q.args...), func(r *wire.Reply) {
			if r != nil {
				answers <- q.answered(l.cfg.Options, r)
			}
		}}
	}
	l.mu.Unlock()
	l.Flush()
	for range commands {
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
