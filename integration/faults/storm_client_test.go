package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// stormClient is one client in a storm. It locks, works and unlocks through any proxy. Now and
// then it vanishes, waits, keeps a lock for too long, or gives up before the reply has come. It
// records every command.
type stormClient struct {
	*rand.Rand
	s      *faultStorm
	id     int
	locks  int // LOCKs so far; in the owner label
	conns  map[int]*lab.Conn
	frozen []*lab.Conn // open connections of clients that vanished
}

// stormPatience is how long a client waits for a reply. A proxy that runs needs a fraction of
// that.
const stormPatience = 400 * time.Millisecond

func (c *stormClient) run() {
	defer c.close()
	for !c.s.ended() {
		switch roll := c.IntN(100); {
		case roll < c.s.plan.vanishing:
			c.vanish()
		case roll < c.s.plan.vanishing+c.s.plan.sessions:
			c.session()
		default:
			c.turn()
		}
		c.s.sleep(c.upTo(5 * time.Millisecond))
	}
}

func (c *stormClient) close() {
	for _, conn := range c.conns {
		conn.Close()
	}
	for _, conn := range c.frozen {
		conn.Close()
	}
}

func (c *stormClient) upTo(d time.Duration) time.Duration {
	return time.Duration(c.Int64N(int64(d) + 1))
}

func (c *stormClient) anyProxy() int { return c.IntN(len(c.s.addrs)) }

// turn sends one LOCK and, if it is granted, works under it. After an error it pauses, because
// clients that ask a proxy without a majority all the time only take processor time.
func (c *stormClient) turn() {
	proxy, waits := c.anyProxy(), c.IntN(4) == 0
	r := c.lockRequest(waits)
	switch o, ok := c.ask(proxy, r); {
	case ok && o.Outcome == history.OK:
		c.hold(proxy, &held{Op: o, further: r.further, until: o.Until()}, waits)
	case !ok || o.Outcome == history.Failed: // it is likely to fail again at once
		c.s.sleep(c.upTo(60 * time.Millisecond))
	}
}

// lockRequest makes a LOCK of any kind. Its owner label names the client and the LOCK.
func (c *stormClient) lockRequest(waits bool) request {
	c.locks++
	ttl := c.s.plan.minTTL + c.upTo(c.s.plan.maxTTL-c.s.plan.minTTL)
	keys := c.Perm(len(c.s.keys))
	o := history.Op{Kind: history.Lock, Client: c.id, Key: c.s.keys[keys[0]],
		TTL: ttl.Truncate(time.Millisecond), Label: fmt.Sprintf("c%d-%d", c.id, c.locks)}
	var further, options []string
	switch roll := c.IntN(20); {
	case roll < 4:
		o.Mode, options = history.Shared, []string{"SHARED"}
	case roll < 7:
		o.Mode, o.Limit = history.Limited, 1+c.IntN(4)
		options = []string{"LIMIT", strconv.Itoa(o.Limit)}
	case roll < 11:
		for _, k := range keys[1:min(len(keys), 2+c.IntN(2))] {
			further = append(further, c.s.keys[k])
		}
	}
	if waits {
		options = append(options, "WAIT", millis(time.Millisecond+c.upTo(stormPatience*3/4)))
	}
	args := append([]string{"LOCK", o.Key, millis(ttl), "FULL", "OWNER", o.Label}, options...)
	return newRequest(o, further, args...)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// held is a lock that a client holds.
type held struct {
	history.Op
	further []string      // keys
	until   time.Duration // the client may count on the lock until then
	keep    time.Duration // KEEP of the UNLOCK; 0 for none
}

// hold works under the lock for some time and unlocks. The reply to a LOCK that waited may have
// been under way for any time, so the client knows its validity only after an EXTEND.
func (c *stormClient) hold(proxy int, h *held, waits bool) {
	if waits {
		c.extend(proxy, h)
	}
	if !c.s.plan.tidy && c.IntN(10) == 0 {
		h.keep = 50*time.Millisecond + c.upTo(400*time.Millisecond)
	}
	c.update(h, func() { c.work(proxy, h) })
	for range 3 {
		u, ok := c.unlock(proxy, h)
		answered := ok && u.Outcome != history.Unknown && u.Outcome != history.Failed
		if answered || c.IntN(4) == 0 && !c.s.plan.tidy {
			return
		}
		proxy = c.anyProxy()
	}
	for c.s.plan.tidy {
		if u, ok := c.unlock(c.anyProxy(), h); ok && u.Outcome != history.Unknown {
			return
		}
		c.s.sleep(20 * time.Millisecond)
	}
}

// update writes the registers of all keys if the lock is exclusive. It calls work in any case.
func (c *stormClient) update(h *held, work func()) {
	if h.Mode == history.Exclusive {
		for _, key := range append([]string{h.Key}, h.further...) {
			within := work
			work = func() {
				c.s.guarded[key].Update(h.Fence, func() bool { return c.s.log.Now() < h.until }, within)
			}
		}
	}
	work()
}

// work lasts for a few milliseconds, for a part of the ttl, or to the end of validity or beyond.
func (c *stormClient) work(proxy int, h *held) {
	if h.Mode == history.Exclusive && len(h.further) == 0 && c.IntN(8) == 0 {
		c.s.sleep(c.upTo(10 * time.Millisecond))
		c.extend(c.either(proxy), h, "SHARED")
	}
	switch roll := c.IntN(20); {
	case roll < 15 || c.s.plan.tidy:
		c.s.sleep(c.upTo(20 * time.Millisecond))
	case roll < 17:
		for range 1 + c.IntN(3) {
			c.s.sleep(c.upTo(h.TTL / 2))
			c.extend(c.either(proxy), h)
		}
	case roll < 19:
		c.s.sleep(h.until - c.s.log.Now() - 10*time.Millisecond)
	default:
		c.s.sleep(h.until - c.s.log.Now() + c.upTo(h.TTL/2))
		if c.IntN(2) == 0 { // it must not revive a lock that another client has had since
			c.extend(c.either(proxy), h)
		}
	}
}

// either returns the same proxy or any.
func (c *stormClient) either(proxy int) int {
	if c.IntN(3) > 0 {
		return proxy
	}
	return c.anyProxy()
}

func (c *stormClient) extend(proxy int, h *held, options ...string) {
	ttl := c.s.plan.minTTL + c.upTo(c.s.plan.maxTTL-c.s.plan.minTTL)
	o := history.Op{Kind: history.Extend, Client: c.id, Key: h.Key, Token: h.Token,
		TTL: ttl.Truncate(time.Millisecond)}
	if slices.Contains(options, "SHARED") {
		o.Mode = history.Shared
	}
	args := append([]string{"EXTEND", h.Key, h.Token, millis(ttl), "FULL"}, options...)
	switch o, _ := c.ask(proxy, newRequest(o, h.further, args...)); o.Outcome {
	case history.OK:
		h.until = max(h.until, o.Until())
	case history.No: // the lock is lost
		h.until = 0
	}
}

func (c *stormClient) unlock(proxy int, h *held) (history.Op, bool) {
	o := history.Op{Kind: history.Unlock, Client: c.id, Key: h.Key, Token: h.Token}
	args := []string{"UNLOCK", h.Key, h.Token}
	if h.keep > 0 {
		o.TTL, o.Label = h.keep.Truncate(time.Millisecond), h.Label
		args = append(args, "KEEP", millis(h.keep))
	}
	return c.ask(c.either(proxy), newRequest(o, h.further, args...))
}

// session takes a SESSION lock on a connection of its own, and ends it with the connection.
func (c *stormClient) session() {
	proxy := c.anyProxy()
	r := c.lockRequest(false)
	r.args = append(r.args, "SESSION")
	c.drop(proxy)
	o, ok := c.ask(proxy, r)
	if !ok || o.Outcome != history.OK {
		return
	}
	h := &held{Op: o, further: r.further, until: o.Until()}
	c.update(h, func() { c.s.sleep(c.upTo(h.TTL / 2)) })
	// The client no longer counts on the lock. No reply will say when the proxy has released it.
	end := history.Op{Kind: history.Unlock, Client: c.id, Key: o.Key, Token: o.Token, Via: proxy}
	end.Call = c.s.log.Now()
	c.drop(proxy)
	end.Return = c.s.log.Now()
	c.record(end, h.further)
}

// vanish sends a LOCK and ends the client in some phase of it. If the client had the reply, the
// lock stays until its validity ends.
func (c *stormClient) vanish() {
	phase := lab.Phases[c.IntN(len(lab.Phases))]
	if c.s.plan.tidy && phase >= lab.Granted { // no client would unlock this lock
		phase = lab.Sent
	}
	r := c.lockRequest(c.IntN(2) == 0)
	o := r.Op
	manner := lab.Manners[c.IntN(len(lab.Manners))]
	o.Via = c.anyProxy()
	o.Call = c.s.log.Now()
	conn, reply, err := lab.VanishIn(c.s.addrs[o.Via], phase, manner, c.upTo(100*time.Millisecond), r.args...)
	o.Return = c.s.log.Now()
	if conn == nil {
		return
	}
	if manner == lab.Frozen && err == nil {
		c.frozen = append(c.frozen, conn)
	}
	if len(c.frozen) > 3 {
		c.frozen[0].Close()
		c.frozen = c.frozen[1:]
	}
	if err == nil && reply != "" {
		c.judge(&o, reply)
	}
	c.record(o, r.further)
}
