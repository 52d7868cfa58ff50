package tool

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"lockproxy/plain"
)

// lockRetry is the pause between attempts that fail for a passing reason.
const lockRetry = 250 * time.Millisecond

// lock takes the lock, and sets link, or returns an exit code. If a proxy ends meanwhile, or finds
// no majority, it tries the next one. It gives up when it has tried all of them once and the time
// of --wait has ended.
func (j *job) lock(ctx context.Context) int {
	deadline := time.Now().Add(j.wait.Duration)
	var failed []refusal // since one last answered
	for {
		r := j.tryLock(ctx, time.Until(deadline))
		switch r.code {
		case 0:
			return 0
		case exitTaken:
			failed = nil
		case exitUnavailable, exitDenied:
			failed = append(failed, r)
			j.at = (j.at + 1) % len(j.addresses)
			if len(failed) < len(j.addresses) {
				continue
			}
			r, failed = worst(failed), nil
		}
		passing := r.code == exitTaken || r.code == exitUnavailable
		switch {
		case passing && (j.wait.forever || time.Until(deadline) >= lockRetry):
		case r.code == exitTaken:
			return j.conflict(r.why)
		default:
			return j.fail(r.code, "%s", r.why)
		}
		select {
		case <-time.After(lockRetry):
		case s := <-j.signals:
			return signalCode(s)
		}
	}
}

// tryLock asks one proxy once, which may wait so long. After code 0 the lock is held.
func (j *job) tryLock(ctx context.Context, wait time.Duration) refusal {
	address := j.addresses[j.at]
	c, err := j.target.dial(ctx, address, true)
	if err != nil {
		return refusal{connectCode(err), fmt.Sprintf("%s: %v", address.Name(), plain.Error(err))}
	}
	l := newLink(c)
	r := j.askLock(l, wait)
	if r.code == exitUsage && j.fitTTL(r.why) {
		r = j.askLock(l, wait)
	}
	switch r.code {
	case 0:
		j.link = l
		return r
	case exitTaken:
		r.why = j.taken(l, r.why)
	case exitUsage:
		r.why = j.explain(r.why)
	}
	l.Close()
	return r
}

// lockArgs returns the LOCK command. The proxy renews the lock, which also frees it when this
// process is killed. Where --hold is longer than --ttl, the lock lasts for that from the start: so
// the proxy checks it before the command runs, and a machine that dies does not open it earlier.
func (j *job) lockArgs(wait time.Duration) []string {
	ttl := max(j.ttl.Duration, j.hold.Duration)
	args := append([]string{"LOCK", j.key(), plain.Duration(ttl)}, j.furtherKeys()...)
	switch {
	case j.shared:
		args = append(args, "SHARED")
	case j.limit > 0:
		args = append(args, "LIMIT", strconv.Itoa(j.limit))
	}
	args = append(args, "SESSION", "OWNER", j.owner, "FULL")
	switch {
	case j.wait.forever:
		args = append(args, "WAIT", "0")
	case wait >= time.Millisecond:
		args = append(args, "WAIT", plain.Duration(wait))
	}
	return args
}

// askLock sends LOCK and waits for the reply. After code 0 the lock is held.
func (j *job) askLock(l *link, wait time.Duration) refusal {
	if err := l.send(j.lockArgs(wait)...); err != nil {
		return refusal{exitUnavailable, l.name + ": " + err.Error()}
	}
	var timeout <-chan time.Time
	if !j.wait.forever {
		timeout = time.After(max(0, wait) + answerTimeout)
	}
	for {
		select {
		case s := <-j.signals:
			return refusal{signalCode(s), "a signal came while waiting: " + s.String()}
		case <-timeout:
			return refusal{exitUnavailable, l.name + ": no answer"}
		case f := <-l.frames:
			if f.Kind == '>' && f.err == nil {
				continue
			}
			return j.readGrant(f, l.name)
		}
	}
}

// readGrant reads the reply to LOCK.
func (j *job) readGrant(f frame, proxy string) refusal {
	entries := 3
	if j.limit > 0 {
		entries++
	}
	switch {
	case f.err != nil:
		return refusal{exitUnavailable, proxy + ": " + f.err.Error()}
	case f.Kind == '-':
		return refusal{lockErrorCode(f.Text), f.Text}
	case f.Null:
		return refusal{exitTaken, j.allKeys() + " is taken"}
	case len(f.Elems) != entries:
		return refusal{exitUnavailable, proxy + ": " + errReply.Error()}
	}
	j.granted = time.Now()
	j.token, j.fence = f.Elems[0].Scalar(), f.Elems[1].Scalar()
	if j.limit > 0 {
		j.slot = f.Elems[3].Scalar()
	}
	return refusal{}
}
