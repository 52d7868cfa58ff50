package upstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeMemory returns values that the test sets, and records the values that it is given.
type fakeMemory struct {
	mu    sync.Mutex
	has   []string
	asked int
	kept  []string
}

func (m *fakeMemory) Keep(_ context.Context, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = append(m.kept, value)
}

func (m *fakeMemory) Recall(context.Context) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	return slices.Clone(m.has)
}

func (m *fakeMemory) took() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.kept, " ")
}

func TestBelieved(t *testing.T) {
	for values, want := range map[string]string{
		"- - -": "", "none - -": "", "none none -": "none", "none none none": "none", "password - -": "password",
		"none none password": "password",
		"none none - -":      "", "none none none -": "none", "none": "none", "-": "", "yes yes yes": "",
		"none yes none": "none",
	} {
		t.Run(values, func(t *testing.T) {
			if got := believed(strings.Split(strings.ReplaceAll(values, "-", ""), " ")); got != want {
				t.Errorf("%s: got %q, want %q", values, got, want)
			}
		})
	}
}

// TestGateUsesMemoryUntilFirstAnswer: the memory counts while the upstream has never answered, is
// asked once a second, and not at all afterwards.
func TestGateUsesMemoryUntilFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := "refuse"
		m := &fakeMemory{has: []string{"none", "none", ""}}
		g := NewGate(New(fake(new(atomic.Int32), func() string { return reply })), m)
		expect := func(what string, want bool, wantErr string, asked int) {
			t.Helper()
			got, err := g.AuthRequired(t.Context())
			if got != want || Reason(err) != wantErr || m.asked != asked {
				t.Errorf("%s: got %v, %q, the memory was asked %d times; want %v, %q, %d", what, got, Reason(err), m.asked, want,
					wantErr, asked)
			}
		}
		known := func(what, want string) {
			t.Helper()
			asked := m.asked
			if required, known := g.Known(); fmt.Sprint(required, known) != want || m.asked != asked {
				t.Errorf("%s: Known says %v %v, want %s and no question", what, required, known, want)
			}
		}
		known("nothing", "false false")
		expect("none", false, "", 1)
		known("only the memory knows", "false false")
		m.has = []string{"none", "none", "password"}
		expect("within a second", false, "", 1)
		time.Sleep(factsLast + 1)
		expect("password", true, "", 2)
		m.has = []string{"", "none", ""}
		time.Sleep(factsLast + 1)
		expect("not known", false, "connection refused", 3)
		m.has = []string{"none", "none", "none"}
		reply = closedDoor
		expect("the upstream itself", true, "", 3)
		known("the upstream itself", "true true")
		time.Sleep(factsLast)
		known("a second later", "false false")
		reply = "refuse"
		time.Sleep(time.Hour)
		expect("its last answer", true, "", 3)
	})
}

// TestGateDoesNotWaitForSilentUpstream: if the memory has an answer, clients do not wait a second
// each for the upstream.
func TestGateDoesNotWaitForSilentUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := New(fake(new(atomic.Int32), func() string { return "" }))
		g := NewGate(u, &fakeMemory{has: []string{"none"}})
		for i, most := range []time.Duration{firstPatience, 0, 0} {
			start := time.Now()
			if got, err := g.AuthRequired(t.Context()); got || err != nil || time.Since(start) > most {
				t.Errorf("question %d: %v %v after %v, want at most %v", i, got, err, time.Since(start), most)
			}
		}
		time.Sleep(time.Minute)
		start := time.Now()
		if got, err := g.AuthRequired(t.Context()); got || err != nil || time.Since(start) > patience {
			t.Errorf("a minute later: %v %v after %v, want at most %v", got, err, time.Since(start), patience)
		}
		time.Sleep(time.Minute)
	})
}

// TestGateStoresNewAnswers: the gate stores the upstream's first answer, each that differs, and
// else one a minute; it does not store an old answer while the upstream is away.
func TestGateStoresNewAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reply atomic.Value
		reply.Store("refuse")
		m := &fakeMemory{}
		g := NewGate(New(fake(new(atomic.Int32), func() string { return reply.Load().(string) })), m)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { g.Run(ctx) })
		ask := func(n int) {
			for range n {
				g.AuthRequired(t.Context())
				time.Sleep(factsLast)
			}
			synctest.Wait()
		}
		expect := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := m.took(); got != want {
				t.Errorf("%s: %q was kept, want %q", what, got, want)
			}
		}
		ask(3)
		expect("nothing is known", "")
		reply.Store(openDoor)
		ask(10)
		expect("learnt", "none")
		reply.Store(closedDoor)
		ask(10)
		expect("changed", "none password")
		time.Sleep(3 * time.Minute)
		expect("three minutes later", "none password password password password")
		reply.Store("refuse")
		time.Sleep(3 * time.Minute)
		expect("three minutes without the upstream", "none password password password password")
		cancel()
		wg.Wait()
	})
}
