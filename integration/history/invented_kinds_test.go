package history

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// inventKinds is invent for locks of all kinds.
func inventKinds(seed uint64, n, keys, clients int) []Op {
	in := &inventor{Rand: rand.New(rand.NewPCG(seed, 1)), clients: clients}
	in.kinds = append(in.kinds, (*inventor).tenure, (*inventor).era, (*inventor).slots,
		(*inventor).downgraded)
	return in.write(n, keys)
}

// granted returns a LOCK that was granted at about the given time.
func (in *inventor) granted(key string, at, ttl time.Duration, fence uint64) Op {
	token := fmt.Sprintf("%016d:%08x%032x", fence, in.Uint32(), in.Uint64())
	o := Op{Client: in.IntN(in.clients), Kind: Lock, Outcome: OK, Key: key, Token: token, Fence: fence,
		TTL: ttl, Call: at - in.upTo(5*time.Millisecond), Return: at + in.upTo(5*time.Millisecond)}
	o.Validity = ttl - (at - o.Call) - ttl/100
	return o
}

// leave ends a holder, by UNLOCK, by UNLOCK KEEP or by expiry. It returns the time from which its
// place is free.
func (in *inventor) leave(o Op, at, until time.Duration) (free time.Duration) {
	u := Op{Client: o.Client, Kind: Unlock, Outcome: OK, Key: o.Key, Token: o.Token,
		Call: at + in.upTo(20*time.Millisecond)}
	u.Return = u.Call + in.upTo(5*time.Millisecond)
	switch in.IntN(3) {
	case 0:
		in.ops = append(in.ops, o)
		return until
	case 1:
		u.TTL, u.Validity = 80*time.Millisecond, 78*time.Millisecond
		in.ops = append(in.ops, o, u)
		return u.Return + u.TTL
	}
	u.Outcome = Outcome(in.IntN(2))
	in.ops = append(in.ops, o, u)
	return u.Return
}

// era invents readers, each granted while another reads. All of one era have the same fence.
func (in *inventor) era(key string, at time.Duration) (free time.Duration) {
	in.fence++
	free = at
	for range 1 + in.IntN(6) {
		at += in.upTo(8 * time.Millisecond)
		o := in.granted(key, at, 100*time.Millisecond+in.upTo(200*time.Millisecond), in.fence)
		o.Mode = Shared
		free = max(free, in.leave(o, o.Return, o.Until()))
	}
	return free
}

// slots invents holders of several slots at the same time.
func (in *inventor) slots(key string, at time.Duration) (free time.Duration) {
	limit := 1 + in.IntN(4)
	for slot := range limit {
		free = max(free, at)
		for turn := at; in.IntN(3) > 0; free = max(free, turn) {
			in.fence++
			turn += in.upTo(2 * time.Millisecond)
			o := in.granted(key, turn, 100*time.Millisecond+in.upTo(200*time.Millisecond), in.fence)
			o.Mode, o.Slot, o.Limit = Limited, slot, limit
			turn = in.leave(o, o.Return, o.Until())
		}
	}
	return free
}

// downgraded invents a writer that becomes a reader, and readers that join it.
func (in *inventor) downgraded(key string, at time.Duration) (free time.Duration) {
	in.fence++
	writer := in.granted(key, at+in.upTo(2*time.Millisecond), 300*time.Millisecond, in.fence)
	d := Op{Client: writer.Client, Kind: Extend, Mode: Shared, Outcome: OK, Key: key,
		Token: writer.Token, TTL: writer.TTL, Validity: writer.TTL - 5*time.Millisecond}
	d.Call = writer.Return + in.upTo(20*time.Millisecond)
	d.Return = d.Call + in.upTo(5*time.Millisecond)
	until := max(writer.Until(), d.Until())
	if in.IntN(4) == 0 {
		d.Outcome, until = Unknown, writer.Until()
	}
	in.ops = append(in.ops, d)
	free = in.era(key, d.Return)
	return max(free, in.leave(writer, d.Return, until))
}
