package sim

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"lockproxy/quorum"
)

// Waste: a lock or slot without a holder must be free for all clients, on every master and in
// refusals.

// watchSound looks at the locks with several holders on all masters, again and again.
func (w *world) watchSound() {
	for w.wait(w.own(150*time.Millisecond, soundSlot)) {
		w.checkSound()
	}
}

// soundSlot is the instant of the watch; see own.
const soundSlot = 7500

// exact reports whether no single command of a script can fail. A failed command may let a key
// outlive its last holder, or leave members for a while.
func (w *world) exact() bool {
	f := &w.plan.faults
	return !f.has("trouble") && !f.has("cannot be written") && !f.has("rights") && w.plan.denied == nil
}

// checkSound finds members of locks that no holder has.
func (w *world) checkSound() {
	for _, m := range w.masters {
		for _, key := range m.sortedKeys() {
			wrong := ""
			m.Set(func() { wrong = m.Unsound(key, w.exact()) })
			if wrong != "" {
				w.ledger.wrong(strings.TrimPrefix(key, "lock:"), "waste on master %d: %s", m.index, wrong)
			}
		}
	}
}

// saidFree checks the time until a key is free, which a refusal names. No lock lives longer
// than max-ttl, and no intent longer than maxIntent.
func (w *world) saidFree(key string, free time.Duration) {
	most := max(w.plan.maxTTL, maxIntent) + drift(w.plan.maxTTL)
	if !w.ledger.forgets && (free < 0 || free > most) {
		w.ledger.wrong(key, "waste: a refusal says that the key is free in %v, no lock lives for longer than %v", free, most)
	}
}

// takable takes locks and slots without a holder, and places beside readers, at the end of a
// run. A client must get each of them.
func (w *world) takable() {
	if !w.plan.takes || !w.exact() || w.ledger.fault != "" || !w.majorityVotes() {
		return
	}
	if !w.plan.census {
		time.Sleep(settleIn)
	}
	c := &simClient{w: w, index: takerIndex, random: rand.New(rand.NewPCG(w.plan.seed, 94))}
	for i := range w.plan.clients.keys {
		key := string(rune('a' + i))
		for mode, limits := range w.ledger.vacancies(key) {
			for _, limit := range limits {
				w.mustTake(c, quorum.Request{Key: key, TTL: time.Second, Mode: mode, Limit: limit})
			}
		}
	}
}

// takerIndex is the number of who takes as a client.
const takerIndex = 902

// mostTakes is how often a client is refused at most: the first slots that it tries are random. A
// master may be slow for a while, so others of its attempts may fail, too, mostTries in all.
const mostTakes, mostTries = 2, 20

func (w *world) mustTake(c *simClient, want quorum.Request) {
	var err error
	for refused, tries := 0, 0; refused < mostTakes && tries < mostTries; tries++ {
		var cl *claim
		if cl, err = c.ask(w.proxyAt(0), want, false); err == nil {
			c.release(cl, w.proxyAt(0))
			time.Sleep(c.moment(settleIn))
			return
		}
		if errors.Is(err, quorum.ErrHeld) {
			refused++
		}
		time.Sleep(c.moment(10 * time.Millisecond))
	}
	w.ledger.wrong(want.Key, "waste: nobody holds it, and nobody can take it (%v, limit %d): %v", want.Mode,
		want.Limit, err)
}

// vacancies returns what of a key can be taken: modes, and for Limited the limits.
func (l *ledger) vacancies(key string) map[quorum.Mode][]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken, modes := make(map[int]bool), make(map[quorum.Mode]bool)
	since := time.Now().Add(-time.Second) // masters may have what ended just now
	for _, c := range l.keyLocked(key).active {
		if c.end.After(since) {
			taken[c.slot], modes[c.mode] = true, true
		}
	}
	switch {
	case modes[quorum.Exclusive]:
		return nil
	case modes[quorum.Shared]:
		return map[quorum.Mode][]int{quorum.Shared: {0}}
	case !modes[quorum.Limited]:
		return map[quorum.Mode][]int{quorum.Exclusive: {0}}
	}
	for limit := 1; limit < 128; limit++ {
		if !taken[limit-1] { // the least limit that has room, and one over it
			return map[quorum.Mode][]int{quorum.Limited: {limit, limit + 1}}
		}
	}
	return nil
}

// otherSlot reports whether a lease that is held has another slot than a master has for it.
func (l *ledger) otherSlot(secret string, slot int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.secrets[secret]
	return c != nil && c.mode == quorum.Limited && c.slot != slot
}
