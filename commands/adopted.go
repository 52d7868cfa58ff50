package commands

import (
	"errors"
	"strconv"
	"time"

	"lockproxy/commands/internal/adopt"
	"lockproxy/commands/internal/queue"
	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// run asks the masters to carry out a command on a lock key.
func (a *adopter) run(k *adoptedCall) {
	switch k.how.Do {
	case adopt.Take:
		a.take(k, k.notHeld)
	case adopt.RefreshOrTake:
		a.refreshOrTake(k)
	case adopt.Refresh:
		a.refresh(k, k.how.Value, func() { a.fails(k, stat.OutcomeLost) })
	case adopt.Release:
		a.release(k)
	case adopt.Read:
		a.values.ReadAsync(k.how.Key, func(held quorum.Held, err error) {
			k.end(func() { a.read(k, held, err) })
		})
	}
}

// answer writes the reply that the library of k expects.
func (k *adoptedCall) answer(outcome adopt.Result) {
	k.reply = k.how.Append(k.reply, outcome, k.session.RESP3())
}

// take takes the lock. If another holds it, refused is called.
func (a *adopter) take(k *adoptedCall, refused func(err error)) {
	want := quorum.Request{Key: k.how.Key, Value: k.how.Value, TTL: k.how.TTL}
	leave := a.opts.Locker.AcquireAsync(want, func(lease quorum.Lease, err error) {
		if decided := time.Now(); err == nil {
			k.end(func() { a.taken(k, lease, time.Since(decided)) })
			return
		}
		if errors.Is(err, quorum.ErrHeld) {
			refused(err)
			return
		}
		k.end(func() { a.failed(k, err) })
	})
	if leave != nil {
		k.mayLeave(leave, func(err error) { k.end(func() { a.failed(k, err) }) })
	}
}

// taken replies to a client that has got the lock. late is how long the answer has waited for the
// goroutine that writes it: the client counts its ttl from the reply.
func (a *adopter) taken(k *adoptedCall, lease quorum.Lease, late time.Duration) {
	release := func() {
		a.opts.Locker.Abandon(k.key, lease.Token)
		a.queues.Released(k.key, lease.Token.Secret)
	}
	if lease.Validity-late < k.how.TTL {
		release()
		a.failed(k, quorum.ErrLate)
		return
	}
	a.outcomes.count(&k.call, stat.OutcomeGranted)
	k.token.Fence = lease.Token.Fence
	a.grants.granted(k.key, lease.Token, quorum.Exclusive)
	a.grants.adopted(k.key, k.how.Value, k.how.TTL)
	k.session.OnUndelivered(func() {
		release()
		a.outcomes.reportUndelivered(&k.call)
	})
	k.answer(adopt.Done)
}

// failed writes the reply to a command that got no answer from the masters. Libraries take null
// for "taken" and try again, so a grant that came too late is null, too. A Refresh that came too
// late is an error: null would tell the holder that it has lost the lock. A late RefreshOrTake is
// null, also if it was the holder's.
func (a *adopter) failed(k *adoptedCall, err error) {
	switch {
	case errors.Is(err, quorum.ErrLate) && k.how.Do != adopt.Refresh:
		a.outcomes.count(&k.call, stat.OutcomeTryAgain)
		k.answer(adopt.NotHeld)
	case errors.Is(err, queue.ErrDisconnected):
		a.outcomes.count(&k.call, stat.OutcomeGone)
		k.answer(adopt.NotHeld)
	default:
		a.outcomes.writeFailure(&k.call, err)
	}
}

// notHeld replies that another holds the lock.
func (k *adoptedCall) notHeld(error) {
	k.end(func() {
		k.service.outcomes.count(&k.call, stat.OutcomeTaken)
		k.answer(adopt.NotHeld)
	})
}

// refreshOrTake refreshes a lock with this value, or takes a free one. If this proxy has granted
// the lock, it begins with the refresh: one round, which LOCKs in the intake do not delay.
// Otherwise it begins with the acquire, which needs one round for a free lock.
func (a *adopter) refreshOrTake(k *adoptedCall) {
	known := a.grants.knowsValue(k.key, k.how.Value)
	refused := func(err error) {
		switch {
		case k.how.Prefix > 0:
			a.replace(k)
		case known:
			k.notHeld(err)
		default:
			a.refresh(k, k.how.Value, func() { k.notHeld(err) })
		}
		a.opts.Locker.Flush()
	}
	if !known {
		a.take(k, refused)
		return
	}
	a.refresh(k, k.how.Value, func() {
		a.grants.releasedValue(k.key, k.how.Value)
		a.take(k, refused)
		a.opts.Locker.Flush()
	})
}

// refresh sets the rest of the lock with that value. If none has it, lost is called.
func (a *adopter) refresh(k *adoptedCall, value string, lost func()) {
	want := quorum.ValueRequest{Key: k.how.Key, Value: value, TTL: k.how.TTL, Add: k.how.Add}
	a.values.RefreshAsync(want, func(held bool, err error) {
		switch {
		case errors.Is(err, quorum.ErrInvalidTTL):
			a.tooLong(k)
		case err != nil:
			k.end(func() { a.failed(k, err) })
		case !held:
			lost()
		default:
			k.end(func() { a.refreshed(k) })
		}
	})
}

// tooLong refuses a ttl that only exceeds max-ttl together with the rest of the lock.
func (a *adopter) tooLong(k *adoptedCall) {
	a.values.ReadAsync(k.how.Key, func(held quorum.Held, err error) {
		k.end(func() {
			if err != nil {
				a.failed(k, err)
				return
			}
			sum := strconv.AppendInt(nil, (held.Rest + k.how.TTL).Milliseconds(), 10)
			if _, err = a.parser.parseTTL(k.name, sum); err == nil { // meanwhile it would fit
				a.failed(k, quorum.ErrLate)
				return
			}
			a.refuse(k, &adopt.Refusal{Text: err.Error(), Reason: adopt.ReasonTTL, Key: plain.Short(k.how.Key)})
		})
	})
	a.opts.Locker.Flush()
}

func (a *adopter) refreshed(k *adoptedCall) {
	a.outcomes.count(&k.call, stat.OutcomeExtended)
	if k.how.Value != "" && !k.how.Add {
		k.adopted.shortened = a.grants.refreshed(k.key, k.how.Value, k.how.TTL)
	}
	if k.how.Do == adopt.RefreshOrTake {
		k.adopted.renewed = true
		k.answer(adopt.Renewed)
		return
	}
	k.answer(adopt.Done)
}

// replace is for a lock that is held, perhaps with a value that begins like that of k. redislock
// compares the beginning only, and stores the whole value anew. The masters cannot exchange the
// value of a lock, so it is released and taken.
func (a *adopter) replace(k *adoptedCall) {
	a.values.ReadAsync(k.how.Key, func(held quorum.Held, err error) {
		value, n := held.Value, k.how.Prefix
		switch {
		case errors.Is(err, quorum.ErrNoQuorum): // a majority has just refused: it is held, by rests perhaps
			k.notHeld(err)
			return
		case err != nil:
			k.end(func() { a.failed(k, err) })
			return
		case !held.Adopted || len(value) < n || len(k.how.Value) < n || value[:n] != k.how.Value[:n]:
			k.notHeld(quorum.ErrHeld)
			return
		case value == k.how.Value:
			a.refresh(k, value, func() { k.notHeld(quorum.ErrHeld) })
		default:
			a.values.ReleaseAsync(quorum.ValueRequest{Key: k.how.Key, Value: value}, func(_ bool, err error) {
				if err != nil {
					k.end(func() { a.failed(k, err) })
					return
				}
				a.take(k, k.notHeld)
				a.opts.Locker.Flush()
			})
		}
		a.opts.Locker.Flush()
	})
}

// release releases the lock if it has the value.
func (a *adopter) release(k *adoptedCall) {
	want := quorum.ValueRequest{Key: k.how.Key, Value: k.how.Value}
	a.values.ReleaseAsync(want, func(held bool, err error) {
		switch {
		case err != nil:
			k.end(func() { a.failed(k, err) })
		case !held:
			a.fails(k, stat.OutcomeNotHeld)
		default:
			k.end(func() {
				a.outcomes.count(&k.call, stat.OutcomeReleased)
				k.held = a.grants.releasedValue(k.key, k.how.Value)
				a.queues.Wake(k.key)
				k.answer(adopt.Done)
			})
		}
	})
}

// fails replies that no lock has the value. Some libraries want to know whether there is a lock.
func (a *adopter) fails(k *adoptedCall, outcome stat.Outcome) {
	end := func(how adopt.Result) {
		k.end(func() {
			a.outcomes.count(&k.call, outcome)
			k.answer(how)
		})
	}
	if !k.how.TellsFree() {
		end(adopt.NotHeld)
		return
	}
	a.values.ReadAsync(k.how.Key, func(held quorum.Held, err error) {
		if err == nil && !held.Held {
			end(adopt.Free)
			return
		}
		end(adopt.NotHeld) // without a majority, too: the value does not hold the lock
	})
	a.opts.Locker.Flush()
}

// read writes the reply to a command that reads.
func (a *adopter) read(k *adoptedCall, held quorum.Held, err error) {
	if err != nil {
		a.failed(k, err)
		return
	}
	a.outcomes.count(&k.call, stat.OutcomeOK)
	k.reply = k.how.AppendRead(k.reply, adopt.Holding(held), k.session.RESP3())
}
