package locks

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestUnlockBesideExtend: a lock stands on two of three masters. An UNLOCK has reached the first
// of them and is on its way to the second, when an EXTEND that its client has given up comes
// through another proxy, whose master-timeout is much shorter. It finds the lock on one master
// only. The lock was held until its UNLOCK, so that one answers 1 (L9).
func TestUnlockBesideExtend(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, lab.Config{Relays: true, Proxies: -1, Flags: []string{"--master-timeout", "2s"}})
	patient, quick, granter := l.StartProxy(t), l.StartProxy(t, "--master-timeout", "50ms"), l.StartProxy(t)
	for _, p := range l.Proxies {
		p.WaitVoting(t)
	}
	unlocker, extender, holder := lab.Dial(t, patient.Addr), lab.Dial(t, quick.Addr), lab.Dial(t, granter.Addr)
	l.Link(2, 2).Isolate() // the lock does not get to the third master, nor is it topped up there
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
		if got := extender.Do("EXTEND", key, tokens[i], "60s"); got != ":0\r\n" {
			t.Fatalf("EXTEND of a lock that is being released: %q", got)
		}
		// Whatever the quick proxy does next, it has done by then; the patient one still waits.
		lab.Poll(400*time.Millisecond, func() bool { return lab.Holders(t, l.Masters, key) == 0 })
		slow.Thaw()
		select {
		case a := <-reply:
			if a.Reply != ":1\r\n" {
				t.Fatalf("UNLOCK of a lock that was held: %q (%v)", a.Reply, a.Err)
			}
		case <-time.After(lab.Patience):
			t.Fatal("UNLOCK is not answered")
		}
		lab.WantHolders(t, l.Masters, key, 0)
	}
}
