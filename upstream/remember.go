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
	// patience bounds the wait for a question if there is an older answer. An upstream that hangs
	// must not slow locks down.
	patience = 100 * time.Millisecond
	// firstPatience bounds the wait without an older answer. Then no client may lock, and clients
	// should learn that before they give up.
	firstPatience = time.Second
)

// question is one Ask, which concurrent callers share.
type question struct {
	done  chan struct{} // closed when facts and err are set
	late  chan struct{} // closed when patience has run out
	begun time.Time
	facts GuestRules
	err   error
}

// AuthRequired reports whether the upstream refuses commands on a connection that has not
// authenticated. The answer is at most a second old while the upstream can be asked. If it cannot
// be asked in time, the last known answer counts, however old it is. If there is none, after at
// most a second, the error says why, and the caller must refuse. Concurrent callers share one
// question. If ctx ends first, the error is context.Cause.
//
// The answer is about a connection without credentials, also if the address has some.
func (u *Upstream) AuthRequired(ctx context.Context) (bool, error) {
	facts, err := u.recent(ctx, firstPatience)
	return facts.AuthRequired, err
}

// LastFacts returns the last known answer without asking. Without one it assumes a Redis without a
// password.
func (u *Upstream) LastFacts() GuestRules {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.known {
		return GuestRules{Resets: true}
	}
	return u.facts
}

// lastAnswer returns the last known answer and when it came; the zero time if there is none.
func (u *Upstream) lastAnswer() (GuestRules, time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.facts, u.answered
}

// ServesWithoutAuth reports whether the upstream serves this proxy's connections before the client
// sends AUTH: it needs none, or Dial logs in. Errors are those of AuthRequired, but it waits for a
// first answer for up to Options.DialTimeout.
func (u *Upstream) ServesWithoutAuth(ctx context.Context) (bool, error) {
	if u.Trusted() {
		return true, nil
	}
	facts, err := u.recent(ctx, u.opts.DialTimeout)
	return !facts.AuthRequired && err == nil, err
}

// recent returns facts that are not older than factsLast, or the last known ones if those cannot
// be had. Without any it waits for first, counted from the start of the question.
func (u *Upstream) recent(ctx context.Context, first time.Duration) (GuestRules, error) {
	u.mu.Lock()
	facts, known := u.facts, u.known
	if known && time.Now().Before(u.fresh) {
		u.mu.Unlock()
		return facts, nil
	}
	q, slow := u.askLocked(ctx), u.slow
	u.mu.Unlock()

	if known && slow { // the last question was late, so only its caller waited
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
		return GuestRules{}, fmt.Errorf("ask %s: %w", u.opts.Name, os.ErrDeadlineExceeded)
	case <-ctx.Done():
		return GuestRules{}, fmt.Errorf("ask %s: %w", u.opts.Name, context.Cause(ctx))
	}
	if q.err != nil && known {
		return facts, nil
	}
	return q.facts, q.err
}

// askLocked returns the question that is being asked, or begins one.
func (u *Upstream) askLocked(ctx context.Context) *question {
	if u.question == nil {
		u.question = &question{done: make(chan struct{}), late: make(chan struct{}), begun: time.Now()}
		// Callers share the question, so it must not end with the first one. DialTimeout bounds
		// it.
		go u.settle(context.WithoutCancel(ctx), u.question)
	}
	return u.question
}

// settle asks q and notes the answer. After a failure the last known answer counts for factsLast,
// so that not every lock asks an upstream that is down.
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
