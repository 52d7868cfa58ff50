package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestHeldLockCostsTwoScripts: a lock that is held for 0.3 s costs two scripts a master, like one
// that is released at once. Most answers beyond a majority come after the reply and cost no more.
// If another proxy unlocks, the first one asks each master with a late answer once more.
func TestHeldLockCostsTwoScripts(t *testing.T) {
	t.Parallel()
	for _, masters := range lab.Long([]int{3}, []int{3, 5}) {
		for name, row := range map[string]heldRow{"held for 0.3s": {1, 2.1}, "unlocked elsewhere": {2, 2.5}} {
			t.Run(fmt.Sprintf("%s/masters=%d", name, masters), func(t *testing.T) {
				t.Parallel()
				l := lab.Start(t, lab.Config{Masters: masters, Proxies: row.proxies, Relays: true,
					Flags: []string{"--master-timeout", "1s"}})
				for _, trip := range lab.Long([]time.Duration{0, 60}, []time.Duration{0, 20, 60}) {
					t.Run(fmt.Sprintf("trip=%dms", trip), func(t *testing.T) {
						wantScripts(t, l, trip*time.Millisecond, row)
					})
				}
			})
		}
	}
}

// heldRow is a case of TestHeldLockCostsTwoScripts.
type heldRow struct {
	proxies int
	most    float64 // scripts a master and pair, on average over all masters
}

// wantScripts takes some locks through the first proxy, unlocks them through the last, and
// compares the scripts of the masters.
func wantScripts(t *testing.T, l *lab.Lab, trip time.Duration, row heldRow) {
	const pairs = 20
	first, last := lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[row.proxies-1].Addr)
	lab.WaitAllVote(t, l, first)
	for _, relays := range l.Relays {
		for _, r := range relays {
			r.Slow(trip / 2)
		}
	}
	used := startLoad(t, l.Masters)
	repeats := 0
	for i := range pairs {
		repeats += lockAndUnlockOnce(t, first, last, fmt.Sprint("job-", i), 300*time.Millisecond)
	}
	lab.WantKeysGone(t, l.Masters, lab.Patience)
	lab.Pass(t, 2500*time.Millisecond) // checks come after 2 s
	got := used.average(t, row.proxies) / pairs
	t.Logf("%.2f scripts a master for each pair", got)
	if got > row.most+3*float64(repeats)/pairs { // a repeat costs a LOCK, an UNLOCK and a release
		t.Errorf("scripts a master for each pair: got %.2f, want at most %.1f", got, row.most)
	}
}

// average returns how many scripts a master has run since the start, on average, without the
// probes that each proxy sends once a second.
func (l *load) average(t testing.TB, proxies int) float64 {
	t.Helper()
	n := 0
	for i, s := range l.masters {
		n += scripts(t, s) - l.before[i]
	}
	probes := proxies * (int(time.Since(l.start)/time.Second) + 1)
	return float64(n)/float64(len(l.masters)) - float64(probes)
}
