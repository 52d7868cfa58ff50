package quorum

import (
	"fmt"
	"testing"
)

// A subscription stands when everything sent for its channel is confirmed, however often it was let go and taken up meanwhile.
func TestSubscriptionsAreCounted(t *testing.T) {
	e := &ears{q: &Quorum{lanes: []*lane{{}}}}
	e.init(e.q, nil)
	m := &ear{ears: e, lane: e.q.lanes[0], wake: make(chan struct{}, 1), running: true, dirty: map[string]struct{}{}, subs: map[string]subState{}}
	e.masters = []*ear{m}
	sends := func(want string) {
		t.Helper()
		on, off := m.takeDirty()
		if got := fmt.Sprint(len(on), len(off)); got != want {
			t.Errorf("sends %s, want %s", got, want)
		}
	}
	w, l := e.add("k", func(string) {})
	sends("1 0")
	sends("0 0")
	e.remove(w, l)
	sends("0 1")
	var h heard
	w, l = e.add("k", h.add)
	sends("1 0")
	e.settle(w, l)
	for i, want := range []int{0, 0, 1} {
		m.settled(w.channel)
		if w.count != want || l.sure != (want == 1) {
			t.Errorf("after confirmation %d: %d masters, %v", i, w.count, l.sure)
		}
	}
	if h.count("") != 1 {
		t.Errorf("woken %d times by a confirmation that came late, want once", h.count(""))
	}
	// Let go and taken up before anything was sent: it stands, and who came late is told.
	e.remove(w, l)
	w, l = e.add("k", h.add)
	e.settle(w, l)
	sends("0 0")
	if !l.sure || w.count != 1 || h.count("") != 2 {
		t.Errorf("%v, %d masters, woken %d times", l.sure, w.count, h.count(""))
	}
	e.remove(w, l)
	sends("0 1")
	m.settled(w.channel)
	if len(m.subs) != 0 || len(m.dirty) != 0 || len(e.watched) != 0 {
		t.Errorf("kept %v, %v, %v", m.subs, m.dirty, e.watched)
	}
}

// A client of go-redis has one connection and never another: what it says again would be said behind our back.
func TestOnceClient(t *testing.T) {
	s := startRedis(t)
	client, conn := (&MasterOptions{Addr: s.addr}).onceClient()
	defer func() { _ = client.Close() }()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	conn.close()
	for range 3 {
		if err := client.Ping(t.Context()).Err(); err == nil {
			t.Error("answered over another connection")
		}
	}
}
