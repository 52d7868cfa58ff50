package master

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// host is the Quorum of one lane: it lets the master vote under the record that it finds, and
// records the calls of the lane.
type host struct {
	lane *Lane
	hold bool // the master may not vote

	mu      sync.Mutex
	claimed map[string]int // by run_id
	reports reports        // the calls of the lane
}

// reports are the calls of a lane.
type reports struct {
	observed []admission.Observation
	lost     int
	landed   []wire.TokenAt
	late     []uint64
	drained  int
}

func (h *host) Claim(runID string, lane int) (other int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, taken := h.claimed[runID]; taken && other != lane {
		return other, false
	}
	h.claimed[runID] = lane
	return lane, true
}

func (h *host) Unclaim(lane int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for runID, by := range h.claimed {
		if by == lane {
			delete(h.claimed, runID)
		}
	}
}

func (h *host) Observed(_ int, o admission.Observation) {
	h.mu.Lock()
	h.reports.observed = append(h.reports.observed, o)
	hold := h.hold
	h.mu.Unlock()
	switch {
	case hold:
	case o.Stepped || o.Demoted:
		h.lane.Exclude(o.Conn, stat.StateQuarantined, errProbing, true)
		h.lane.Forgive() // as after a quarantine
	default:
		h.lane.Admit(o.Conn, o.Record, o.Sent.Add(admission.MaxAge))
	}
}

func (h *host) note(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *host) Lost(int, uint64)        { h.note(func() { h.reports.lost++ }) }
func (*host) Ponged(int, time.Duration) {}
func (h *host) Landed(_ int, t wire.TokenAt, _ uint64, _ time.Time) {
	h.note(func() { h.reports.landed = append(h.reports.landed, t) })
}
func (h *host) ReleasedLate(_ wire.TokenAt, b uint64) {
	h.note(func() { h.reports.late = append(h.reports.late, b) })
}
func (h *host) Flush()   { h.lane.Flush() }
func (h *host) Drained() { h.note(func() { h.reports.drained++ }) }

// sofar returns the calls until now.
func (h *host) sofar() reports {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.reports
	t.observed, t.landed, t.late = slices.Clone(t.observed), slices.Clone(t.landed), slices.Clone(t.late)
	return t
}

// last returns the last observation.
func (h *host) last() admission.Observation {
	all := h.sofar().observed
	return all[len(all)-1]
}

// inBubble runs a test with a fake master in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, m *fake.Master)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := fake.New("run-1")
		m.Set(func() { m.SetState("record", record) })
		test(t, m)
	})
}

// record is the record of the masters in these tests.
const record = "A run-1 fingerprint 1-0-0123456789abcdef"

// start starts a lane to m and waits until it has been reached, or not. It ends with the test.
func start(t *testing.T, m *fake.Master, change ...func(*LaneConfig)) (*Lane, *host) {
	t.Helper()
	l, h := begin(t, &Options{Name: "10.0.0.1:6379", Addr: "10.0.0.1:6379", Dial: m.Dial}, change...)
	t.Cleanup(func() { m.Resume(); m.Stop() })
	<-l.Ready()
	synctest.Wait()
	return l, h
}

// begin starts a lane. It ends with the test.
func begin(t *testing.T, o *Options, change ...func(*LaneConfig)) (*Lane, *host) {
	t.Helper()
	h := &host{claimed: map[string]int{}}
	c := LaneConfig{
		Options: o, Names: []string{o.NameOf(), "10.0.0.2:6379"}, Host: h, Log: zap.NewNop(), Start: time.Now(),
		MaxTTL:    time.Minute,
		KeyPrefix: "lock:", Encoder: &wire.Encoder{StateKey: wire.ReservedPrefix + "state:lock:", Fencing: true},
	}
	for _, f := range change {
		f(&c)
	}
	h.lane = New(c)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { h.lane.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return h.lane, h
}

// collect is a Receiver that keeps each answer in words: "acquire 1", "release gone", "acquire may
// land", "acquire noscript", "acquire noperm", "acquire void: reason".
type collect struct {
	mu  sync.Mutex
	got []string
}

var names = map[wire.OpKind]string{wire.Acquire: "acquire", wire.Raise: "raise", wire.Release: "release",
	wire.Fade: "fade", wire.TopUp: "topup",
	wire.Extend: "extend", wire.Check: "check", wire.Inspect: "inspect", wire.Free: "free", wire.Refresh: "refresh"}

func (c *collect) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, text)
}

func (c *collect) Answered(_ int, op *wire.Op, a *Answer) {
	text := fmt.Sprint(a.Reply.Int)
	switch {
	case a.MayLand:
		text = "may land"
	case a.AskAgain && a.NotRun:
		text = strings.ToLower(a.Reply.Code())
	case a.AskAgain:
		text = "again: " + a.Err.Error()
	case a.Err != nil && a.NotRun:
		text = "not run: " + a.Err.Error()
	case a.Err != nil:
		text = "void: " + a.Err.Error()
	case a.Reply.Kind == '$':
		text = a.Reply.Text
	}
	c.add(names[op.Kind] + " " + text)
}

func (c *collect) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.got...)
}

func (c *collect) String() string { return strings.Join(c.all(), ", ") }

// secret makes the secret of a token from a number.
func secret(n int) string { return fmt.Sprintf("%040x", n) }

func tokenAt(key string, n int) wire.TokenAt {
	return wire.TokenAt{Key: "lock:" + key, Secret: secret(n)}
}

// op is an operation with ttl 1m.
func op(k wire.OpKind, t wire.TokenAt) wire.Op {
	o := wire.Op{Kind: k, TokenAt: t, Counter: wire.CounterOf(t.Key)}
	if k == wire.Acquire || k == wire.Extend || k == wire.TopUp || k == wire.Fade {
		o.TTL = time.Minute
	}
	return o
}

// unlock is the release of an UNLOCK.
func unlock(t wire.TokenAt) wire.Op {
	o := op(wire.Release, t)
	o.Publish = true
	return o
}

// topUp is a lock that lives another minute.
func topUp(t wire.TokenAt) TopUp {
	return TopUp{TokenAt: t, Fence: 7, Until: time.Now().Add(time.Minute), Since: clock.Start(), TTL: time.Minute}
}

// mustAsk asks and flushes.
func mustAsk(t *testing.T, l *Lane, o wire.Op, to Receiver) {
	t.Helper()
	if err := l.Ask(o, to); err != nil {
		t.Fatalf("Ask: the master %v", err)
	}
	l.Flush()
}

// noScripts counts the packets that were answered NOSCRIPT. A trial of rights gets the same
// answer.
func noScripts(m *fake.Master) int { return m.Ran("NOSCRIPT") - 1 }

// noKeys fails unless the master is empty.
func noKeys(t *testing.T, m *fake.Master) {
	t.Helper()
	if n, _ := m.Holds("", ""); n != 0 {
		t.Errorf("%d keys left on the master, want 0", n)
	}
}

// lacks returns t for a master that has just answered that it lacks the token.
func lacks(t TopUp) TopUp {
	t.Lacks = true
	return t
}
