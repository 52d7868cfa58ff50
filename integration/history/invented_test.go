package history

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// inventor invents histories of a correct lock. Every key has one holder after another, and other
// clients that try in vain meanwhile.
type inventor struct {
	*rand.Rand
	clients int
	ops     []Op
	fence   uint64
	kinds   []func(in *inventor, key string, at time.Duration) time.Duration
}

// invent returns a legal history of about n operations on some keys, sorted by return.
func invent(seed uint64, n, keys, clients int) []Op {
	in := &inventor{Rand: rand.New(rand.NewPCG(seed, 0)), clients: clients}
	in.kinds = append(in.kinds, (*inventor).tenure)
	return in.write(n, keys)
}

// write invents about n operations.
func (in *inventor) write(n, keys int) []Op {
	for k := range keys {
		key, at := fmt.Sprintf("key-%d", k), time.Duration(in.IntN(int(time.Second)))
		for len(in.ops) < n*(k+1)/keys {
			at = in.kinds[in.IntN(len(in.kinds))](in, key, at)
		}
	}
	slices.SortFunc(in.ops, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	return in.ops
}

func (in *inventor) upTo(d time.Duration) time.Duration {
	return time.Duration(in.Int64N(int64(d))) + 1
}

func (in *inventor) token() (string, uint64) {
	in.fence += 1 + in.Uint64N(3)
	return fmt.Sprintf("%016d:%08x%032x", in.fence, in.Uint32(), in.Uint64()), in.fence
}

// tenure invents one holder of key from about the given time. It returns the time from which the
// lock is free.
func (in *inventor) tenure(key string, at time.Duration) (free time.Duration) {
	at += in.upTo(2 * time.Millisecond) // the moment of the grant
	token, fence := in.token()
	ttl := 300*time.Millisecond + in.upTo(700*time.Millisecond)
	lock := Op{Client: in.IntN(in.clients), Kind: Lock, Outcome: OK, Key: key, Token: token, Fence: fence, TTL: ttl,
		Call: at - in.upTo(5*time.Millisecond), Return: at + in.upTo(5*time.Millisecond)}
	lock.Validity = ttl - (at - lock.Call) - ttl/100
	until := lock.Until()
	in.ops = append(in.ops, lock)
	for at = lock.Return; in.IntN(3) == 0; { // extensions
		e := Op{Client: lock.Client, Kind: Extend, Outcome: OK, Key: key, Token: token, TTL: ttl, Validity: ttl - ttl/50}
		e.Call = at + in.upTo(20*time.Millisecond)
		e.Return = e.Call + in.upTo(5*time.Millisecond)
		at, until = e.Return, max(until, e.Until())
		in.ops = append(in.ops, e)
	}
	free = until
	if in.IntN(5) > 0 {
		u := Op{Client: lock.Client, Kind: Unlock, Outcome: OK, Key: key, Token: token, Call: at +
			in.upTo(20*time.Millisecond)}
		u.Return = u.Call + in.upTo(5*time.Millisecond)
		u.Outcome = Outcome(in.IntN(2)) // the reply may have been lost
		free = u.Call + in.upTo(u.Return-u.Call)
		in.ops = append(in.ops, u)
	} else if in.IntN(2) == 0 { // too late
		call := until + in.upTo(time.Millisecond)
		in.ops = append(in.ops, Op{Client: lock.Client, Kind: Unlock, Outcome: No, Key: key, Token: token, Call: call,
			Return: call + 1})
	}
	for range in.IntN(4) {
		call := at + in.upTo(20*time.Millisecond)
		in.ops = append(in.ops, Op{Client: in.IntN(in.clients), Kind: Lock,
			Outcome: []Outcome{No, Failed, Unknown}[in.IntN(3)],
			Key:     key, TTL: ttl, Call: call, Return: call + in.upTo(5*time.Millisecond)})
	}
	return free
}
