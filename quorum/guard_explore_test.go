package quorum

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// exploreSeeds is how many random histories TestGuardExplored tries; GUARD_SEEDS sets another number, GUARD_FROM the first.
const exploreSeeds = 10

const exploreMaxTTL = 2 * time.Second

// TestGuardExplored lets masters lose what they know, stop, stall, step their clocks and come back while two or three proxies
// lock and unlock, in virtual time. No two leases of one key overlap, fences rise, no master is admitted sooner than max-ttl after
// it lost its memory, and in the end all vote.
func TestGuardExplored(t *testing.T) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	from := number("GUARD_FROM", 1)
	for seed := from; seed < from+number("GUARD_SEEDS", exploreSeeds); seed++ {
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			inBubble(t, 3+2*(seed%2), func(t *testing.T, s *sim) {
				e := newExplorer(t, s, seed)
				e.explore()
			})
		})
		if !ok {
			return
		}
	}
}

// explorer is one history.
type explorer struct {
	*sim
	rand    *rand.Rand
	steps   bool // clocks step; then no proxy comes late, as it has nothing to compare them with
	proxies []*exploredProxy
	masters []*exploredMaster
	end     chan struct{}
	wg      sync.WaitGroup

	mu     sync.Mutex
	log    []string
	held   map[string]exploredLease
	fences map[string]exploredFence
	grants int
}

type exploredLease struct {
	secret string
	until  time.Time
}

// exploredFence is the largest fence of the leases that were given out by then.
type exploredFence struct {
	fence uint64
	at    time.Time
}

type exploredProxy struct {
	*Quorum
	stall chan struct{} // closed while it runs
	mu    sync.Mutex
	end   chan struct{}
}

type exploredMaster struct {
	*fakeMaster
	lost    time.Time // when it lost its memory last
	runs    int
	durable bool
	old     struct {
		store    map[string]fakeValue
		counters map[string]uint64
		state    map[string]string
	}
}

func newExplorer(t *testing.T, s *sim, seed int) *explorer {
	e := &explorer{sim: s, rand: rand.New(rand.NewPCG(uint64(seed), 1)), steps: seed%3 == 0, end: make(chan struct{}),
		held: map[string]exploredLease{}, fences: map[string]exploredFence{}}
	for _, m := range s.masters {
		x := &exploredMaster{fakeMaster: m, durable: e.rand.IntN(3) == 0}
		if x.durable {
			makeDurable(m)
		}
		e.masters = append(e.masters, x)
	}
	return e
}

func (e *explorer) explore() {
	e.start()
	e.start()
	e.wg.Go(e.watch)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		time.Sleep(time.Duration(1+e.rand.IntN(600)) * time.Millisecond)
		e.fault()
	}
	for _, m := range e.masters {
		m.resume()
		m.start()
	}
	for _, p := range e.proxies {
		p.resume()
	}
	time.Sleep(3*(exploreMaxTTL+margin(exploreMaxTTL)) + 8*time.Second)
	for i, p := range e.proxies {
		wantStates(e.t, p.Quorum, fmt.Sprint("in the end, proxy ", i), strings.Repeat("v", len(e.masters)))
	}
	for _, p := range e.proxies {
		close(p.end)
	}
	close(e.end)
	e.wg.Wait()
	if e.grants < 20 {
		e.t.Errorf("only %d grants", e.grants)
	}
	if e.t.Failed() {
		e.t.Log(strings.Join(e.log, "\n"))
	}
}

// start starts a proxy and its clients.
func (e *explorer) start() {
	p := &exploredProxy{stall: make(chan struct{}), end: make(chan struct{})}
	close(p.stall)
	p.Quorum = e.begin(func(o *Options) {
		o.Guard, o.MaxTTL = GuardOn, exploreMaxTTL
		for i := range o.Masters {
			dial := o.Masters[i].Dial
			o.Masters[i].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				p.run()
				c, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &stallConn{c, p}, nil
			}
		}
	})
	e.proxies = append(e.proxies, p)
	e.note("proxy %d starts", len(e.proxies)-1)
	for range 2 {
		seed := e.rand.Uint64()
		number := len(e.proxies) - 1
		e.wg.Go(func() { e.client(p, number, rand.New(rand.NewPCG(seed, 2))) })
	}
}

// note keeps what happened, for the case that it is wanted.
func (e *explorer) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log = append(e.log, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// wrong fails the test, and ends the notes.
func (e *explorer) wrong(format string, args ...any) {
	e.t.Helper()
	e.note("WRONG "+format, args...)
	e.t.Errorf(format, args...)
}

// watch looks for masters that are admitted too soon.
func (e *explorer) watch() {
	for {
		select {
		case <-e.end:
			return
		case <-time.After(5 * time.Millisecond):
		}
		for i, m := range e.masters {
			m.mu.Lock()
			r, since := parseRecord(m.state["record"]), time.Since(m.lost)
			votes := r.kind == recordVotes && r.runID == m.runID
			m.mu.Unlock()
			if votes && since < exploreMaxTTL {
				e.wrong("master %d votes %v after it lost its memory: %v", i, since, r)
			}
		}
	}
}

func (e *explorer) client(p *exploredProxy, number int, r *rand.Rand) {
	for {
		select {
		case <-p.end:
			return
		case <-time.After(time.Duration(r.IntN(200)) * time.Millisecond):
		}
		key := []string{"a", "b"}[r.IntN(2)]
		began := time.Now()
		lease, err := p.Acquire(context.Background(), Request{Key: key, TTL: time.Duration(100+r.IntN(1900)) * time.Millisecond})
		if err != nil {
			continue
		}
		e.granted(number, key, began, lease)
		for r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.Int64N(int64(lease.Validity))))
			left, err := p.Extend(context.Background(), key, lease.Token, time.Duration(100+r.IntN(1900))*time.Millisecond)
			if err != nil {
				break
			}
			lease.Validity = left
			e.mu.Lock()
			if h := e.held[key]; h.secret == lease.Token.Secret && time.Now().Add(left).After(h.until) {
				e.held[key] = exploredLease{h.secret, time.Now().Add(left)}
			}
			e.mu.Unlock()
		}
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(800)) * time.Millisecond)
			e.mu.Lock()
			if e.held[key].secret == lease.Token.Secret {
				delete(e.held, key)
			}
			e.mu.Unlock()
			_, _ = p.Release(context.Background(), key, lease.Token)
		}
	}
}

// granted checks a lease against those before.
func (e *explorer) granted(proxy int, key string, began time.Time, lease Lease) {
	now := time.Now()
	e.note("proxy %d grants %s %d %.4s for %v", proxy, key, lease.Token.Fence, lease.Token.Secret, lease.Validity)
	e.mu.Lock()
	before, fence := e.held[key], e.fences[key]
	e.held[key] = exploredLease{lease.Token.Secret, now.Add(lease.Validity)}
	if lease.Token.Fence > fence.fence {
		e.fences[key] = exploredFence{lease.Token.Fence, now}
	}
	e.grants++
	e.mu.Unlock()
	if before.until.After(now) {
		e.wrong("%s is granted while %.4s holds it for another %v", key, before.secret, before.until.Sub(now))
	}
	if began.After(fence.at) && lease.Token.Fence <= fence.fence {
		e.wrong("fence %d of %s after %d", lease.Token.Fence, key, fence.fence)
	}
}

// fault does something to a master or a proxy.
func (e *explorer) fault() {
	i := e.rand.IntN(len(e.masters))
	m, p := e.masters[i], e.proxies[e.rand.IntN(len(e.proxies))]
	kinds := []func(){
		func() { e.note("master %d is cut off", i); m.cut() },
		func() { e.note("master %d stops", i); m.stop() },
		func() { e.note("master %d starts", i); m.start() },
		func() { e.note("master %d starts", i); m.start() },
		func() { e.note("master %d stalls", i); m.stalls() },
		func() { e.note("master %d resumes", i); m.resume() },
		func() { e.note("master %d resumes", i); m.resume() },
		func() { e.note("master %d has its scripts flushed", i); m.flushScripts() },
		func() { e.note("a proxy stalls"); p.pause() },
		func() { e.note("the proxy resumes"); p.resume() },
		func() { e.note("the proxy resumes"); p.resume() },
		func() { m.remember() },
		func() {
			if !e.steps && len(e.proxies) < 4 {
				e.start()
			}
		},
		func() { e.some(e.restart) },
		func() { e.some(e.restart) },
		func() { e.some(e.flush) },
		func() {
			if e.steps {
				step := time.Duration(e.rand.IntN(20000)-10000) * time.Millisecond
				e.note("master %d steps its clock by %v", i, step)
				m.set(func() { m.ahead += step })
			}
		},
	}
	kinds[e.rand.IntN(len(kinds))]()
}

// some does f to one master after another, as long as chance wants it.
func (e *explorer) some(f func(int, *exploredMaster)) {
	for _, i := range e.rand.Perm(len(e.masters)) {
		keeps := false // another master that nothing was lost on lately: the deployment is not new to anybody
		for j, other := range e.masters {
			keeps = keeps || j != i && time.Since(other.lost) > 2*exploreMaxTTL
		}
		if keeps {
			f(i, e.masters[i])
		}
		if e.rand.IntN(3) == 0 {
			return
		}
	}
}

func (e *explorer) flush(i int, m *exploredMaster) {
	if e.rand.IntN(2) == 0 {
		return
	}
	e.note("master %d is flushed", i)
	m.set(func() { m.lost = time.Now(); m.flushLocked() })
}

// restart is another process: with all it had where that is durable, else with all, nothing or an old copy.
func (e *explorer) restart(i int, m *exploredMaster) {
	m.runs++
	runID := fmt.Sprintf("run-%d-%d", i, m.runs)
	keep := m.durable || e.rand.IntN(2) == 0
	e.note("master %d restarts as %s, durable %v, keep %v", i, runID, m.durable, keep)
	m.stop()
	m.set(func() {
		if !m.durable {
			m.lost = time.Now()
			if keep && m.old.state != nil {
				m.store, m.counters, m.state = maps.Clone(m.old.store), maps.Clone(m.old.counters), maps.Clone(m.old.state)
			}
		}
	})
	m.restart(runID, keep)
}

// remember makes an old copy of a master.
func (m *exploredMaster) remember() {
	m.set(func() {
		m.old.store, m.old.counters, m.old.state = maps.Clone(m.store), maps.Clone(m.counters), maps.Clone(m.state)
	})
}

// stalls is pause, once.
func (m *exploredMaster) stalls() {
	m.set(func() {
		select {
		case <-m.gate:
			m.gate = make(chan struct{})
		default:
		}
	})
}

// pause makes the proxy hear and say nothing, as if it were stopped.
func (p *exploredProxy) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stall:
		p.stall = make(chan struct{})
	default:
	}
}

func (p *exploredProxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stall:
	default:
		close(p.stall)
	}
}

// run waits while the proxy is paused.
func (p *exploredProxy) run() {
	p.mu.Lock()
	stall := p.stall
	p.mu.Unlock()
	<-stall
}

// stallConn is a connection of a proxy that may be paused.
type stallConn struct {
	net.Conn
	p *exploredProxy
}

func (c *stallConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.p.run()
	return n, err
}

func (c *stallConn) Write(b []byte) (int, error) {
	c.p.run()
	return c.Conn.Write(b)
}
