package sim

import (
	"fmt"
	"sync"
	"time"

	"lockproxy/quorum"
)

// claim is a lease in the view of its client: how long the client may count on it.
type claim struct {
	key    string
	keys   []string // all of them, key first
	mode   quorum.Mode
	slot   int       // of Limited
	kept   bool      // without a holder: it was released and stays closed
	began  time.Time // when it was given out
	proxy  int       // which gave it out
	token  quorum.Token
	client int
	end    time.Time // of its validity, or when it was given back or found lost
	over   bool      // given back: no extension counts any more
	lost   bool      // an extension said so
	value  string    // of an adopted lock
}

// ledger checks the answers that clients get. The first fault ends the run.
type ledger struct {
	trace    *trace
	forgets  bool // masters lose their memory in this run: a lock may be lost before its time, without another holder
	unfenced bool
	majority int
	lately   time.Duration // messages are on their way for less
	shared   bool          // a lock may have two holders: only the order of fences is checked

	mu      sync.Mutex
	keys    map[string]*keyLedger
	secrets map[string]*claim
	values  map[string]*values // by key and value
	struck  map[string]int     // masters that had a secret when one released it, before it was given out
	grants  int
	extends int
	calls   int

	asked     int // LOCK
	releases  int // UNLOCK
	long      int // of locks that were held for a while
	elsewhere int // through another proxy than the one that granted
	fault     string
	about     string        // the key it is about; empty: none
	token     string        // the secret it is about; empty: none
	broken    chan struct{} // closed with the first fault
}

type keyLedger struct {
	active  []*claim
	highest uint64              // fence given out
	top     [quorum.Kept]uint64 // by mode
	slots   map[int]uint64      // by slot
}

func newLedger(tr *trace) *ledger {
	return &ledger{trace: tr, keys: make(map[string]*keyLedger), secrets: make(map[string]*claim),
		values: make(map[string]*values), struck: make(map[string]int), broken: make(chan struct{})}
}

// wrongLocked notes a fault.
func (l *ledger) wrongLocked(key, format string, args ...any) {
	if l.fault == "" {
		l.fault, l.about = fmt.Sprintf(format, args...), key
		l.trace.add(event{what: "WRONG: " + l.fault, proxy: -1, master: -1, client: -1, key: key})
		close(l.broken)
	}
}

// broke reports whether something is wrong.
func (l *ledger) broke() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault != ""
}

func (l *ledger) wrong(key, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrongLocked(key, format, args...)
}

func (l *ledger) keyLocked(key string) *keyLedger {
	k := l.keys[key]
	if k == nil {
		k = new(keyLedger)
		l.keys[key] = k
	}
	return k
}

// granted is called when Acquire has returned a lease. Every lease of the key that was returned
// earlier must have ended, and have a smaller fence. before is the largest fence given out at the
// time of the call, at asked.
func (l *ledger) granted(client int, r quorum.Request, lease quorum.Lease, before uint64, asked time.Time) *claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants++
	now, key := time.Now(), r.Key
	c := &claim{key: key, keys: append([]string{key}, r.Keys...), mode: r.Mode, slot: lease.Slot, began: now,
		token: lease.Token, client: client, end: now.Add(lease.Validity)}
	if r.Mode == quorum.Limited && (c.slot < 0 || c.slot >= r.Limit) {
		l.wrongLocked(key, "slot %d of %d", c.slot, r.Limit)
	}
	if lease.Validity <= 0 || r.Value != "" && lease.Validity < r.TTL {
		l.wrongLocked(key, "validity %v", lease.Validity)
	}
	if n := l.struck[lease.Token.Secret]; n > 0 && n < l.majority {
		l.wrongLocked(key, "holds the lock: client %d, although a part was released when %d masters had it", client, n)
	}
	if l.secrets[lease.Token.Secret] != nil {
		l.wrongLocked(key, "a token was given out twice")
	}
	l.secrets[lease.Token.Secret] = c
	if most := uint64(now.Add(25*time.Hour).UnixMilli()) << 11; lease.Token.Fence > most {
		l.wrongLocked(key, "fence %d is far from all clocks that are right", lease.Token.Fence)
	}
	if r.Value != "" && l.releasedLocked(key, r.Value, asked) {
		c.over, c.end = true, now
		return c
	}
	for _, key := range c.keys {
		k := l.keyLocked(key)
		l.orderLocked(k, c, before)
		l.aloneLocked(k, c, now)
		k.note(c)
	}
	return c
}

// orderLocked checks that the fence is greater than those of the key that were given out earlier.
// Of readers that ask at the same time the later may have the smaller one. before is the largest
// that had been given out when c was asked for.
func (l *ledger) orderLocked(k *keyLedger, c *claim, before uint64) {
	least := max(k.top[quorum.Exclusive], k.top[quorum.Shared], k.top[quorum.Limited]) + 1
	switch {
	case l.shared && c.mode == quorum.Exclusive:
		least = before + 1
	case l.shared:
		least = 0
	case c.mode == quorum.Shared:
		least = max(k.top[quorum.Exclusive]+1, k.top[quorum.Limited]+1, before)
	case c.mode == quorum.Limited:
		least = max(k.top[quorum.Exclusive], k.top[quorum.Shared], k.slots[c.slot]) + 1
	}
	if !l.unfenced && c.token.Fence < least {
		l.wrongLocked(c.key, "fence %d of a lock (%v, slot %d) given out after %d", c.token.Fence, c.mode, c.slot,
			least-1)
	}
}

// note remembers the fence that c has.
func (k *keyLedger) note(c *claim) {
	k.highest = max(k.highest, c.token.Fence)
	k.top[c.mode] = max(k.top[c.mode], c.token.Fence)
	if c.mode == quorum.Limited {
		if k.slots == nil {
			k.slots = make(map[int]uint64)
		}
		k.slots[c.slot] = max(k.slots[c.slot], c.token.Fence)
	}
}

// beside reports whether both may hold one key at a time.
func (c *claim) beside(other *claim) bool {
	return c.mode == other.mode && (c.mode == quorum.Shared || c.mode == quorum.Limited && c.slot != other.slot)
}

// aloneLocked checks that no other client that excludes c may count on the key now.
func (l *ledger) aloneLocked(k *keyLedger, c *claim, now time.Time) {
	var active []*claim
	for _, other := range k.active {
		if other == c || !other.end.After(now) {
			continue
		}
		active = append(active, other)
		if !l.shared && !c.beside(other) {
			what := "may count on it for another"
			if other.kept {
				what = "has had it closed for another"
			}
			l.wrongLocked(c.key, "client %d holds the lock (%v, slot %d), and client %d (%v, slot %d) %s %v",
				c.client, c.mode, c.slot, other.client, other.mode, other.slot, what, other.end.Sub(now))
		}
	}
	k.active = append(active, c)
}

// keeps is called when a release has closed what c held until then.
func (l *ledger) keeps(c *claim, keys []string, end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		k := l.keyLocked(key)
		if now := time.Now(); end.After(now) {
			l.aloneLocked(k, &claim{key: key, mode: c.mode, slot: c.slot, kept: true, client: c.client, began: now,
				end: end}, now)
		}
	}
}

// shares is called before a lock is made a shared one: from here on others may share it, even if
// the answer is an error.
func (l *ledger) shares(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.mode = quorum.Shared
}

// extended is called when Extend, called at began, has returned.
func (l *ledger) extended(c *claim, began time.Time, highest uint64, left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extends++
	now := time.Now()
	if c.over {
		return
	}
	if left <= 0 {
		l.wrongLocked(c.key, "extended for %v", left)
	}
	if !l.unfenced && !l.shared && c.mode == quorum.Exclusive && highest > c.token.Fence {
		l.wrongLocked(c.key, "fence %d was extended after %d had been given out", c.token.Fence, highest)
	}
	if end := now.Add(left); end.After(c.end) {
		c.end = end
	}
	for _, key := range c.keys {
		l.aloneLocked(l.keyLocked(key), c, now)
	}
}

// asks is called before Acquire.
func (l *ledger) asks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
}

// highest is the largest fence of the key that a client has.
func (l *ledger) highest(key string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keyLocked(key).highest
}

// gives is called before the client gives its lease back: from here on it does not count on it.
// It returns the end of the validity, or now for a lease that was given back before.
func (l *ledger) gives(c *claim, proxy int) (end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.releases++
	if c.proxy != proxy {
		l.elsewhere++
	}
	if end = c.end; c.over {
		end = now
	} else if now.Sub(c.began) > heldForAWhile {
		l.long++
	}
	c.over, c.end = true, now
	return end
}

// lost is called when a client learns that its lock is lost; end is the end of its validity. As
// long as masters keep their memory, that has passed by then.
func (l *ledger) lost(c *claim, end time.Time, how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if end.After(now) && !l.forgets {
		l.wrongLocked(c.key, "%s says that client %d has lost its lock, %v before its validity is over", how, c.client,
			end.Sub(now))
	}
	c.lost = true
	if c.end.After(now) {
		c.end = now
	}
}

// took checks how long a call took.
func (l *ledger) took(key, call string, began time.Time, most time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if took := time.Since(began); took > most {
		l.wrongLocked(key, "%s took %v, at most %v is allowed", call, took, most)
	}
}

// mayRemain reports whether a key with that secret may be left on masters at the end: its client
// never released it.
func (l *ledger) mayRemain(secret string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.secrets[secret]
	return c != nil && !c.over && !c.lost
}
