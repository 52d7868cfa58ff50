package quorum

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Release takes the token away from key on every master (the script of step 5), and reports whether the lock was held until
// now: false says that provably no majority held the token any more, or ever. It answers as soon as that is certain, at
// the latest after Options.MasterTimeout.
//
// Whatever it returns, also when ctx has ended, the release goes on in the background on masters that have not answered,
// until the token cannot stand anywhere any more. Those who Watch the key are told. Errors: ErrNoQuorum (as *NoQuorumError), or context.Cause(ctx).
//
// Only the secret of t decides. Safe for concurrent use.
func (q *Quorum) Release(ctx context.Context, key string, t Token) (bool, error) {
	q.enter()
	defer q.leave()
	u := q.pools.unlocks.Get().(*unlock)
	u.begin(debtKey{q.opts.KeyPrefix + key, t.Secret})
	defer u.leave()
	u.ask()
	q.late.forget(u.debtKey) // the release is behind whatever may be late
	if err := u.wait(ctx, q.releaseTime()); err != nil {
		return false, err
	}
	return u.decide()
}

// Abandon releases a token on every master in the background, for as long as it may stand anywhere, and tells those who
// Watch the key. It is for a lease whose holder could not be told, or is gone.
func (q *Quorum) Abandon(key string, t Token) {
	k := debtKey{q.opts.KeyPrefix + key, t.Secret}
	q.releaseEverywhere(k, true)
	q.late.forget(k)
}

// AbandonLost is Abandon for a lock of which Extend said ErrLost. It begins when an UNLOCK that may be the reason, through whichever proxy,
// has had its answer.
func (q *Quorum) AbandonLost(key string, t Token) { q.afterReleases(func() { q.Abandon(key, t) }) }

// releaseRest releases what is left of a lock that was found lost, but for the masters in v. The reason may be that another proxy is releasing
// it: what came first at a master that has still to hear of that would make its UNLOCK answer that the lock was lost before. So it waits until
// that one has had its time.
func (q *Quorum) releaseRest(k debtKey, v voters) { q.afterReleases(func() { q.releaseBut(k, v) }) }

// releaseTime is how long Release waits for answers. It is the same in all proxies that have the same MasterTimeout.
func (q *Quorum) releaseTime() time.Duration { return max(q.opts.MasterTimeout, minAttempt) }

// releaseEverywhere makes every lane owe the release of a token that may have landed on it. publish is for the release of
// a lock that somebody held: what remains of others is nobody's news.
func (q *Quorum) releaseEverywhere(k debtKey, publish bool) {
	asking := q.askers.of(k.secret) // a repetition that tells nobody must not be first anywhere
	asking.Add(1)
	defer asking.Add(-1)
	for _, l := range q.lanes {
		_ = l.release(debt{debtKey: k, ttl: q.opts.MaxTTL, publish: publish}, false, nil)
	}
}

// releaseBut is releaseEverywhere without the masters in v.
func (q *Quorum) releaseBut(k debtKey, v voters) {
	for i, l := range q.lanes {
		if !v.has(i) {
			_ = l.release(debt{debtKey: k, ttl: q.opts.MaxTTL}, false, nil)
		}
	}
}

// askers counts those who are asking the masters for a release at the moment, by a part of the secret. On a busy machine one may be stopped
// between two masters for so long that the first has carried the release out late, or owed it and is back, before the second was asked: a
// repetition that comes first there would take the token away, and the answer would be that it did not stand.
type askers [4096]atomic.Int32

func (a *askers) of(secret string) *atomic.Int32 {
	var sum uint
	for _, c := range []byte(secret[:min(len(secret), 8)]) {
		sum = sum*31 + uint(c)
	}
	return &a[sum%uint(len(a))]
}

// unlock is one Release under way.
type unlock struct {
	q *Quorum
	waiter
	users
	debtKey

	clock stopwatch

	mu      sync.Mutex
	verdict verdict
	tally   unlockTally
	errs    []error // by master: why it gave no answer
	silent  []bool  // by master: nothing has come yet
}

var _ receiver = (*unlock)(nil)

func (u *unlock) begin(k debtKey) {
	u.users.start()
	u.debtKey, u.verdict, u.clock = k, open, startWatch()
	u.tally = unlockTally{pending: len(u.errs)}
	u.silent = u.silent[:0]
	for range u.errs {
		u.silent = append(u.silent, true)
	}
	clear(u.errs)
	u.waiter.reset()
}

// leave is called once for each user.
func (u *unlock) leave() {
	if u.users.done() {
		u.debtKey = debtKey{}
		u.q.pools.unlocks.Put(u)
	}
}

func (u *unlock) ask() {
	asking := u.q.askers.of(u.secret)
	asking.Add(1)
	defer asking.Add(-1)
	for i := range u.q.lanes {
		u.askOne(i)
	}
}

func (u *unlock) askOne(lane int) {
	u.users.add()
	if err := u.q.lanes[lane].release(debt{debtKey: u.debtKey, ttl: u.q.opts.MaxTTL, publish: true}, false, u); err != nil {
		u.answered(lane, nil, err)
		u.leave()
	}
}

func (u *unlock) reply(lane int, _ opKind, r *reply) {
	if r.kind == ':' {
		u.answered(lane, r, nil)
	} else {
		u.answered(lane, nil, answered(r))
	}
	u.leave()
}

func (u *unlock) gone(lane int, _ opKind, err error, _ bool) {
	u.answered(lane, nil, err)
	u.leave()
}

// answered takes what a master said, or err if that does not count.
func (u *unlock) answered(lane int, r *reply, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.silent[lane], u.errs[lane] = false, err
	u.tally.pending--
	switch {
	case err != nil:
		u.tally.none++
	case r.is(1):
		u.tally.deleted++
	case u.clock.elapsed() > u.q.releaseTime(): // it may be gone because others saw what this release did: see releaseRest
		u.tally.none++
		u.errs[lane] = silentError(u.q.releaseTime())
	default:
		u.tally.notOurs++
	}
	if u.verdict == open {
		if u.verdict = u.tally.decide(); u.verdict != open {
			u.signal()
		}
	}
}

// decide ends the waiting.
func (u *unlock) decide() (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.verdict == open {
		u.verdict = u.tally.atDeadline()
	}
	switch u.verdict {
	case won:
		return true, nil
	case lost:
		return false, nil
	}
	e := &NoQuorumError{Answered: u.tally.deleted + u.tally.notOurs, N: len(u.errs), Needed: majority(len(u.errs))}
	for i, err := range u.errs {
		if u.silent[i] {
			err = silentError(u.q.releaseTime())
		}
		if err != nil {
			e.Masters = append(e.Masters, MasterError{Index: i, Name: u.q.lanes[i].names[i], Err: err})
		}
	}
	return false, e
}
