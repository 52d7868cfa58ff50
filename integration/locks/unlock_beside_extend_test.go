package locks

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestUnlockSaysHeldWhenExtendFailsBesideIt: two of three masters have a lock. Its UNLOCK has
// reached the first master and not yet the second when an EXTEND comes through another proxy,
// whose master-timeout is much shorter. EXTEND finds the lock on one master only and answers 0.
// The lock was held until its UNLOCK, so UNLOCK answers 1.
func TestUnlockSaysHeldWhenExtendFailsBesideIt(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, lab.Config{Relays: true, Proxies: -1, Flags: []string{"--master-timeout", "20s"}})
	patient, quick, granter := l.StartProxy(t), l.StartProxy(t, "--master-timeout", "50ms"), l.StartProxy(t)
	unlocker, extender, holder := lab.Dial(t, patient.Addr), lab.Dial(t, quick.Addr), lab.Dial(t, granter.Addr)
	for _, c := range []*lab.Client{unlocker, extender, holder} {
		lab.WaitAllVote(t, l, c)
	}
	l.Link(2, 2).Isolate() // neither LOCK nor a top-up reaches the third master
	lab.WaitStates(t, holder, lab.Patience, "voting", "voting", "down")
	var tokens []string
	keys := []string{"job-0", "job-1", "job-2", "job-3"}
	for _, key := range keys {
		tokens = append(tokens, holder.Lock(key, "60s"))
		lab.WantHolders(t, l.Masters, key, 2)
	}
	granter.Kill()
	for i, key := range keys {
		slow, first := l.Link(0, 1), l.Masters[:1]
		held := slow.Hold(tokens[i][17:], 1)
		reply := unlocker.Later("UNLOCK", key, tokens[i])
		lab.WantHeld(t, held)
		lab.WantHolders(t, first, key, 0)
		got := ""
		lab.WaitFor(t, "EXTEND to hear a majority of the masters", lab.Patience, func() bool {
			got = extender.Do("EXTEND", key, tokens[i], "60s")
			return !strings.HasPrefix(got, "-NOQUORUM ") // a busy machine takes longer than 50ms
		})
		if got != ":0\r\n" {
			t.Fatalf("EXTEND of a lock whose UNLOCK is under way: got %q, want 0", got)
		}
		// The quick proxy has time to remove the rest of the lock; the patient proxy still waits.
		lab.Poll(400*time.Millisecond, func() bool { return lab.Holders(t, l.Masters, key) == 0 })
		slow.Thaw()
		select {
		case a := <-reply:
			if a.Reply != ":1\r\n" {
				t.Fatalf("UNLOCK of a held lock: got %q (%v), want 1", a.Reply, a.Err)
			}
		case <-time.After(lab.Patience):
			t.Fatalf("UNLOCK: got no reply within %v, want 1", lab.Patience)
		}
		lab.WantHolders(t, l.Masters, key, 0)
	}
}
