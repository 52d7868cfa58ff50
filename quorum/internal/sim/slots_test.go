package sim

import (
	"math/rand/v2"
	"time"

	"lockproxy/quorum"
)

// confirmedSlots lets a proxy extend a lease for which a master has another slot than the others.
func (p *plan) confirmedSlots(r *rand.Rand) {
	p.masters, p.proxies, p.count, p.maxTTL = 5, 3, 0, 20*time.Second
	p.clients = clientPlan{keys: 1, ttl: [2]time.Duration{15 * time.Second, p.maxTTL}, elsewere: 1,
		kinds: kindsPlan{limited: 1, limit: 2}}
	p.length, p.masterTimeout = 30*time.Second, between(r, 10*time.Millisecond, 60*time.Millisecond)
	p.faults.gap = 20 * time.Millisecond
	p.faults.kinds = []faultKind{{name: "another slot is extended", do: (*faulter).extendOtherSlot}}
}

// storyIndex is the number of a story's client.
const storyIndex = 903

// extendOtherSlot: a master missed that a slot was given back, and grants another slot of a
// lease than the rest. Another master misses the lease. While the correction is on its way,
// another proxy extends the lease. The first master cannot take the right slot then, and has
// none of the lease: that does not say that the lease was released.
func (f *faulter) extendOtherSlot() {
	if !f.until(f.w.healthy) {
		return
	}
	c := &simClient{w: f.w, index: storyIndex, random: f.random}
	all := f.shuffled()
	other, misses := all[0], all[1]
	first, err := c.ask(f.w.proxyAt(1), quorum.Request{Key: "a", TTL: c.ttl(), Mode: quorum.Limited, Limit: 1}, false)
	if err != nil {
		return
	}
	defer f.part(1, other, up, down)()
	c.release(first, f.w.proxyAt(1))
	defer f.part(0, misses, up, down)()
	granted, late := f.w.net.await("acquire", 0, f.w.net.addressOf(other)), func() {}
	done := make(chan struct{})
	f.w.group.Go(func() {
		defer close(done)
		select {
		case <-granted:
			late = f.part(0, other, up)
		case <-f.w.stopped:
		}
	})
	lease, err := c.ask(f.w.proxyAt(0), quorum.Request{Key: "a", TTL: c.ttl(), Mode: quorum.Limited, Limit: 2}, false)
	<-done
	if err != nil {
		late()
		return
	}
	if f.random.IntN(4) > 0 {
		f.w.wait(f.moment(5 * time.Millisecond))
		c.extend(lease, f.w.proxyAt(2))
	}
	late()
	f.w.wait(f.moment(8 * time.Second)) // a check and a fade take four
	c.release(lease, f.w.proxyAt(2))
}
