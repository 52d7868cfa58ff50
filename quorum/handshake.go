package quorum

import (
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// handshake says on a new connection what comes before new work, in this order:
//
//	AUTH, SELECT, CLIENT SETNAME lockproxy, CLIENT ID, INFO server, CLIENT KILL ID <the connection before>,
//	INFO replication, TIME, SCRIPT LOAD (each script), the releases still owed
//
// After it the master votes. A refusedError says that only the operator can help.
func (l *lane) handshake(c *laneConn) error {
	t := &talk{c: c}
	if err := t.renew(); err != nil {
		return err
	}
	id, err := l.introduce(t)
	if err != nil {
		return err
	}
	runID, err := l.identify(t)
	if err != nil {
		return err
	}
	if err := l.barrier(t, id, runID); err != nil {
		return err
	}
	if err := l.checkRole(t); err != nil {
		return err
	}
	ahead, err := l.askTime(t)
	if err != nil {
		return err
	}
	known, err := l.loadScripts(t)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.status.RunID, l.status.Ahead = runID, ahead
	l.owed.handedOver(time.Now())
	l.mu.Unlock()
	return l.goLive(t, known)
}

// introduce authenticates, chooses the database and asks for the connection's id; 0 if the master does not tell.
func (l *lane) introduce(t *talk) (id int64, err error) {
	if l.opts.Password != "" {
		args := []string{"AUTH", l.opts.Password}
		if l.opts.User != "" {
			args = []string{"AUTH", l.opts.User, l.opts.Password}
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

// identify reads which server this is and claims it for this lane.
func (l *lane) identify(t *talk) (runID string, err error) {
	if err := t.must("INFO", "server"); err != nil {
		return "", err
	}
	switch infoField(t.r.text, "redis_mode") {
	case "cluster":
		return "", refusedError{errClusterMode}
	case "sentinel":
		return "", refusedError{errNotRedis}
	}
	runID = infoField(t.r.text, "run_id")
	if runID == "" {
		return "", refusedError{errNoRunID}
	}
	if other, ok := l.host.claim(runID, l.index); !ok {
		return "", refusedError{&sameServerError{other, l.names[other]}}
	}
	return runID, nil
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

func (l *lane) checkRole(t *talk) error {
	if err := t.must("INFO", "replication"); err != nil {
		return err
	}
	switch infoField(t.r.text, "role") {
	case "master":
		return nil
	case "":
		return refusedError{errNoRole}
	}
	return refusedError{errReplica}
}

// askTime returns by how much the master's clock is ahead of ours, 0 if it does not tell.
func (l *lane) askTime(t *talk) (time.Duration, error) {
	if _, err := t.may("TIME"); err != nil {
		return 0, err
	}
	if t.r.kind != '*' || t.r.n != 2 {
		return 0, nil
	}
	return time.Until(time.Unix(t.r.ints[0], t.r.ints[1]*1000)), nil
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

// infoField is the value of a field in the text of INFO, "" if it is not there.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field); ok && strings.HasPrefix(value, ":") {
			return strings.TrimSpace(value[1:])
		}
	}
	return ""
}
