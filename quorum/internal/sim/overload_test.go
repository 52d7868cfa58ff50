package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"lockproxy/quorum"
)

// loadPlan is more load than the masters can take, for a while. The zero value is none.
type loadPlan struct {
	cost       time.Duration // of an operation on a master
	lag        int           // the first master takes so many times as long; 0: as long as the others
	begin, end time.Duration
	closed     int           // clients that ask again as soon as they have unlocked
	open       float64       // LOCKs of clients that do not wait for answers, in units of the capacity
	leave      float64       // share of clients that leave soon if they have to wait
	patience   time.Duration // queue-timeout
	faults     bool          // masters fail meanwhile
}

// overload lets clients ask for more than the masters can take, in a closed loop, an open one or
// both. In some runs one master is slower than the others, or masters fail as well.
func (p *plan) overload(r *rand.Rand) {
	p.masters, p.proxies, p.count = 3+2*r.IntN(2), 1+r.IntN(3), 0
	p.length, p.maxTTL, p.census, p.counted = 5*time.Second, time.Minute, true, true
	p.clients = clientPlan{ttl: [2]time.Duration{30 * time.Second, p.maxTTL}}
	l := &p.load
	l.cost, l.begin = time.Duration(6+r.IntN(14))*instants, time.Second
	l.end = l.begin + warmUp + between(r, 500*time.Millisecond, 1500*time.Millisecond)
	l.patience = between(r, 200*time.Millisecond, 800*time.Millisecond)
	switch r.IntN(3) {
	case 0:
		l.closed = 400
	case 1:
		l.open = 1.2 + r.Float64()
	default:
		l.closed, l.open = 300, 0.5+r.Float64()
	}
	switch r.IntN(4) {
	case 0:
		l.faults, p.counted = true, false
		p.faults.first = l.begin
		p.faults.kinds = kindsOf("pause", "slow", "cut", "isolate a master", "trouble", "reset", "flush scripts")
	case 1:
		l.lag = 2 + r.IntN(8)
	}
	if rarely(r, 0.3) { // a LOCK may wait for longer than its attempt may take
		p.census, p.clients.ttl = false, [2]time.Duration{time.Second, 2 * time.Second}
	}
	// With fences each client has one key: the first LOCK of a key raises its counter.
	if p.fencing = l.open == 0 && !l.faults; !p.fencing {
		l.leave = some(r, 0.5)
	}
}

// costOf is what an operation costs a server.
func (l *loadPlan) costOf(server int) time.Duration {
	if l.lag > 0 && server == 0 {
		return time.Duration(l.lag) * l.cost
	}
	return l.cost
}

const (
	warmUp      = 500 * time.Millisecond // the windows fit after it
	recoverIn   = time.Second            // after the load
	normalTime  = 10 * time.Millisecond  // of a LOCK without load
	mostHolder  = 250 * time.Millisecond // of an EXTEND or UNLOCK beside the load
	leastServed = 0.8                    // of the capacity
)

// crowd makes the load of a run and checks how it is served.
type crowd struct {
	loadPlan
	w *world

	mu      sync.Mutex
	came    int
	unsent  int
	numbers map[string]int  // of the latest LOCK of each key, in order of arrival
	firsts  map[int]string  // by number: the secret of the first attempt that was carried out
	left    map[string]bool // keys whose clients left while they waited
}

func newCrowd(w *world) *crowd {
	return &crowd{loadPlan: w.plan.load, w: w, numbers: make(map[string]int), firsts: make(map[int]string),
		left: make(map[string]bool)}
}

// start starts all clients.
func (c *crowd) start() {
	if c.cost == 0 {
		return
	}
	run := func(index int, from time.Duration, do func(*simClient)) {
		s := &simClient{w: c.w, index: index, random: rand.New(rand.NewPCG(c.w.plan.seed, uint64(2000+index)))}
		c.w.group.Go(func() {
			if c.w.wait(c.w.own(from, 1000+index)) {
				do(s)
			}
		})
	}
	for i := range c.closed {
		run(i, c.begin, c.closedLoop)
	}
	for i := range c.w.places {
		run(910+i, c.begin/2, c.holder)
		run(920+i, c.end+recoverIn, c.afterwards)
		if c.open > 0 {
			run(930+i, c.begin, c.openLoop)
		}
	}
	if !c.faults {
		c.w.group.Go(c.watch)
	}
}

// goesOn waits up to gap, and reports whether the run has not come to a time.
func (c *crowd) goesOn(s *simClient, gap, until time.Duration) bool {
	return c.w.wait(s.moment(gap)) && time.Since(c.w.trace.began) < until
}

// request makes the next request of a client.
func (c *crowd) request(s *simClient) quorum.Request {
	if !c.w.plan.fencing {
		s.keys++
	}
	return quorum.Request{Key: fmt.Sprintf("load-%d-%d", s.index, s.keys), TTL: s.ttl()}
}

// closedLoop asks again after each answer. It runs on timers and callbacks: the order of hundreds
// of goroutines that become ready at one instant is not known.
func (c *crowd) closedLoop(s *simClient) {
	pr := s.proxy()
	c.w.group.Add(1)
	var next func()
	next = func() {
		if time.Since(c.w.trace.began) >= c.end || c.w.ledger.broke() {
			c.w.group.Done()
			return
		}
		c.askAsync(s, pr, func() { time.AfterFunc(s.moment(0), next) })
		pr.q.Flush()
	}
	next()
}

// openLoop asks for locks at a rate that does not depend on the answers, several at a time.
func (c *crowd) openLoop(s *simClient) {
	gap := time.Duration(float64(4*2*int(c.cost)*len(c.w.places)) / c.open)
	for pr := s.proxy(); c.goesOn(s, 2*gap, c.end); pr.q.Flush() {
		for range 1 + s.random.IntN(7) {
			c.w.group.Add(1)
			c.askAsync(s, pr, c.w.group.Done)
		}
	}
}

// askAsync takes a lock and gives it back, for a client that may leave before it has it. then is
// called in the end.
func (c *crowd) askAsync(s *simClient, pr *simProxy, then func()) {
	want := c.request(s)
	hasty, soon := s.chance(c.leave), time.Duration(s.random.Int64N(int64(100*time.Millisecond)))
	call, number := s.asks(pr, want), 0
	c.note(func() { number = c.came })
	leave := pr.q.AcquireAsync(want, func(lease quorum.Lease, err error) {
		cl, err := call.end(lease, err)
		if c.hasLeft(want.Key) {
			c.w.ledger.wrong(want.Key, "under load: a LOCK is answered whose client has left")
			return
		}
		if err != nil {
			then()
			return
		}
		back := s.gives(cl, pr)
		pr.q.ReleaseAsync(quorum.ReleaseRequest{Key: cl.key, Token: cl.token, Likely: cl.mode}, func(held bool, err error) {
			back.finish(held, err)
			then()
		})
	})
	if leave == nil || !hasty {
		return
	}
	time.AfterFunc(c.w.own(soon, 6000+number%2000), func() {
		if leave() {
			c.w.trace.add(event{what: "leaves", proxy: pr.serial, master: -1, client: s.index, key: want.Key})
			c.note(func() { c.unsent++; c.left[want.Key] = true })
			then()
		}
	})
}

// holder extends a lock that it had before the load.
func (c *crowd) holder(s *simClient) {
	pr := s.proxy()
	cl, err := s.ask(pr, c.request(s), false)
	for err == nil && c.goesOn(s, 200*time.Millisecond, c.end) {
		s.extend(cl, pr)
	}
	if err == nil {
		s.release(cl, pr)
	}
}

// afterwards takes locks after the load.
func (c *crowd) afterwards(s *simClient) {
	for pr := s.proxy(); c.goesOn(s, 100*time.Millisecond, c.w.plan.length); {
		began := time.Now()
		cl, err := s.ask(pr, c.request(s), false)
		if took := time.Since(began); took > normalTime && !c.faults {
			c.w.ledger.wrong("", "a LOCK takes %v %v after the load", took, recoverIn)
		}
		if err == nil {
			s.release(cl, pr)
		}
	}
}

// watch compares the number of grants with the capacity of the masters, and checks that the queues
// of lanes are short, also to a master that is slower than the others.
func (c *crowd) watch() {
	if !c.w.wait(c.begin + warmUp) {
		return
	}
	period := c.end - c.begin - warmUp
	grants, raises := c.served()
	widest := make([]int, len(c.w.places)) // what waits now was let in by the windows until now
	for range 10 {
		if !c.w.wait(period / 10) {
			return
		}
		for i, pr := range c.w.places {
			widest[i] = max(widest[i], pr.q.Load().Window)
		}
	}
	after, raised := c.served()
	most := (int(period/c.cost) - (raised - raises)) / 2 // each lock is an acquire and a release
	if n := after - grants; float64(n) < leastServed*float64(most) {
		c.w.ledger.wrong("", "under load %d locks are granted in %v, the masters can take %d", n, period, most)
	}
	for i, pr := range c.w.places {
		for _, m := range pr.q.Masters() {
			if m.Unanswered > 2*mostOf*widest[i] {
				c.w.ledger.wrong("", "under load %d requests wait on the lane of %s, with a window of %d at most",
					m.Unanswered, m.Name, widest[i])
			}
		}
	}
}

// served counts the locks that were granted, and the raises on a master, so far.
func (c *crowd) served() (grants, raises int) {
	c.w.ledger.mu.Lock()
	grants = c.w.ledger.grants
	c.w.ledger.mu.Unlock()
	c.w.net.mu.Lock()
	defer c.w.net.mu.Unlock()
	for _, m := range c.w.net.at {
		raises = max(raises, m.load.ops["raise"])
	}
	return grants, raises
}

// hasLeft reports whether the client left while its LOCK waited.
func (c *crowd) hasLeft(key string) (left bool) {
	c.note(func() { left = c.left[key] })
	return left
}

func (c *crowd) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// asks is called before a LOCK.
func (c *crowd) asks(key string) {
	if c.cost > 0 {
		c.note(func() { c.came++; c.numbers[key] = c.came })
	}
}

// answered checks the answer to a call.
func (c *crowd) answered(call, key string, began time.Time, err error) {
	took, busy := time.Since(began), errors.Is(err, quorum.ErrBusy)
	// sent, and the masters could not answer in its time
	slow := busy && took != c.patience && took >= c.w.plan.clients.ttl[0]/4
	if busy && !slow {
		c.note(func() { c.unsent++ })
	}
	switch {
	case c.cost == 0 || c.faults:
	case busy && took != c.patience && !slow:
		c.w.ledger.wrong(key, "under load: busy after %v, the queue-timeout is %v", took, c.patience)
	case call != "LOCK" && took > mostHolder:
		c.w.ledger.wrong(key, "under load: %s took %v", call, took)
	case err != nil && !busy:
		c.w.ledger.wrong(key, "under load: %s failed: %v", call, err)
	}
}

// sentLocked checks an acquire that a master carries out. The network's mu is held.
func (c *crowd) sentLocked(li *simLink, key, secret string) {
	if c.cost == 0 {
		return
	}
	key = strings.TrimPrefix(key, "lock:")
	c.mu.Lock()
	defer c.mu.Unlock()
	number := c.numbers[key]
	if c.firsts[number] == "" {
		c.firsts[number] = secret
	}
	switch {
	case c.left[key]:
		c.w.ledger.wrong(key, "under load: a LOCK was sent whose client had left")
	case c.faults || c.w.plan.fencing || c.firsts[number] != secret: // a key may come again, and retries come later
	case number < li.before:
		c.w.ledger.wrong(key, "under load: LOCK %d was sent after %d", number, li.before)
	}
	li.newest = max(li.newest, number)
}
