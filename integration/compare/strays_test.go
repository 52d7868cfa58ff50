package compare

import (
	"math/rand/v2"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Lock keys that are left on a master although no lock explains them: until their ttl they keep
// everybody else out of that master's vote. Five masters, one of which is in trouble.

// straysAfterPause stops one master (SIGSTOP) while locks are taken, held for a second, and given
// back: some of them while a connection that is not answered is given up.
func straysAfterPause(t *testing.T, s subject, size size) tally {
	f := plain(t, 5, strayTTL)
	clients := begin(t, s, f, size.pairs/2)
	victim := f.masters[rand.IntN(len(f.masters))]
	victim.Pause(t)
	begun := time.Now()
	p := startPairs(clients, size.pairs, 3*time.Second, time.Second)
	close(p.goOn)
	lab.Pass(t, 4*time.Second) // longer than a connection lives without an answer
	p.await(&p.unlocked, atMost-time.Since(begun))
	served := int(p.unlocked.Load())
	victim.Resume()
	return tally{bad: p.strays(t, f.masters), tries: size.pairs, served: served}
}

// straysDeliveredLate holds up everything on the way to one master while locks are taken. New
// connections pass then, and the locks are given back; what the old ones had carried arrives last,
// as a network sends again what was lost in it.
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

// straysAfterCut cuts the network to one master while locks are held, and mends it when they have
// been given back.
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
