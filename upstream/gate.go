package upstream

import (
	"context"
	"sync"
	"time"
)

// Memory stores, for all proxies and beyond the life of this one, whether an upstream wants a
// password. It has several keepers, and each may lose the value at any time. Safe for concurrent
// use.
type Memory interface {
	// Keep stores value with all keepers that can be reached.
	Keep(ctx context.Context, value string)
	// Recall returns the value of each keeper, "" if it has none or cannot be reached.
	Recall(ctx context.Context) []string
}

// Values of a Memory.
const (
	wantsPassword   = "password"
	wantsNoPassword = "none"
)

// keepEvery is how often an answer that stays the same is stored again, for keepers that are new
// or have lost it.
const keepEvery = time.Minute

// Gate knows whether an upstream refuses commands of connections that have not authenticated, also
// while the upstream is down. Other proxies learn it while Run runs. Safe for concurrent use.
type Gate struct {
	u      *Upstream
	memory Memory

	mu       sync.Mutex // held while the memory is asked; concurrent callers share the answer
	recalled string     // empty: not known; guarded by mu
	fresh    time.Time  // recalled is used without asking until then; guarded by mu
}

// NewGate returns a Gate for u that falls back on memory.
func NewGate(u *Upstream, memory Memory) *Gate { return &Gate{u: u, memory: memory} }

// AuthRequired is Upstream.AuthRequired. If that has never had an answer, the memory counts, for a
// second at a time. If it has none either, the error says why the upstream cannot be asked.
func (g *Gate) AuthRequired(ctx context.Context) (bool, error) {
	facts, err := g.u.recent(ctx, g.firstPatience())
	if err == nil || ctx.Err() != nil {
		return facts.AuthRequired, err
	}
	switch g.recall(ctx) {
	case wantsPassword:
		return true, nil
	case wantsNoPassword:
		return false, nil
	}
	return false, err
}

// Known returns what AuthRequired would return without waiting, if it would. It never waits, but
// it asks in time: while it is called, the answer stays fresh.
func (g *Gate) Known() (required, known bool) {
	g.u.mu.Lock()
	defer g.u.mu.Unlock()
	left := time.Until(g.u.fresh)
	if !g.u.known || left <= 0 && !g.u.slow {
		return false, false
	}
	if left < factsLast/2 {
		g.u.askLocked(context.Background())
	}
	return g.u.facts.AuthRequired, true
}

// Last returns the upstream's last answer, however old it is. It never asks and never waits.
func (g *Gate) Last() (required, known bool) {
	facts, at := g.u.lastAnswer()
	return facts.AuthRequired, !at.IsZero()
}

// firstPatience bounds the wait for the upstream's first answer. It is shorter if the memory had
// an answer when it was last asked.
func (g *Gate) firstPatience() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.recalled != "" {
		return patience
	}
	return firstPatience
}

// recall returns the answer of the memory.
func (g *Gate) recall(ctx context.Context) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.After(g.fresh) {
		g.recalled = believed(g.memory.Recall(context.WithoutCancel(ctx)))
		g.fresh = time.Now().Add(factsLast)
	}
	return g.recalled
}

// believed decides by the values of the keepers; "": not known. One "password" is enough, because
// asking for one in vain does no harm. "none" takes a majority of all keepers: a keeper that was
// away when a password was set still has the old value, but such keepers are no majority if a
// majority stored the new one.
func believed(values []string) string {
	none := 0
	for _, value := range values {
		switch value {
		case wantsPassword:
			return wantsPassword
		case wantsNoPassword:
			none++
		}
	}
	if none > len(values)/2 {
		return wantsNoPassword
	}
	return ""
}

// Run stores the upstream's answers until ctx ends: the first one, each that differs, and one
// every minute while the upstream answers. It does not store an old answer again, because other
// proxies may know a newer one. It returns at once if the address has credentials, which make the
// answer unnecessary.
func (g *Gate) Run(ctx context.Context) {
	if g.u.Trusted() {
		return
	}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	var kept time.Time // when the answer came that was stored last
	for {
		facts, at := g.u.lastAnswer()
		if at.After(kept) {
			kept = at
			value := wantsNoPassword
			if facts.AuthRequired {
				value = wantsPassword
			}
			g.memory.Keep(ctx, value)
		}
		select {
		case <-g.u.changed:
		case <-tick.C:
			g.u.AuthRequired(ctx)
		case <-ctx.Done():
			return
		}
	}
}
