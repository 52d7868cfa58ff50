package load

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestHoldersKeepLocksBesideLoad: holders keep their locks while thousands of other clients lock
// and unlock as fast as they can, because renewals and EXTEND go before LOCK.
func TestHoldersKeepLocksBesideLoad(t *testing.T) {
	const sessionTTL = "3s" // shorter than the load, so that the proxy must renew; long enough for a busy machine
	l := lab.Start(t, lab.Config{Masters: 5, Plain: true, Flags: defaults})
	addr := l.Proxies[0].Addr
	all := gather(t, l.Proxies[0], "job", 2000)
	sessions := map[*lab.Client][2]string{} // key and token
	for i := range 20 {
		c, key := lab.Dial3(t, addr), fmt.Sprintf("session-%d", i)
		sessions[c] = [2]string{key, c.LockSession(key, sessionTTL)}
	}

	machine := watchMachine(t, l.Proxies[0], l.Masters)
	workers, holders := outcome{machine: machine}, outcome{machine: machine}
	start := time.Now()
	stop := all.work(&workers, "30s", 0)
	defer stop()
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for i := range 10 {
		c, key := lab.Dial(t, addr), fmt.Sprintf("holder-%d", i)
		token := lab.LockSoon(t, c, key, "30s") // again if the load lets one fail
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(250 * time.Millisecond):
				}
				sent := time.Now()
				reply, err := c.Ask("EXTEND", key, token, "30s")
				if holders.note("EXTEND", reply, err, sent); err != nil {
					return
				}
			}
		})
	}
	lab.Pass(t, 4*time.Second)
	close(ended)
	wg.Wait()
	stop()

	workers.wantNone(t)
	if list := holders.unexcused(t, holders.refused); len(list) > 0 {
		t.Errorf("got %d refusals of EXTEND from plain holders, want none: %s", len(list), kinds(list))
	}
	// A session's lock is lost if no renewal succeeds in the last two thirds of its ttl.
	wantSessionsHeld(t, sessions, sessionTTL, machine.busyFor(1500*time.Millisecond, start, time.Now()))
}

// wantSessionsHeld extends all session locks, given as key and token of each client, and fails if
// one is lost, unless the machine was too busy for renewals.
func wantSessionsHeld(t *testing.T, sessions map[*lab.Client][2]string, ttl string, excused bool) {
	t.Helper()
	report := t.Errorf
	if excused {
		report = t.Logf
	}
	for c, held := range sessions {
		reply := c.Do("EXTEND", held[0], held[1], ttl)
		for lab.IsPush(reply) {
			report("%s: got push %q, want none", held[0], strings.ReplaceAll(reply, "\r\n", " "))
			reply = c.Frame()
		}
		if reply != ":1\r\n" {
			report("EXTEND of %s: got %q, want 1", held[0], reply)
		}
	}
}
