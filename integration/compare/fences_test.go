package compare

import (
	"sync"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// risingFences lets both clients lock one key repeatedly, while masters lose their memory: two of
// three, then all. It counts grants with a number that is not greater than an earlier grant's.
func risingFences(t *testing.T, s subject, size size) tally {
	f := plain(t, 3, time.Second)
	clients := begin(t, s, f, 1)
	log, over := history.NewLog(), make(chan struct{})
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { lockOn(c, log, over) })
	}
	for _, wiped := range [][]*lab.Redis{f.masters[:2], f.masters[1:], f.masters} {
		awaitGrants(t, log, 20)
		for _, m := range wiped {
			m.RestartEmpty(t)
		}
		awaitGrants(t, log, 20)
		for _, m := range wiped {
			m.Must(t, "FLUSHALL")
		}
	}
	awaitGrants(t, log, 20)
	close(over)
	wg.Wait()
	found := history.Fences(log.Ops())
	for _, v := range found {
		t.Log(v)
	}
	return tally{bad: len(found), tries: len(log.Ops())}
}

// awaitGrants waits for n more grants.
func awaitGrants(t *testing.T, log *history.Log, n int) {
	t.Helper()
	n += len(log.Ops())
	lab.WaitFor(t, "grants after masters lost their memory", 3*lab.Patience, func() bool { return len(log.Ops()) >= n })
}

// lockOn locks and unlocks until over is closed, and records the grants.
func lockOn(c client, log *history.Log, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(5 * time.Millisecond):
		}
		call := log.Now()
		g, err := c.lock("numbered", 500*time.Millisecond)
		if err != nil {
			continue
		}
		log.Add(history.Op{
			Kind: history.Lock, Outcome: history.OK, Key: g.key, Token: g.token, Fence: g.fence,
			Validity: g.until.Sub(g.sent), Call: call, Return: log.Now(),
		})
		_ = c.unlock(g) // masters that have just forgotten do not have it
	}
}
