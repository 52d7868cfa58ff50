package sim

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A simulated network. Every message has a virtual delay that follows from the seed, the
// connection and the instant at which it was written, and arrives at an instant of its own. So
// events follow from the order of time, and a seed replays. Like TCP the network keeps the order
// within a connection; between connections there is none.

// instants is how many instants there are before the next message of the same link may arrive.
const instants = 8192 * time.Nanosecond

type direction uint8

const (
	up   direction = iota // to the master
	down                  // to the proxy
)

// network is all paths between proxies and masters.
type network struct {
	seed    uint64
	traffic trafficPlan
	trace   *trace

	// guards all that follows, paths and links; a master's mu may be taken inside, never the other
	// way round
	mu    sync.Mutex
	at    []*simMaster // the server at each address
	paths [][]*path    // by place of the proxy, and address
	aim   *aim         // the operation that the faults wait for; nil: none
	post  post
	storm func(*simMaster)                      // called when a master is asked for too much
	sent  func(li *simLink, key, secret string) // checks an acquire that a master carries out
	// called when a release that a master carries out has deleted a lock
	struck func(li *simLink, key, secret string)
	heard  [][]clockHeard // by place and address: how well the proxy there knows the clock
}

// trafficPlan is how slow the network of a run is.
type trafficPlan struct {
	base    [2]time.Duration // a path takes between these, one way
	late    float64          // share of messages that take longer
	latest  time.Duration    // by up to this
	farAway float64          // share of paths that are ten times as long
	places  []time.Duration  // all paths of a proxy take so much longer, by place; nil: no longer
}

// path is the way from one proxy to one address. It outlives the proxy: the next one at the same
// place takes it too.
type path struct {
	proxy, addr int
	base        time.Duration
	slow        time.Duration // every message takes up to this longer
	cuts        [2]int        // by direction: how many faults cut it now
	healed      chan struct{} // closed when no fault cuts it any more
	dials       uint64
	links       []*simLink // oldest first; may hold some that have ended
	disturbed   time.Time  // when a fault touched it last
}

func newNetwork(seed uint64, traffic trafficPlan, proxies int, at []*simMaster, tr *trace) *network {
	n := &network{seed: seed, traffic: traffic, at: at, trace: tr, paths: make([][]*path, proxies),
		heard: make([][]clockHeard, proxies)}
	for p := range n.paths {
		for a := range at {
			h := mix(seed, 'p', uint64(p), uint64(a))
			base := traffic.base[0] + time.Duration(unit(h)*float64(traffic.base[1]-traffic.base[0]))
			if unit(mix(h, 1)) < traffic.farAway {
				base *= 10
			}
			if traffic.places != nil {
				base += traffic.places[p]
			}
			n.paths[p] = append(n.paths[p], &path{proxy: p, addr: a, base: base, disturbed: time.Now()})
		}
		n.heard[p] = make([]clockHeard, len(at))
	}
	n.post.open()
	return n
}

// delay is how long a message takes whose hash is h: up to twice the base, or a tenth longer on a
// path that is long for all.
func (n *network) delay(p *path, h uint64) time.Duration {
	spread := p.base
	if n.traffic.places != nil {
		spread = p.base / 10
	}
	d := p.base + time.Duration(unit(h)*float64(spread))
	if p.slow > 0 {
		d += time.Duration(unit(mix(h, 1)) * float64(p.slow))
	}
	if u := unit(mix(h, 2)); u < n.traffic.late {
		d += time.Duration(u / n.traffic.late * float64(n.traffic.latest))
	}
	return d
}

// dial is MasterOptions.Dial of a proxy. It takes a way forth and back; through a cut it waits
// until that is healed.
func (n *network) dial(ctx context.Context, from *simProxy, addr int) (net.Conn, error) {
	p := n.paths[from.place][addr]
	n.mu.Lock()
	p.dials++
	serial := p.dials
	li := &simLink{net: n, path: p, from: from, hash: mix(n.seed, 'w', uint64(p.proxy), uint64(addr), serial),
		wake: make(chan struct{}, 1)}
	for dir := range li.flows {
		li.flows[dir].instant = time.Duration((uint64(p.proxy*mostMasters+addr)*2+serial%2)*2+
			uint64(dir)) * time.Nanosecond
	}
	took := n.delay(p, mix(li.hash, 1)) + n.delay(p, mix(li.hash, 2))
	n.mu.Unlock()
	for {
		if !sleepFor(ctx, took) {
			return nil, ctx.Err()
		}
		n.mu.Lock()
		healed := p.healed
		if p.cuts[up]+p.cuts[down] == 0 {
			break
		}
		n.mu.Unlock()
		select {
		case <-healed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer n.mu.Unlock()
	if from.crashed || !li.accepted(n.at[addr]) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	p.links = append(slices.DeleteFunc(p.links, (*simLink).over), li)
	return li, nil
}

// sleepFor waits for d, and reports whether ctx lasted that long.
func sleepFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// aim is an operation, of a proxy on a master, that a fault waits for.
type aim struct {
	name        string
	place, addr int
	hit         chan struct{} // closed when it has been carried out
}

// await returns a channel that is closed when a master has carried out an operation or script of
// that name for the proxy at a place. It awaits one at a time.
func (n *network) await(name string, place, addr int) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.aim = &aim{name, place, addr, make(chan struct{})}
	return n.aim.hit
}

// ranLocked notes an operation that a master has carried out.
func (n *network) ranLocked(p *path, name string) {
	if a := n.aim; a != nil && a.name == name && a.place == p.proxy && a.addr == p.addr {
		n.aim = nil
		close(a.hit)
	}
}

// cut stops all messages in a direction, and keeps them. Cuts add up; each is healed.
func (n *network) cut(p *path, dir direction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.cuts[up]+p.cuts[down] == 0 {
		p.healed = make(chan struct{})
	}
	p.cuts[dir]++
	p.disturbed = time.Now()
}

// heal ends a cut. The waiting messages follow, in order, like repetitions of TCP.
func (n *network) heal(p *path, dir direction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.cuts[dir]--
	p.disturbed = time.Now()
	if p.cuts[up]+p.cuts[down] == 0 {
		close(p.healed)
	}
	if p.cuts[dir] > 0 {
		return
	}
	for _, li := range p.links {
		li.resumeLocked(dir)
	}
}

// reset breaks every connection on p: both ends learn of it, soon.
func (n *network) reset(p *path) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resetLocked(p)
}

func (n *network) resetLocked(p *path) {
	p.disturbed = time.Now()
	for _, li := range p.links {
		if !li.over() {
			li.resetLocked()
		}
	}
}

// slow makes every message on p take up to d longer from now on.
func (n *network) slow(p *path, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.slow += d
	p.disturbed = time.Now()
}

// each calls f for every path that proxy and address select; -1 selects all.
func (n *network) each(proxy, addr int, f func(*path)) {
	for p := range n.paths {
		for a := range n.paths[p] {
			if (proxy < 0 || proxy == p) && (addr < 0 || addr == a) {
				f(n.paths[p][a])
			}
		}
	}
}

// crash ends the process of a proxy: its kernel closes its connections, and its answers do not
// count any more.
func (n *network) crash(pr *simProxy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pr.crashed = true
	for _, p := range n.paths[pr.place] {
		for _, li := range p.links {
			if li.from == pr {
				li.closeLocked()
			}
		}
	}
}

// move puts another server at an address. Connections to the one before break, now or when the
// next message meets the new server.
func (n *network) move(addr int, to *simMaster, silently bool) (before *simMaster) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, n.at[addr] = n.at[addr], to
	n.each(-1, addr, func(p *path) {
		p.disturbed = time.Now()
		for _, li := range p.links {
			if li.server == to || li.gone {
				continue
			}
			if silently {
				li.gone, li.inbox = true, nil
			} else if !li.over() {
				li.resetLocked()
			}
		}
	})
	return before
}

// addressOf returns the address of a server, or -1.
func (n *network) addressOf(m *simMaster) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Index(n.at, m)
}

// clockHeard says how well a proxy knows the clock of a master: how wide the interval is, and
// when it last heard it.
type clockHeard struct {
	serial int        // of the proxy
	server *simMaster // whose clock
	record string     // it had then
	width  time.Duration
	at     time.Time
}

// hearLocked notes an answer with the master's time: the request was written at written.
func (li *simLink) hearLocked(written time.Time, record string) {
	now := time.Now()
	li.net.heard[li.path.proxy][li.path.addr] = clockHeard{serial: li.from.serial, server: li.server, record: record,
		width: now.Sub(written), at: now}
}

// mix makes one number of several, like SplitMix64.
func mix(first uint64, more ...uint64) uint64 {
	h := first
	for _, n := range more {
		h += 0x9e3779b97f4a7c15 + n*0xd1342543de82ef95
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// unit is a number in [0,1) made of a hash.
func unit(h uint64) float64 { return float64(mix(h, 0)>>11) / (1 << 53) }
