package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestScriptsOfHeldLocks: a lock that is held for 0.3 s costs two scripts a master, like one that is
// released at once. Most answers beyond a majority come after the reply; they are free. If another
// proxy unlocks, each master with a late answer is asked once more.
func TestScriptsOfHeldLocks(t *testing.T) {
	t.Parallel()
	const pairs = 20
	for _, masters := range []int{3, 5} {
		for _, trip := range []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond} {
			for name, row := range map[string]struct {
				proxies int
				most    float64 // scripts a master and pair, on average over all masters
			}{"held for 0.3s": {1, 2.1}, "unlocked elsewhere": {2, 2.5}} {
				t.Run(fmt.Sprintf("%s/masters=%d/trip=%v", name, masters, trip), func(t *testing.T) {
					t.Parallel()
					l := lab.Start(t, lab.Config{Masters: masters, Proxies: row.proxies, Relays: true, Flags: []string{"--master-timeout", "1s"}})
					first, last := lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[row.proxies-1].Addr)
					lab.WaitAllVote(t, l, first)
					for _, relays := range l.Relays {
						for _, r := range relays {
							r.Slow(trip / 2)
						}
					}
					used := startLoad(t, l.Masters)
					for i := range pairs {
						key := fmt.Sprint("job-", i)
						token := first.Lock(key, "30s")
						lab.Pass(t, 300*time.Millisecond)
						last.Unlock(key, token)
					}
					lab.WantKeysGone(t, l.Masters, lab.Patience)
					lab.Pass(t, 2500*time.Millisecond) // checks come after 2 s
					got := used.average(t, row.proxies) / pairs
					t.Logf("%.2f scripts a master for each pair", got)
					if got > row.most {
						t.Errorf("a pair costs a master %.2f scripts, want %.1f at most", got, row.most)
					}
				})
			}
		}
	}
}

// average is how many scripts a master has run since, without the questions that each proxy asks
// once a second.
func (l *load) average(t testing.TB, proxies int) float64 {
	t.Helper()
	questions := proxies * (int(time.Since(l.start)/time.Second) + 1)
	n := 0
	for i, s := range l.masters {
		n += scripts(t, s) - l.before[i] - questions
	}
	return float64(n) / float64(len(l.masters))
}
