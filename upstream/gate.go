package upstream

import (
	"context"
	"sync"
	"time"
)

// Memory keeps, beyond the life of this process and for all proxies, whether an upstream wants a password. Several keepers hold it, each of which
// may lose it at any time. Safe for concurrent use.
type Memory interface {
	// Keep gives value to all keepers that can be reached.
	Keep(ctx context.Context, value string)
	// Recall returns what each keeper has, one entry for each, empty where it has nothing or cannot be reached.
	Recall(ctx context.Context) []string
}

// What a Memory keeps.
const (
	wantsPassword   = "password"
	wantsNoPassword = "none"
)

// keepEvery is how often the answer is kept again while it stays the same, for keepers that are new or have lost it.
const keepEvery = time.Minute

// Gate knows whether an upstream refuses commands of connections that have not authenticated, also while that is away. Run must run for others to
// learn it from this one. Safe for concurrent use.
type Gate struct {
	u      *Upstream
	memory Memory

	mu       sync.Mutex // held while the memory is asked, which all callers of the moment share
	recalled string     // guarded by mu; empty: not known
	fresh    time.Time  // until then recalled is used without asking; guarded by mu
}

// NewGate returns a Gate for u that falls back on memory.
func NewGate(u *Upstream, memory Memory) *Gate { return &Gate{u: u, memory: memory} }

// AuthRequired is Upstream.AuthRequired; where that has never had an answer the memory counts, for at most a second at a time. If it does not know
// either the error says why the upstream cannot be asked.
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

// Known returns what AuthRequired returns while the upstream's answer is fresh. It asks nobody and
// never waits; known is false where AuthRequired would have to ask.
func (g *Gate) Known() (required, known bool) {
	g.u.mu.Lock()
	defer g.u.mu.Unlock()
	if !g.u.known || !time.Now().Before(g.u.fresh) {
		return false, false
	}
	return g.u.facts.AuthRequired, true
}

// firstPatience is how long the upstream has to answer for the first time: less where the memory knew it a moment ago.
func (g *Gate) firstPatience() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.recalled != "" {
		return patience
	}
	return firstPatience
}

// recall is what the memory says.
func (g *Gate) recall(ctx context.Context) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.After(g.fresh) {
		g.recalled = believed(g.memory.Recall(context.WithoutCancel(ctx)))
		g.fresh = time.Now().Add(factsLast)
	}
	return g.recalled
}

// believed is what counts of the values that the keepers have; empty: not known. One "password" is enough, since to ask for one in vain opens
// nothing. "none" must be the word of a majority of all keepers: those that were away when a password was set still say what was true before,
// and where a majority kept the change they are none, whoever answers now.
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

// Run keeps what the upstream says until ctx ends: when it is learnt, when it changes, and once a minute as long as it can be asked. An old answer is
// not kept again, as others may know a newer one. Where the address has credentials nobody asks, and Run returns at once.
func (g *Gate) Run(ctx context.Context) {
	if g.u.Trusted() {
		return
	}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	var kept time.Time // when the answer came that was kept last
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
