package upstream

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	// factsLast is how long an answer is used without asking again.
	factsLast = time.Second
	// patience is how long a caller waits for a question while an older answer is at hand. An upstream that
	// hangs must not slow locks down, whose masters may well be alive.
	patience = 100 * time.Millisecond
	// firstPatience is how long one waits if there is no older answer. Without one nobody may lock, and clients
	// should be told so before they give up by themselves.
	firstPatience = time.Second
)

// question is one Ask that all callers of the moment share.
type question struct {
	done  chan struct{} // closed when facts and err are set
	late  chan struct{} // closed when patience has run out
	begun time.Time
	facts Facts
	err   error
}

// AuthRequired tells whether the upstream refuses commands on a connection that has not authenticated. The
// answer is at most a second old while the upstream can be asked; concurrent callers share one question. If it
// cannot be asked, or not soon, the last known answer counts, whatever its age; if there is none, the error says
// why, and the caller must refuse; that takes a second at most. A caller whose ctx ends gets context.Cause.
//
// It says nothing about Trusted: with credentials in the address the answer is still about a connection
// without them.
func (u *Upstream) AuthRequired(ctx context.Context) (bool, error) {
	facts, err := u.recent(ctx, firstPatience)
	return facts.AuthRequired, err
}

// LastFacts returns the last known answer without asking. Where there is none the upstream is taken for a Redis without a password.
func (u *Upstream) LastFacts() Facts {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.known {
		return Facts{Resets: true}
	}
	return u.facts
}

// lastAnswer is the last known answer and when it came; the zero time if there is none.
func (u *Upstream) lastAnswer() (Facts, time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.facts, u.answered
}

// ServesWithoutAuth tells whether the upstream serves this proxy's connections although the client sent no AUTH
// of its own: it needs none, or the address has the credentials. Errors as AuthRequired, but it waits for a first answer
// until ctx ends.
func (u *Upstream) ServesWithoutAuth(ctx context.Context) (bool, error) {
	if u.Trusted() {
		return true, nil
	}
	facts, err := u.recent(ctx, u.opts.DialTimeout)
	return !facts.AuthRequired && err == nil, err
}

// recent returns facts not older than factsLast, or the last known ones where those cannot be had. If there are none it waits as long as
// first for an answer, counted from when it was asked for.
func (u *Upstream) recent(ctx context.Context, first time.Duration) (Facts, error) {
	u.mu.Lock()
	facts, known := u.facts, u.known
	if known && time.Now().Before(u.fresh) {
		u.mu.Unlock()
		return facts, nil
	}
	q := u.question
	if q == nil {
		q = &question{done: make(chan struct{}), late: make(chan struct{}), begun: time.Now()}
		u.question = q
		// Callers share the question, so it must not end with the one that happened to ask. DialTimeout
		// bounds it.
		go u.settle(context.WithoutCancel(ctx), q)
	}
	slow := u.slow
	u.mu.Unlock()

	if known && slow { // it did not answer in time before: no second caller waits for that
		return facts, nil
	}
	late := q.late
	var never <-chan time.Time
	if !known {
		late = nil
		timer := time.NewTimer(time.Until(q.begun.Add(first)))
		defer timer.Stop()
		never = timer.C
	}
	select {
	case <-q.done:
	case <-late:
		return facts, nil
	case <-never:
		return Facts{}, fmt.Errorf("ask %s: %w", u.opts.Name, os.ErrDeadlineExceeded)
	case <-ctx.Done():
		return Facts{}, fmt.Errorf("ask %s: %w", u.opts.Name, context.Cause(ctx))
	}
	if q.err != nil && known {
		return facts, nil
	}
	return q.facts, q.err
}

// settle asks q and notes the answer. After a failure the last known answer counts for factsLast, too, so that a
// dead upstream is not asked for every lock.
func (u *Upstream) settle(ctx context.Context, q *question) {
	timer := time.AfterFunc(patience, func() {
		u.mu.Lock()
		u.slow = true
		u.mu.Unlock()
		close(q.late)
	})
	q.facts, q.err = u.Ask(ctx)
	inTime := timer.Stop()
	u.mu.Lock()
	if q.err == nil {
		if !u.known || u.facts.AuthRequired != q.facts.AuthRequired {
			select {
			case u.changed <- struct{}{}:
			default:
			}
		}
		u.facts, u.known, u.answered = q.facts, true, time.Now()
	}
	u.slow = !inTime
	u.fresh = time.Now().Add(factsLast)
	u.question = nil
	u.mu.Unlock()
	close(q.done)
}
