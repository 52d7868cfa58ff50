package compare

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// pairKey begins the keys that the final search looks for.
const pairKey = "pair-"

// strayTTL is the ttl of all locks in rounds that count strays: expiry may not hide any.
const strayTTL = time.Minute

// atMost bounds the duration of a fault if a subject waits for its end.
const atMost = 20 * time.Second

// pairs are locks and unlocks of separate keys, side by side, by both clients in turn.
type pairs struct {
	n        int
	begun    time.Time
	goOn     chan struct{} // closed when unlocking may begin
	locked   atomic.Int32
	unlocked atomic.Int32
	wg       sync.WaitGroup
}

// startPairs begins n pairs, spread over some time. Each holds its lock for a while.
func startPairs(clients [2]client, n int, spread, hold time.Duration) *pairs {
	p := &pairs{n: n, begun: time.Now(), goOn: make(chan struct{})}
	for i := range n {
		p.wg.Go(func() {
			<-time.After(spread * time.Duration(i) / time.Duration(n))
			c := clients[i%2]
			g, ok := lockBy(c, pairKey+strconv.Itoa(i), strayTTL, p.begun.Add(strayTTL/2))
			if !ok {
				return
			}
			p.locked.Add(1)
			<-time.After(hold)
			<-p.goOn
			// A library that could not reach all masters returns an error here, and may then
			// forget the lock.
			_ = c.unlock(g)
			p.unlocked.Add(1)
		})
	}
	return p
}

// await waits until count has reached all pairs, or until the limit.
func (p *pairs) await(count *atomic.Int32, limit time.Duration) {
	lab.Poll(limit, func() bool { return int(count.Load()) == p.n })
}

// strays waits for pending commands and late clean-up, and counts the keys that a master still
// has although their locks were released.
func (p *pairs) strays(t *testing.T, masters []*lab.Redis) int {
	t.Helper()
	p.wg.Wait()
	left := map[string]bool{}
	lab.Poll(3*time.Second*lab.Slack, func() bool {
		clear(left)
		for _, keys := range lab.Census(t, masters) {
			for _, key := range keys {
				if strings.HasPrefix(key, pairKey) {
					left[key] = true
				}
			}
		}
		return len(left) == 0
	})
	if time.Since(p.begun) > strayTTL*9/10 {
		t.Fatal("the round took so long that keys may have expired")
	}
	return len(left)
}
