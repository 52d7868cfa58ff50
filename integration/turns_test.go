package integration

import (
	"strings"
	"testing"
	"time"
)

// TestTurns: a proxy whose waiters hand a lock over among themselves pauses, so that a waiter in another proxy, further
// from the masters, has its turn before all of them.
func TestTurns(t *testing.T) {
	p, relays := relayedPair(t)
	near := startProxy(t, "--upstream", p.upstream.addr, "--masters", strings.Join(addrs(p.masters), ","), "--restart-guard", "off")
	near.waitVoting(t)
	desk := dial(t, near.addr)
	token := desk.lock("job", "60s")
	p.wantHolders(t, "job", 5)
	const waiters = 300
	served := make(chan string, waiters)
	for i := range waiters {
		host := dial(t, near.addr)
		granted := host.later("LOCK", "job", "60s", "WAIT", "0")
		desk.waitWaiting(i + 1)
		go func() {
			a := <-granted
			served <- a.reply
			_, _ = host.conn.do("UNLOCK", "job", tokenOf(a.reply))
		}()
	}
	far := p.far.later("LOCK", "job", "60s", "WAIT", "0")
	p.desk.waitWaiting(1)
	pauseBetween(t, 50*time.Millisecond) // it has asked, and has subscribed
	for _, r := range relays {
		r.slow(500 * time.Microsecond)
	}
	desk.unlock("job", token)
	before := 0
	for {
		select {
		case reply := <-served:
			if before++; tokenOf(reply) == "" || before == waiters {
				t.Fatalf("the other proxy's waiter had no turn in %d; last reply %q", before, reply)
			}
			continue
		case a := <-far:
			t.Logf("its turn came after %d", before)
			if token = tokenOf(a.reply); token == "" {
				t.Fatalf("the other proxy's waiter: %q (%v)", a.reply, a.err)
			}
			if before > 100*int(slack) {
				t.Errorf("the other proxy's waiter had its turn after %d", before)
			}
		}
		break
	}
	p.far.unlock("job", token)
	desk.waitWaiting(0)
	wantNoStray(t, p.masters, p.proxy, near)
}
