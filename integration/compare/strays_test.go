package compare

import (
	"math/rand/v2"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Keys that stay on a master without a lock: until their ttl that master refuses all others. Five
// masters, one of which has a fault.

// straysAfterPause stops one master (SIGSTOP) while locks are taken, held for a second and
// released, some of them while the client gives up a silent connection.
func straysAfterPause(t *testing.T, s subject, size size) tally {
	f := plain(t, 5, strayTTL)
	clients := begin(t, s, f, size.pairs/2)
	victim := f.masters[rand.IntN(len(f.masters))]
	victim.Pause(t)
	begun := time.Now()
	p := startPairs(clients, size.pairs, 3*time.Second, time.Second)
	close(p.goOn)
	lab.Pass(t, 4*time.Second) // longer than a silent connection is kept
	p.await(&p.unlocked, atMost-time.Since(begun))
	served := int(p.unlocked.Load())
	victim.Resume()
	return tally{bad: p.strays(t, f.masters), tries: size.pairs, served: served}
}

// straysDeliveredLate delays all traffic to one master while locks are taken. New connections
// then pass, and the locks are released; the bytes of the old connections arrive last, like
// retransmissions.
func straysDeliveredLate(t *testing.T, s subject, size size) tally {
	f := relayed(t, 5, strayTTL)
	clients := begin(t, s, f, size.pairs/2)
	r := f.relays[rand.IntN(len(f.relays))]
	r.Freeze()
	begun := time.Now()
	p := startPairs(clients, size.pairs, 0, 0)
	p.await(&p.locked, atMost/2)
	r.ThawNew()
	lab.Pass(t, 4*time.Second)
	close(p.goOn)
	p.await(&p.unlocked, atMost-time.Since(begun))
	served := int(p.unlocked.Load())
	r.Thaw()
	return tally{bad: p.strays(t, f.masters), tries: size.pairs, served: served}
}

// straysAfterCut cuts the network to one master while locks are held, and restores it after their
// release.
func straysAfterCut(t *testing.T, s subject, size size) tally {
	f := relayed(t, 5, strayTTL)
	clients := begin(t, s, f, size.pairs/2)
	r := f.relays[rand.IntN(len(f.relays))]
	p := startPairs(clients, size.pairs, 0, 0)
	p.await(&p.locked, atMost)
	r.Freeze()
	close(p.goOn)
	p.await(&p.unlocked, atMost)
	served := int(p.unlocked.Load())
	r.Isolate()
	lab.Pass(t, time.Second)
	r.Rejoin()
	return tally{bad: p.strays(t, f.masters), tries: size.pairs, served: served}
}
