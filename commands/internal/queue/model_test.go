package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/quorum"
)

// seat is a client in the lines as they should be.
type seat struct {
	want  quorum.Request
	ready time.Time // since when it could have the lock; zero: it could not
}

// model is a simple version of the queues: one line a key, in order of arrival. Guarded by
// simMasters.mu.
type model struct {
	t       *testing.T
	s       *simMasters
	lines   map[string][]*seat
	slowest time.Duration
}

// comes puts a client at the end of its lines.
func (m *model) comes(want quorum.Request) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	st := &seat{want: want}
	for _, key := range keysOf(want) {
		m.lines[key] = append(m.lines[key], st)
	}
	m.look()
}

func (m *model) leaves(want quorum.Request) {
	for _, key := range keysOf(want) {
		m.lines[key] = slices.DeleteFunc(m.lines[key], func(st *seat) bool {
			return st.want.Owner == want.Owner
		})
	}
	m.look()
}

// inTurn reports whether everybody before st in its lines shares the lock with it.
func (m *model) inTurn(st *seat) bool {
	for _, key := range keysOf(st.want) {
		for _, before := range m.lines[key] {
			if before == st {
				break
			}
			if st.want.Mode != quorum.Shared || before.want.Mode != quorum.Shared {
				return false
			}
		}
	}
	return true
}

// look notes who could have the lock from now on.
func (m *model) look() {
	for _, line := range m.lines {
		for _, st := range line {
			ready := m.inTurn(st)
			for _, key := range keysOf(st.want) {
				ready = ready && m.s.freeInLocked(key, st.want.Mode, st.want.Limit) == 0
			}
			switch {
			case !ready:
				st.ready = time.Time{}
			case st.ready.IsZero():
				st.ready = time.Now()
			}
		}
	}
}

// granting checks a grant.
func (m *model) granting(want quorum.Request) {
	if strings.HasPrefix(want.Owner, "stranger") {
		return
	}
	m.look()
	line := m.lines[want.Key]
	at := slices.IndexFunc(line, func(st *seat) bool { return st.want.Owner == want.Owner })
	if at < 0 {
		m.t.Errorf("%s got the lock and does not wait", want.Owner)
		return
	}
	if !m.inTurn(line[at]) {
		m.t.Errorf("%s (%v) overtook others", want.Owner, want.Mode)
	}
	m.slowest = max(m.slowest, time.Since(line[at].ready))
	m.leaves(want)
}

// visit is the life of one client.
func (m *model) visit(h *hall, g guest, disconnected <-chan struct{}) {
	want := g.request()
	m.comes(want)
	h.serve(g, disconnected)
	if h.result(g.name).err != nil {
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		m.leaves(want)
	}
}

// randomGuest asks for some of six keys. Mostly the key decides the mode, like in practice.
func randomGuest(r *rand.Rand, name string) guest {
	keys := []string{"a", "b", "c", "d", "e", "f"}
	r.Shuffle(6, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	g := guest{name: name, keys: keys[:1], ttl: time.Duration(30+r.IntN(100)) * ms}
	g.foreign = r.IntN(2) == 0
	switch n := r.IntN(10); {
	case n < 3:
		g.mode = quorum.Shared
	case n < 5:
		g.mode, g.limit = quorum.Limited, 1+r.IntN(3)
	case n < 8:
		g.keys = keys[:2+r.IntN(3)]
	default:
		g.share = r.IntN(2) == 0
	}
	if r.IntN(5) > 0 { // else it runs out
		g.hold = 1 + time.Duration(r.Int64N(int64(g.ttl/2)))
	}
	if r.IntN(8) == 0 {
		g.timeout = time.Duration(1+r.IntN(300)) * time.Millisecond
	}
	return g
}

// TestRandomClientsAreServedSoonAndInOrder lets clients of all kinds come and go at random. A
// client that could have the lock has it soon. None overtakes another, except readers other
// readers. All are served.
func TestRandomClientsAreServedSoonAndInOrder(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 20
	}
	var slowest time.Duration
	for seed := range uint64(seeds) {
		inHall(t, func(h *hall) {
			h.s.takes = func() time.Duration { return 1 + rand.N(ms/2) }
			m := &model{t: t, s: h.s, lines: make(map[string][]*seat)}
			h.s.changed, h.s.granting = m.look, m.granting
			m.visits(h, seed)
			for name, got := range h.out {
				if got.err != nil && got.err != ErrTimeout && got.err != ErrDisconnected {
					t.Errorf("%s got %v", name, got.err)
				}
			}
			slowest = max(slowest, m.slowest)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("nobody waited longer than %v for a lock that was free", slowest)
	if slowest >= firstTry { // then no message announced it
		t.Errorf("somebody waited %v for a lock that was free", slowest)
	}
}

// visits lets 60 random clients come one after the other, and returns when all have left. One in
// ten disconnects; beside one in ten comes a stranger.
func (m *model) visits(h *hall, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range 60 {
		g := randomGuest(r, fmt.Sprintf("%d-%d", seed, i))
		disconnected := make(chan struct{})
		h.wg.Go(func() { m.visit(h, g, disconnected) })
		if r.IntN(10) == 0 {
			time.AfterFunc(time.Duration(r.IntN(200))*time.Millisecond, func() { close(disconnected) })
		}
		if r.IntN(10) == 0 {
			other := randomGuest(r, "stranger "+g.name)
			h.wg.Go(func() { stranger(h, other) })
		}
		time.Sleep(1 + time.Duration(r.Int64N(int64(10*time.Millisecond))))
	}
	h.wg.Wait()
}

// stranger is a client of another proxy that takes any free lock.
func stranger(h *hall, g guest) {
	g.foreign, g.share = true, false
	if _, err := h.s.Acquire(context.Background(), g.request()); err == nil && g.hold > 0 {
		time.Sleep(g.hold)
		h.release(g, false)
	}
}
