package quorum

import (
	"time"

	"lockproxy/quorum/internal/wire"
)

// Values reads, refreshes and releases adopted locks, which were taken with Request.Value.
// Their clients have no token and prove by the value that they hold a lock. But clients use a
// value again. So each attempt to take a lock has a secret of its own, and only the secret
// decides on the masters. They store the value with the lock, so any proxy finds the secret of
// a value.
//
// The methods are safe for concurrent use. They call done once, from any goroutine or event loop,
// perhaps before they return; see Quorum.AcquireAsync.
type Values struct {
	q       *Quorum
	secrets secrets
}

// Values returns the adopted locks.
func (q *Quorum) Values() *Values { return &q.values }

// ValueRequest says which lock is released or refreshed.
type ValueRequest struct {
	// Key is the key without Options.KeyPrefix.
	Key string
	// Value is compared byte for byte. Empty: any adopted lock.
	Value string
	// TTL is the new rest, of RefreshAsync, up to Options.MaxTTL. It is promised like that of a
	// Request with a Value.
	TTL time.Duration
	// Add adds TTL to the rest of the lock as ReadAsync gives it. The sum is at most
	// Options.MaxTTL. It never shortens a lock.
	Add bool
}

// Held says who holds a key, according to a majority of the masters.
type Held struct {
	Held    bool          // a lock of any kind, or a key of another library
	Adopted bool          // the lock was taken with Value
	Value   string        // of an adopted lock
	Fence   uint64        // as Info.Fence, but may be the larger one of a master that granted late
	Rest    time.Duration // of an adopted lock, of the promise; else Info.TTL. Negative: no end
}

// ReleaseAsync releases the lock that was taken with r.Value, on all masters, and passes on
// whether it was held until now: see Quorum.Release.
//
// Errors: ErrNoQuorum (as *NoQuorumError).
func (v *Values) ReleaseAsync(r ValueRequest, done func(held bool, err error)) {
	secret := ""
	if r.Value != "" {
		secret = v.secrets.take(v.q.opts.KeyPrefix+r.Key, r.Value)
	}
	if secret == "" {
		v.releaseFound(r, done)
		return
	}
	v.q.releaseRound(r.Key, Token{Secret: secret}, nil, 0, func(u *broadcast) {
		held, err := u.held()
		if err != nil || u.majoritySaidYes() {
			done(held, err)
			return
		}
		// This may have been a rest, and the lock be of another secret.
		v.releaseFound(r, func(found bool, err error) { done(held || found, ifNot(held, err)) })
	})
}

// majoritySaidYes reports whether a majority of the masters said yes.
func (x *broadcast) majoritySaidYes() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.round.tally.yes >= majority(x.round.tally.n())
}

// ifNot returns err unless held.
func ifNot(held bool, err error) error {
	if held {
		return nil
	}
	return err
}

// releaseFound releases the lock that masters have with the value.
func (v *Values) releaseFound(r ValueRequest, done func(held bool, err error)) {
	v.find(r, v.q.opts.MaxTTL, func(c *candidate, err error) {
		if c == nil {
			done(false, err)
			return
		}
		v.q.release(r.Key, Token{Secret: c.secret}, nil, 0, done)
	})
}

// RefreshAsync makes the lock that was taken with r.Value live for r.TTL from now, more or less
// than before, and passes on whether it was held. A lock that is not held stays so.
//
// Counted from the result, a majority of the masters lets a shortened lock go within Life(r.TTL)
// and 7ms. A shortening has no effect on a refresh, through any proxy, that begins after its
// result, or that masters carry out between its two rounds.
//
// Errors: ErrNoQuorum (as *NoQuorumError) and ErrLate, after which the lock may have been
// refreshed or not; ErrInvalidTTL.
func (v *Values) RefreshAsync(r ValueRequest, done func(held bool, err error)) {
	ttl, err := v.q.opts.wholeTTL(r.TTL)
	if err != nil {
		done(false, err)
		return
	}
	r.TTL = ttl
	secret := ""
	if r.Value != "" && !r.Add {
		secret = v.secrets.get(v.q.opts.KeyPrefix+r.Key, r.Value)
	}
	if secret == "" {
		v.refreshFound(r, 1, done)
		return
	}
	known := refresh{key: r.Key, secret: secret, promise: ttl, granted: true}
	v.q.refresh(known, func(held bool, err error) {
		if held || err != nil {
			done(held, err)
			return
		}
		v.refreshFound(r, 1, done)
	})
}

// maxAdds is how often the rest of a lock is read for Add if another refresh comes between.
const maxAdds = 3

// refreshFound refreshes the lock that masters have with the value.
func (v *Values) refreshFound(r ValueRequest, try int, done func(held bool, err error)) {
	v.find(r, r.TTL, func(c *candidate, err error) {
		if c == nil {
			done(false, err)
			return
		}
		found := refresh{key: r.Key, secret: c.secret, promise: r.TTL, raises: r.Add}
		if r.Add {
			if found.promise, err = v.q.opts.wholeTTL(r.TTL + c.rest); err != nil {
				done(false, err)
				return
			}
		}
		v.q.refresh(found, func(held bool, err error) {
			overtaken, again := err.(overtakenError)
			switch {
			case again && try < maxAdds:
				v.refreshFound(r, try+1, done)
				return
			case again:
				err = overtaken.NoQuorumError
			case held:
				v.secrets.put(v.q.opts.KeyPrefix+r.Key, c.value, c.secret)
			}
			done(held, err)
		})
	})
}

// ReadAsync reads who holds a key. It decides as soon as a majority of the masters agrees, so it
// does not wait for one that is silent.
//
// Errors: ErrNoQuorum (as *NoQuorumError).
func (v *Values) ReadAsync(key string, done func(Held, error)) {
	v.inspect(key, v.q.opts.MaxTTL, readRule, func(values []wire.Inspected, err error) {
		if err != nil {
			done(Held{}, err)
			return
		}
		info, latest, _ := winnerOf(values, majority(len(values)))
		h := Held{Held: info.Held > 0, Fence: info.Fence, Rest: info.TTL}
		if latest != nil {
			h.Value, h.Adopted = wire.ValueOf(latest.Owner)
		}
		if !h.Adopted {
			h.Value = ""
		} else if h.Rest > 0 {
			h.Rest = wire.Promised(h.Rest)
		}
		done(h, nil)
	})
}
