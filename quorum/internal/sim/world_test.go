package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/quorum"
	"lockproxy/quorum/internal/dice"
	"lockproxy/quorum/internal/fake"
)

// world is one simulated run: masters, proxies with real Quorums in them, a network between,
// clients and faults. It lives in a synctest bubble.
type world struct {
	plan    *plan
	trace   *trace
	ledger  *ledger
	net     *network
	masters []*simMaster // all servers, those without an address too

	mu     sync.Mutex
	places []*simProxy // nil while none runs there
	serial int
	losses int // of memory; used by the faulter only
	crowd  *crowd

	idle    atomic.Bool    // clients take no locks for now
	stopped chan struct{}  // closed when clients and faults should end
	group   sync.WaitGroup // clients, faults
}

// simProxy is one process.
type simProxy struct {
	q       *quorum.Quorum
	place   int
	serial  int
	began   time.Time
	crashed bool // guarded by the network's mu
}

// crash is sudden: what its clients were waiting for never comes.
func (w *world) crash(pr *simProxy) {
	w.net.crash(pr)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = pr.q.Close(ctx)
}

// mostClose is how long Close may take beyond its context: a handshake that is under way has that
// time.
const mostClose = time.Second

func (w *world) close(pr *simProxy) {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = pr.q.Close(ctx)
	w.ledger.took("", "Close", began, 500*time.Millisecond+mostClose)
}

func (w *world) crashed(pr *simProxy) bool {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	return pr.crashed
}

// proxyAt is the proxy at a place, nil without one.
func (w *world) proxyAt(place int) *simProxy {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.places[place]
}

// takeDown takes a proxy out, so that clients stop using it.
func (w *world) takeDown(place int) *simProxy {
	w.mu.Lock()
	defer w.mu.Unlock()
	pr := w.places[place]
	w.places[place] = nil
	return pr
}

// start starts a proxy.
func (w *world) start(place int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	pr := &simProxy{place: place, serial: w.serial, began: time.Now()}
	o := quorum.Options{KeyPrefix: "lock:", MasterTimeout: w.plan.timeoutAt(place), MaxTTL: w.plan.maxTTL,
		Fencing: w.plan.fencing, Guard: w.plan.guard, QueueTimeout: w.plan.load.patience,
		Dice: dice.New(rand.New(rand.NewPCG(w.plan.seed, uint64(1000+w.serial))))}
	for a := range w.net.at {
		o.Masters = append(o.Masters, quorum.MasterOptions{Name: fmt.Sprintf("master-%d", a),
			Addr: fmt.Sprintf("10.0.0.%d:6379", a), Dial: w.dialer(pr, a)})
	}
	if w.plan.loops[place] {
		o.Adopt = w.adopt
	}
	q, err := quorum.New(o)
	if err != nil {
		panic(err)
	}
	w.net.mu.Lock()
	pr.q = q
	w.net.mu.Unlock()
	w.trace.add(event{what: "starts", proxy: pr.serial, master: -1, client: -1})
	w.places[place] = pr
}

// wait waits for d, and reports whether the run still goes on.
func (w *world) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.stopped:
	case <-w.ledger.broken:
	}
	return false
}

// own returns d or a little longer: the wait ends at an instant that belongs to the slot alone.
// Events at one instant have no order.
func (w *world) own(d time.Duration, slot int) time.Duration {
	off := time.Duration(time.Now().Add(d).UnixNano()) % instants
	return d - off + instants + time.Duration(slot)*time.Nanosecond
}

// runWorld is the whole run.
func runWorld(p *plan) *world {
	w := newWorld(p)
	var posting sync.WaitGroup
	posting.Go(w.net.deliver)
	w.startAll()
	for i := range p.count {
		c := &simClient{w: w, index: i, random: rand.New(rand.NewPCG(p.seed, uint64(100+i)))}
		w.group.Go(c.run)
	}
	f := &faulter{w: w, random: rand.New(rand.NewPCG(p.seed, 99))}
	w.group.Go(f.run)
	w.group.Go(f.denyFromStart)
	w.group.Go(w.operator)
	if p.probes {
		w.group.Go(newProber(w).run)
	}
	if p.fight {
		w.group.Go(w.waiter)
	}
	if !p.clients.kinds.none() {
		w.group.Go(w.watchSound)
	}
	w.crowd.start()
	w.wait(p.length)
	close(w.stopped)
	w.group.Wait()
	w.settle()
	w.takable()
	w.checkLoad()
	w.recover()
	for place := range w.places {
		if pr := w.takeDown(place); pr != nil {
			w.close(pr)
		}
	}
	for _, m := range w.masters {
		w.net.stopMaster(m, true)
	}
	close(w.net.post.closed)
	posting.Wait()
	return w
}

// startAll starts the first proxies, at the same moment or not.
func (w *world) startAll() {
	random := rand.New(rand.NewPCG(w.plan.seed, 98))
	for place := range w.places {
		if w.plan.stagger == 0 || place == 0 {
			w.start(place)
			continue
		}
		d := between(random, 0, w.plan.stagger)
		w.group.Go(func() {
			w.wait(d)
			w.start(place)
		})
	}
}

func newWorld(p *plan) *world {
	w := &world{plan: p, trace: newTrace(), places: make([]*simProxy, p.proxies), stopped: make(chan struct{})}
	w.ledger = newLedger(w.trace)
	w.ledger.unfenced, w.ledger.shared, w.ledger.majority = !p.fencing, p.wipes, majority(p.masters)
	w.ledger.lately = p.clients.adopted.lately
	for _, k := range p.faults.kinds {
		w.ledger.forgets = w.ledger.forgets || k.forgets
	}
	for i := range p.masters + spares {
		m := newSimMaster(i, p.seed, p.ahead[i], p.rates[i])
		if p.durable[i] {
			m.becomesDurable()
		}
		m.cost = p.load.costOf(i)
		if p.denied != nil {
			m.Denied = p.denied[i]
		}
		w.masters = append(w.masters, m)
	}
	w.net = newNetwork(p.seed, p.traffic, p.proxies, slices.Clone(w.masters[:p.masters]), w.trace)
	w.crowd = newCrowd(w)
	w.net.sent, w.net.struck = w.crowd.sentLocked, w.struckLocked
	w.net.storm = func(m *simMaster) {
		w.ledger.wrong("", "the load on master %d is too high: a storm of commands in a second", m.index)
	}
	return w
}

// settleIn is how long after the last fault all pending repairs must have reached the masters: a
// PING a second, 2s until it is missed, the way back, 2s until a check, and 2s until the keys that
// the check finds expire.
const settleIn = 10 * time.Second

// settle waits after the end of faults, and counts the keys that are left on the masters.
func (w *world) settle() {
	if !w.plan.census || w.ledger.fault != "" {
		return
	}
	time.Sleep(settleIn)
	if !w.majorityVotes() { // then no proxy can know who holds a lock, and locks run out
		return
	}
	for _, m := range w.masters {
		for _, key := range m.sortedKeys() {
			name, isLock := strings.CutPrefix(key, "lock:")
			for secret, slot := range m.standing(key, w.exact()) {
				wrong := "a key is left on master %d that no client holds"
				switch remains := w.ledger.mayRemain(secret); {
				case !isLock || strings.HasPrefix(secret, "kept") || remains && !w.ledger.otherSlot(secret, slot):
					continue
				case remains:
					wrong = "waste on master %d: a lease has another slot there"
				}
				w.trace.add(event{what: "STANDS", proxy: -1, master: m.index, client: -1, key: key, secret: secret})
				w.ledger.token = secret
				w.ledger.wrong(name, wrong, m.index)
			}
		}
	}
}

// majorityVotes reports whether a majority of the masters is not in quarantine.
func (w *world) majorityVotes() bool {
	votes := 0
	for _, m := range w.servers() {
		m.Set(func() {
			if !strings.HasPrefix(m.State("record"), "Q ") {
				votes++
			}
		})
	}
	return votes >= majority(len(w.servers()))
}

// standing yields the secrets of the locks at a key, and their slots. A key for several holders
// that has none is left, unless commands may have failed.
func (m *simMaster) standing(key string, exact bool) iter.Seq2[string, int] {
	var l fake.Lock
	m.Set(func() {
		ok := false
		if l, ok = m.Lock(key); ok && l.Holders == nil && (exact || l.Mode == quorum.Exclusive) {
			l.Holders = []fake.Holder{{Secret: l.Secret}}
		}
	})
	return func(yield func(string, int) bool) {
		for _, h := range l.Holders {
			if !yield(h.Secret, h.Slot) {
				return
			}
		}
	}
}

// report returns the fault of a failing run, its plan and its story.
func (w *world) report() error {
	if w.ledger.fault == "" {
		return nil
	}
	story := w.trace.about(w.ledger.about, w.ledger.token, 100)
	return errors.New(w.ledger.fault + "\n" + w.plan.String() + "\n" + story)
}

func (w *world) dialer(pr *simProxy, addr int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return w.net.dial(ctx, pr, addr) }
}
