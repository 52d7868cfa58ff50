package queue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum"
)

const ms = time.Millisecond

// hall is clients that wait for keys of simMasters.
type hall struct {
	t  *testing.T
	s  *simMasters
	qs *Queues
	wg sync.WaitGroup

	mu  sync.Mutex
	out map[string]outcomeAt
}

func inHall(t *testing.T, f func(h *hall)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimMasters()
		h := &hall{t: t, s: s, qs: New(s, s, 5, 5000, time.Minute), out: make(map[string]outcomeAt)}
		f(h)
		h.wg.Wait()
		time.Sleep(time.Minute) // all locks run out
		for key, watchers := range s.watchers {
			if len(watchers) > 0 {
				t.Errorf("%d subscriptions to %s left", len(watchers), key)
			}
		}
		if clients, keys := h.qs.Total(); clients != 0 || keys != 0 {
			t.Errorf("left: %d waiters, %d queues", clients, keys)
		}
	})
}

// guest is a client: its request, and how long it holds the lock.
type guest struct {
	name    string
	mode    quorum.Mode
	limit   int
	keys    []string      // none: job
	ttl     time.Duration // 0: 10s
	hold    time.Duration // 0: it never releases
	timeout time.Duration
	foreign bool // its release comes through another proxy
	share   bool // in the middle of hold it makes the lock a shared one
}

func (g *guest) request() quorum.Request {
	if g.keys == nil {
		g.keys = []string{"job"}
	}
	if g.ttl == 0 {
		g.ttl = 10 * time.Second
	}
	return quorum.Request{Key: g.keys[0], Keys: g.keys[1:], TTL: g.ttl, Owner: g.name,
		Mode: g.mode, Limit: g.limit}
}

// enter lets g wait. The guest of the next call comes after it.
func (h *hall) enter(g guest) (leave func()) {
	disconnected := make(chan struct{})
	h.wg.Go(func() { h.serve(g, disconnected) })
	synctest.Wait()
	return func() { close(disconnected); synctest.Wait() }
}

func (h *hall) serve(g guest, disconnected <-chan struct{}) {
	_, err := h.qs.Wait(context.Background(), disconnected, g.timeout, nil, g.request())
	h.mu.Lock()
	h.out[g.name] = outcomeAt{err, time.Since(bubbleStart)}
	h.mu.Unlock()
	if err != nil || g.hold == 0 {
		return
	}
	if g.share {
		time.Sleep(g.hold / 2)
		h.release(g, true)
	}
	time.Sleep(g.hold)
	h.release(g, false)
}

// release ends the lock of g, or shares it.
func (h *hall) release(g guest, share bool) {
	for _, key := range g.keys {
		d := h.s.takes
		h.s.release(key, g.name, share, d(), d(), d(), d(), d())
	}
	time.Sleep(2 * time.Millisecond) // the reply
	if !g.foreign {
		for _, key := range g.keys {
			h.qs.Released(key, g.name)
		}
	}
}

func (h *hall) result(name string) outcomeAt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.out[name]
}

// granted checks that name got the lock between from and to.
func (h *hall) granted(name string, from, to time.Duration) {
	h.t.Helper()
	got := h.result(name)
	if got.at == 0 || got.err != nil || got.at < from || got.at > to {
		h.t.Errorf("%s got %v at %v, want the lock between %v and %v", name, got.err, got.at, from, to)
	}
}

func names(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s%04d", prefix, i))
	}
	return out
}
