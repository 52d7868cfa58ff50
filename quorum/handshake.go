package quorum

import (
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// handshake says on a new connection what comes before new work, in this order:
//
//	AUTH, SELECT, CLIENT SETNAME lockproxy, CLIENT ID, INFO, CLIENT KILL ID <the connection before>, CONFIG GET *append*,
//	SCRIPT LOAD (each script), look, the releases still owed
//
// After it the master votes as soon as the guard lets it: found is what the look found. A refusedError says that only the
// operator can help.
func (l *lane) handshake(c *laneConn) (found view, err error) {
	t := &talk{c: c}
	if err := t.renew(); err != nil {
		return found, err
	}
	id, err := l.introduce(t)
	if err != nil {
		return found, err
	}
	server, err := l.identify(t)
	if err != nil {
		return found, err
	}
	if err := l.barrier(t, id, server.runID); err != nil {
		return found, err
	}
	if server.aof {
		if err := t.ask("CONFIG", "GET", "*append*"); err != nil {
			return found, err
		}
		server.readConfig(&t.r)
	}
	known, err := l.loadScripts(t)
	if err != nil {
		return found, err
	}
	l.meet(server)
	if found, err = l.firstLook(t, known[opLook]); err != nil {
		return found, err
	}
	return found, l.goLive(t, known)
}

// firstLook looks before the reader of the connection runs.
func (l *lane) firstLook(t *talk, known bool) (found view, err error) {
	sent := time.Since(l.epoch)
	if err := t.write(l.enc.append(nil, &command{op: opLook}, !known, "")); err != nil {
		return found, err
	}
	if err := t.read(); err != nil {
		return found, err
	}
	if t.r.isError() {
		return found, refusal(&t.r)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	found, ok := l.lookedLocked(t.c, &t.r, sent, now.Sub(l.epoch), now)
	if !ok {
		return found, refusedError{errors.New("does not tell its record")}
	}
	return found, nil
}

// introduce authenticates, chooses the database and asks for the connection's id; 0 if the master does not tell.
func (l *lane) introduce(t *talk) (id int64, err error) {
	if user, password := l.opts.login(); password != "" {
		args := []string{"AUTH", password}
		if user != "" {
			args = []string{"AUTH", user, password}
		}
		if err := t.must(args...); err != nil {
			return 0, err
		}
	}
	if l.opts.DB != 0 {
		if err := t.must("SELECT", strconv.Itoa(l.opts.DB)); err != nil {
			return 0, err
		}
	}
	if _, err := t.may("CLIENT", "SETNAME", "lockproxy"); err != nil {
		return 0, err
	}
	allowed, err := t.may("CLIENT", "ID")
	if err != nil {
		return 0, err
	}
	if !allowed || t.r.kind != ':' {
		l.log.Warn("master does not tell the id of a connection, a broken one cannot be fenced off", zap.String("master", l.names[l.index]))
		return 0, nil
	}
	return t.r.ints[0], nil
}

// identify reads which server this is, and claims it for this lane.
func (l *lane) identify(t *talk) (server facts, err error) {
	if err := t.must("INFO"); err != nil {
		return server, err
	}
	server.readInfo(t.r.text)
	l.mu.Lock()
	l.watchRoleLocked(&server)
	l.mu.Unlock()
	if err := server.refusal(); err != nil {
		return server, err
	}
	if other, ok := l.host.claim(server.runID, l.index); !ok {
		return server, refusedError{&sameServerError{other, l.names[other]}}
	}
	return server, nil
}

// barrier makes sure that nothing written on the lane's connection before this one is carried out any more: after the
// reply to CLIENT KILL that connection can execute nothing. Ids start anew in a new process, so another run_id needs
// no barrier, and must not get one.
func (l *lane) barrier(t *talk, id int64, runID string) error {
	if l.lastID != 0 && l.lastRunID == runID {
		if err := t.ask("CLIENT", "KILL", "ID", strconv.FormatInt(l.lastID, 10)); err != nil {
			return err
		}
		if t.r.isError() {
			l.log.Warn("master does not let the connection before be closed, a late SET may leave a key until its ttl",
				zap.String("master", l.names[l.index]), zap.Error(answered(&t.r)))
		}
	}
	l.lastID, l.lastRunID = id, runID
	return nil
}

// loadScripts loads all scripts; where the user may not, their bodies travel with the first command that runs them.
func (l *lane) loadScripts(t *talk) (known [numScripts]bool, err error) {
	for op := range scripts {
		if known[op], err = t.may("SCRIPT", "LOAD", scripts[op].body); err != nil {
			return known, err
		}
	}
	return known, nil
}
