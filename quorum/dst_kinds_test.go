package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// kindsPlan is what clients ask for that is not exclusive, as shares of all that they take. What
// is left is exclusive and of one key.
type kindsPlan struct {
	shared  float64
	limited float64
	limit   int // at most; each asks for its own
	several float64
	keep    float64 // share of releases that keep the lock closed
	share   float64 // share of extensions of an exclusive lock that make it shared
	waits   float64 // share of those who say that they wait
}

func (k *kindsPlan) none() bool { return *k == kindsPlan{} }

// draw makes a mix of kinds.
func (k *kindsPlan) draw(r *rand.Rand) {
	*k = kindsPlan{shared: some(r, 0.6), limited: some(r, 0.4), limit: 1 + r.IntN(4), several: some(r, 0.3), keep: some(r, 0.15),
		share: some(r, 0.4), waits: some(r, 0.5)}
}

// want is what the client asks for next, with that key among others.
func (c *simClient) want(key string) Request {
	k := &c.w.plan.clients.kinds
	r := Request{Key: key, TTL: c.ttl()}
	if k.none() {
		return r
	}
	r.Waits = c.chance(k.waits)
	switch p := c.random.Float64(); {
	case p < k.shared:
		r.Mode = Shared
	case p < k.shared+k.limited:
		r.Mode, r.Limit = Limited, 1+c.random.IntN(k.limit)
	case c.chance(k.several):
		for range 1 + c.random.IntN(2) {
			if other := c.key(); other != key && !slices.Contains(r.Keys, other) {
				r.Keys = append(r.Keys, other)
			}
		}
	}
	return r
}

// kindText is what a request says beside key and ttl.
func kindText(r Request) string {
	text := ""
	if r.Mode != Exclusive {
		text = fmt.Sprint(r.Mode, " ", r.Limit)
	}
	if r.Keys != nil {
		text += fmt.Sprint(" and ", r.Keys)
	}
	if r.Waits {
		text += " waits"
	}
	return text
}

func slotText(r Request, lease Lease) string {
	if r.Mode != Limited {
		return fmt.Sprint("fence ", lease.Token.Fence)
	}
	return fmt.Sprint("slot ", lease.Slot, " fence ", lease.Token.Fence)
}

// extendAs extends a lease as its kind wants it, or makes it shared.
func (c *simClient) extendAs(ctx context.Context, cl *claim, pr *simProxy, ttl time.Duration) (time.Duration, error) {
	share := cl.mode == Exclusive && len(cl.keys) == 1 && c.chance(c.w.plan.clients.kinds.share)
	if share {
		c.w.ledger.shares(cl)
	}
	if share || len(cl.keys) > 1 {
		return pr.q.ExtendKeys(ctx, cl.keys, cl.token, ttl, share)
	}
	return pr.q.Extend(ctx, cl.key, cl.token, ttl)
}

// releaseAs releases a lease, or keeps it closed.
func (c *simClient) releaseAs(ctx context.Context, call *giving) {
	keep := time.Duration(0)
	if c.chance(c.w.plan.clients.kinds.keep) {
		keep = c.ttl()
	}
	cl, began := call.cl, time.Now()
	held, err := call.pr.q.ReleaseKeys(ctx, cl.keys, cl.token, keep)
	if keep > 0 && held && err == nil && !c.w.crashed(call.pr) {
		c.w.ledger.keeps(cl, cl.keys, began.Add(keep-drift(keep)))
	}
	call.finish(held, err)
}
