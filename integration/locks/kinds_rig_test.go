package locks

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// crowd has many clients of two proxies that take locks of any kind. It records their commands and
// the replies, and judges them at the end.
type crowd struct {
	*lab.TwoProxies
	t       *testing.T
	log     *history.Log
	seed    uint64
	stop    chan struct{}
	members sync.WaitGroup
}

func startCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{t: t, log: history.NewLog(), stop: make(chan struct{})}
	c.seed = lab.SeedOf(t, uint64(time.Now().UnixNano()))
	c.TwoProxies = lab.StartTwoProxies(t, "--master-timeout", "2s") // the machine may be busy
	return c
}

// member is one client.
type member struct {
	*rand.Rand
	c    *crowd
	conn *lab.Conn
	id   int
	via  int
}

// join connects a member to one of the proxies.
func (c *crowd) join(id int) *member {
	m := &member{Rand: rand.New(rand.NewPCG(c.seed, uint64(id))), c: c, id: id, via: id % 2}
	conn, err := lab.Connect([]string{c.Addr, c.Second.Addr}[m.via])
	if err != nil {
		c.t.Error(err)
		return nil
	}
	m.conn = conn
	return m
}

// start lets the members from first up to last take turns until the end, or until one fails.
func (c *crowd) start(first, last int, turn func(m *member) bool) {
	for id := first; id < last; id++ {
		c.members.Go(func() {
			m := c.join(id)
			if m == nil {
				return
			}
			defer m.conn.Close()
			for !c.stopped() && turn(m) {
			}
		})
	}
}

func (c *crowd) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// end stops all members and waits for them.
func (c *crowd) end() {
	close(c.stop)
	c.members.Wait()
}

// wantLegal judges the replies to all members, and fails if a waiter or a key is left.
func (c *crowd) wantLegal() {
	c.t.Helper()
	ops := c.log.Ops()
	c.t.Log(history.Summarize(ops))
	found := append(history.Overlaps(ops), history.Fences(ops)...)
	found = append(append(found, history.Tokens(ops)...), history.Lost(ops)...)
	for _, v := range found[:min(10, len(found))] {
		c.t.Error(v)
	}
	c.Near.WaitWaiting(0)
	c.Far.WaitWaiting(0)
	c.WantNoStray(c.t)
}

func (m *member) upTo(d time.Duration) time.Duration {
	return time.Duration(m.Int64N(int64(d) + 1))
}

func (m *member) sleep(d time.Duration) { <-time.After(d) }

// held is a lock that a member holds, with an operation for each of its keys.
type held struct {
	ops  []history.Op
	args []string // KEYS and the further keys
}

// lock asks for a lock. It returns nil for a refusal, and false after an error. A member that
// waited does not know when its validity began; half of the ttl from the reply is on the safe
// side.
func (m *member) lock(ttl time.Duration, keys []string, mode history.Mode, limit int, waits bool) (
	*held, bool) {
	h, args := &held{}, []string{"LOCK", keys[0], fmt.Sprint(ttl.Milliseconds()), "FULL"}
	if len(keys) > 1 {
		h.args = append([]string{"KEYS", strconv.Itoa(len(keys) - 1)}, keys[1:]...)
	}
	args = append(args, h.args...)
	if mode != history.Exclusive {
		args = append(args, mode.String())
	}
	if mode == history.Limited {
		args = append(args, strconv.Itoa(limit))
	}
	if waits {
		args = append(args, "WAIT", "0")
	}
	o := history.Op{Client: m.id, Via: m.via, Mode: mode, Limit: limit, TTL: ttl}
	o.Call = m.c.log.Now()
	reply, err := m.conn.Ask(args...)
	o.Return = m.c.log.Now()
	switch {
	case err == nil && granted(&o, reply):
	case err == nil && !waits && refused(reply):
		return nil, true
	default:
		m.c.t.Errorf("%q: got %q, %v, want a grant, or without WAIT a refusal", args, reply, err)
		return nil, false
	}
	if waits {
		o.Validity = o.Return - o.Call + ttl/2
	}
	for _, o.Key = range keys {
		h.ops = append(h.ops, o)
		m.c.log.Add(o)
	}
	return h, true
}

// refused reports whether a reply is a refusal. Errors of the masters count, because the ttl may
// be short and the machine busy.
func refused(reply string) bool {
	code, _, _ := strings.Cut(reply, " ")
	return reply == lab.Null2 || code == "-NOQUORUM" || code == "-TRYAGAIN"
}

// granted reads the reply to a LOCK ... FULL.
func granted(o *history.Op, reply string) bool {
	parts, want := lab.Fields(reply), 3
	if o.Mode == history.Limited {
		want = 4
	}
	if !strings.HasPrefix(reply, "*") || len(parts) != want {
		return false
	}
	o.Outcome, o.Token = history.OK, parts[0]
	var errs [3]error
	var ms int
	o.Fence, errs[0] = strconv.ParseUint(parts[1], 10, 64)
	ms, errs[1] = strconv.Atoi(parts[2])
	o.Validity = time.Duration(ms) * time.Millisecond
	if o.Mode == history.Limited {
		o.Slot, errs[2] = strconv.Atoi(parts[3])
	}
	return cmp.Or(errs[0], errs[1], errs[2]) == nil
}

// unlock sends UNLOCK, which must find the lock held unless its validity ended before the reply.
func (m *member) unlock(h *held) bool {
	o := h.ops[0]
	args := append([]string{"UNLOCK", o.Key, o.Token}, h.args...)
	u := history.Op{Client: m.id, Via: m.via, Kind: history.Unlock, Token: o.Token}
	u.Call = m.c.log.Now()
	reply, err := m.conn.Ask(args...)
	u.Return = m.c.log.Now()
	switch {
	case err == nil && reply == ":1\r\n":
		u.Outcome = history.OK
	case err == nil && reply == ":0\r\n" && u.Return > o.Until():
		u.Outcome = history.No // the machine was so busy that the lock has expired
	default:
		m.c.t.Errorf("%q: got %q, %v, want 1", args, reply, err)
		return false
	}
	for _, o := range h.ops {
		u.Key = o.Key
		m.c.log.Add(u)
	}
	return true
}
