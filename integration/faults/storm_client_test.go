package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// stormClient is one client in a storm: it locks, works and unlocks, through whichever proxy, and
// now and then it vanishes, waits, keeps a lock for too long, or gives up before the reply has
// come. Everything is recorded.
type stormClient struct {
	*rand.Rand
	s      *faultStorm
	id     int
	locks  int // LOCKs so far; in the owner label
	conns  map[int]*lab.Conn
	frozen []*lab.Conn // of clients that vanished without a word
}

// stormPatience is how long a client waits for a reply. The proxy answers within a fraction of
// that, if it runs.
const stormPatience = 400 * time.Millisecond

func (c *stormClient) run() {
	defer c.close()
	for !c.s.over() {
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

// turn is one LOCK, and what a client does with it.
func (c *stormClient) turn() {
	key, proxy := c.s.keys[c.IntN(len(c.s.keys))], c.anyProxy()
	waits := c.IntN(4) == 0
	o, args := c.lockArgs(key, waits)
	if o, ok := c.ask(proxy, o, args...); ok && o.Outcome == history.OK {
		c.hold(proxy, o, waits)
	}
}

// lockArgs makes a LOCK. Its owner label names the client and the LOCK.
func (c *stormClient) lockArgs(key string, waits bool) (history.Op, []string) {
	c.locks++
	ttl := c.s.plan.minTTL + c.upTo(c.s.plan.maxTTL-c.s.plan.minTTL)
	o := history.Op{Kind: history.Lock, Client: c.id, Key: key, TTL: ttl.Truncate(time.Millisecond), Label: fmt.Sprintf("c%d-%d", c.id, c.locks)}
	args := []string{"LOCK", key, millis(ttl), "FULL", "OWNER", o.Label}
	if waits {
		args = append(args, "WAIT", millis(time.Millisecond+c.upTo(stormPatience*3/4)))
	}
	return o, args
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// held is a lock that a client has.
type held struct {
	history.Op
	until time.Duration // it may count on it so long
}

// hold works under the lock for some time and unlocks. Where the LOCK waited, only an EXTEND tells
// for how long the lock is good: its reply may have been under way for any time.
func (c *stormClient) hold(proxy int, o history.Op, waits bool) {
	h := &held{Op: o, until: o.Until()}
	if waits {
		c.extend(proxy, h)
	}
	c.s.guarded[o.Key].Update(o.Fence, func() bool { return c.s.log.Now() < h.until }, func() { c.work(proxy, h) })
	for range 3 {
		if u, ok := c.unlock(proxy, h); ok && u.Outcome != history.Unknown && u.Outcome != history.Failed || c.IntN(4) == 0 && !c.s.plan.tidy {
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

// work lasts for a few milliseconds, for long, to the end of validity or beyond.
func (c *stormClient) work(proxy int, h *held) {
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
		if c.IntN(2) == 0 { // which must not revive a lock that another has had since
			c.extend(c.either(proxy), h)
		}
	}
}

// either is the same proxy or any.
func (c *stormClient) either(proxy int) int {
	if c.IntN(3) > 0 {
		return proxy
	}
	return c.anyProxy()
}

func (c *stormClient) extend(proxy int, h *held) {
	ttl := c.s.plan.minTTL + c.upTo(c.s.plan.maxTTL-c.s.plan.minTTL)
	o := history.Op{Kind: history.Extend, Client: c.id, Key: h.Key, Token: h.Token, TTL: ttl.Truncate(time.Millisecond)}
	switch o, _ := c.ask(proxy, o, "EXTEND", h.Key, h.Token, millis(ttl), "FULL"); o.Outcome {
	case history.OK:
		h.until = max(h.until, o.Until())
	case history.No: // lost: nobody may count on it any more
		h.until = 0
	}
}

func (c *stormClient) unlock(proxy int, h *held) (history.Op, bool) {
	return c.ask(c.either(proxy), history.Op{Kind: history.Unlock, Client: c.id, Key: h.Key, Token: h.Token}, "UNLOCK", h.Key, h.Token)
}

// session takes a SESSION lock on a connection of its own, and ends it with the connection.
func (c *stormClient) session() {
	proxy := c.anyProxy()
	o, args := c.lockArgs(c.s.keys[c.IntN(len(c.s.keys))], false)
	c.drop(proxy)
	o, ok := c.ask(proxy, o, append(args, "SESSION")...)
	if !ok || o.Outcome != history.OK {
		return
	}
	h := &held{Op: o, until: o.Until()}
	c.s.guarded[o.Key].Update(o.Fence, func() bool { return c.s.log.Now() < h.until }, func() { c.s.sleep(c.upTo(h.TTL / 2)) })
	// From here on it does not count on the lock, and nobody will say when it is gone.
	end := history.Op{Kind: history.Unlock, Client: c.id, Key: o.Key, Token: o.Token, Via: proxy, Call: c.s.log.Now()}
	c.drop(proxy)
	end.Return = c.s.log.Now()
	c.s.log.Add(end)
}

// vanish is a client that ends in some phase of a LOCK. If it had the reply, the lock stands until
// its validity ends.
func (c *stormClient) vanish() {
	phase := lab.Phases[c.IntN(len(lab.Phases))]
	if c.s.plan.tidy && phase >= lab.Granted { // nobody is to unlock what was granted
		phase = lab.Sent
	}
	o, args := c.lockArgs(c.s.keys[c.IntN(len(c.s.keys))], c.IntN(2) == 0)
	manner := lab.Manners[c.IntN(len(lab.Manners))]
	o.Via = c.anyProxy()
	o.Call = c.s.log.Now()
	conn, reply, err := lab.VanishIn(c.s.addrs[o.Via], phase, manner, c.upTo(100*time.Millisecond), args...)
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
	c.s.log.Add(o)
}

// ask sends a command to a proxy, completes o with what came back and records it. False: nothing
// was sent.
func (c *stormClient) ask(proxy int, o history.Op, args ...string) (history.Op, bool) {
	conn := c.conns[proxy]
	if conn == nil {
		var err error
		if conn, err = lab.Connect(c.s.addrs[proxy]); err != nil {
			return o, false
		}
		c.conns[proxy] = conn
	}
	conn.Timeout = stormPatience
	o.Via = proxy
	o.Call = c.s.log.Now()
	reply, err := conn.Ask(args...)
	o.Return = c.s.log.Now()
	switch {
	case err == nil:
		c.judge(&o, reply)
	case errors.Is(err, os.ErrDeadlineExceeded) && c.IntN(2) == 0: // a reply that comes now is none
		if late, err := conn.Next(); err == nil && o.Kind == history.Lock {
			o.Token = strings.Join(lab.Fields(late), " ")
			o.Token = o.Token[:min(57, len(o.Token))]
		}
	}
	if err != nil {
		c.drop(proxy)
	}
	c.s.log.Add(o)
	return o, true
}

// drop ends the connection to a proxy, in either way.
func (c *stormClient) drop(proxy int) {
	if conn := c.conns[proxy]; conn != nil {
		conn.Vanish(lab.Manners[c.IntN(2)])
		delete(c.conns, proxy)
	}
}

// judge reads a reply.
func (c *stormClient) judge(o *history.Op, reply string) {
	parts := lab.Fields(reply)
	code, _, _ := strings.Cut(reply, " ")
	switch {
	case code == "-NOQUORUM", code == "-TRYAGAIN" && o.Kind != history.Unlock:
		o.Outcome, o.Error = history.Failed, strings.TrimSpace(reply)
	case o.Kind == history.Lock && reply == lab.Null2, o.Kind == history.Unlock && reply == ":0\r\n", reply == "*2\r\n:0\r\n:0\r\n":
		o.Outcome = history.No
	case o.Kind == history.Unlock && reply == ":1\r\n":
		o.Outcome = history.OK
	case o.Kind == history.Lock && strings.HasPrefix(reply, "*3\r\n$57\r\n") && len(parts) == 3:
		o.Outcome, o.Token = history.OK, parts[0]
		o.Fence, _ = strconv.ParseUint(parts[1], 10, 64)
		o.Validity = c.validity(parts[2])
	case o.Kind == history.Extend && strings.HasPrefix(reply, "*2\r\n:1\r\n") && len(parts) == 2:
		o.Outcome, o.Validity = history.OK, c.validity(parts[1])
	default:
		o.Outcome, o.Error = history.Failed, strings.TrimSpace(reply)
		c.s.t.Errorf("%v: a reply of no known form: %q", o, reply)
	}
}

func (c *stormClient) validity(text string) time.Duration {
	ms, err := strconv.Atoi(text)
	if err != nil || ms < 0 {
		c.s.t.Errorf("validity %q", text)
	}
	return time.Duration(ms) * time.Millisecond
}
