package quorum

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A simulated network. Every message has a virtual delay that follows from the seed, the connection and the instant at which it was
// written, and arrives at an instant of its own; so what happens follows from the order of time, and a seed replays. Within a
// connection order is kept, as TCP does; between connections there is none.

// instants is how many different instants there are before the next message of the same wire may arrive.
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
	masters []*simMaster
	trace   *trace

	mu    sync.Mutex // guards all that follows, paths and wires; a master's mu may be taken inside, never the other way round
	paths [][]*path  // by place of the proxy, and master
	aim   *aim       // what the faults wait for; nil: nothing
	post  post
}

// trafficPlan is how slow the network of a run is.
type trafficPlan struct {
	base    [2]time.Duration // a path takes between these, one way
	late    float64          // share of messages that take longer
	latest  time.Duration    // by up to this
	farAway float64          // share of paths that are ten times as long
}

// path is the way from one proxy to one master. It outlives the proxy: the next one at the same place takes it too.
type path struct {
	proxy, master int
	base          time.Duration
	slow          time.Duration // every message takes up to this longer
	cuts          [2]int        // by direction: how many faults cut it now
	healed        chan struct{} // closed when no fault cuts it any more
	dials         uint64
	wires         []*wire // oldest first; may hold some that are over
}

func newNetwork(seed uint64, traffic trafficPlan, proxies int, masters []*simMaster, tr *trace) *network {
	n := &network{seed: seed, traffic: traffic, masters: masters, trace: tr, paths: make([][]*path, proxies)}
	for p := range n.paths {
		for m := range masters {
			h := mix(seed, 'p', uint64(p), uint64(m))
			base := traffic.base[0] + time.Duration(unit(h)*float64(traffic.base[1]-traffic.base[0]))
			if unit(mix(h, 1)) < traffic.farAway {
				base *= 10
			}
			n.paths[p] = append(n.paths[p], &path{proxy: p, master: m, base: base})
		}
	}
	n.post.open()
	return n
}

// delay is how long a message takes whose hash is h.
func (n *network) delay(p *path, h uint64) time.Duration {
	d := p.base + time.Duration(unit(h)*float64(p.base))
	if p.slow > 0 {
		d += time.Duration(unit(mix(h, 1)) * float64(p.slow))
	}
	if u := unit(mix(h, 2)); u < n.traffic.late {
		d += time.Duration(u / n.traffic.late * float64(n.traffic.latest))
	}
	return d
}

// dial is MasterOptions.Dial of a proxy. It takes a way forth and back; through a cut it waits until that is healed.
func (n *network) dial(ctx context.Context, from *simProxy, master int) (net.Conn, error) {
	p := n.paths[from.place][master]
	n.mu.Lock()
	p.dials++
	serial := p.dials
	wr := &wire{net: n, path: p, from: from, hash: mix(n.seed, 'w', uint64(p.proxy), uint64(master), serial), wake: make(chan struct{}, 1)}
	for dir := range wr.flows {
		wr.flows[dir].instant = time.Duration((uint64(p.proxy*maxModelMasters+master)*2+serial%2)*2+uint64(dir)) * time.Nanosecond
	}
	took := n.delay(p, mix(wr.hash, 1)) + n.delay(p, mix(wr.hash, 2))
	n.mu.Unlock()
	for {
		if err := pause(ctx, took); err != nil {
			return nil, err
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
	if from.crashed || !wr.accepted(n.masters[master]) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	p.wires = append(slices.DeleteFunc(p.wires, (*wire).over), wr)
	return wr, nil
}

// aim is a script, of a proxy on a master, that a fault waits for.
type aim struct {
	op            opKind
	place, master int
	hit           chan struct{} // closed when it has been carried out
}

// await returns a channel that is closed when a master has carried out a script for the proxy at a place. It awaits one at a time.
func (n *network) await(op opKind, place, master int) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.aim = &aim{op, place, master, make(chan struct{})}
	return n.aim.hit
}

// ranLocked is told what a master has carried out.
func (n *network) ranLocked(p *path, op opKind) {
	if a := n.aim; a != nil && a.op == op && a.place == p.proxy && a.master == p.master {
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
}

// heal ends a cut. What waits for it follows, in order, as TCP sends it again.
func (n *network) heal(p *path, dir direction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.cuts[dir]--
	if p.cuts[up]+p.cuts[down] == 0 {
		close(p.healed)
	}
	if p.cuts[dir] > 0 {
		return
	}
	for _, wr := range p.wires {
		wr.resumeLocked(dir)
	}
}

// reset breaks every connection on p: both ends are told, soon.
func (n *network) reset(p *path) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, wr := range p.wires {
		if !wr.over() {
			wr.resetLocked()
		}
	}
}

// each calls f for every path that proxy and master select; -1 selects all.
func (n *network) each(proxy, master int, f func(*path)) {
	for p := range n.paths {
		for m := range n.paths[p] {
			if (proxy < 0 || proxy == p) && (master < 0 || master == m) {
				f(n.paths[p][m])
			}
		}
	}
}

// crash ends the process of a proxy: its connections are closed by its kernel, and nothing it says counts any more.
func (n *network) crash(pr *simProxy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pr.crashed = true
	for _, p := range n.paths[pr.place] {
		for _, wr := range p.wires {
			if wr.from == pr {
				wr.closeLocked()
			}
		}
	}
}

// mix makes one number of several, as SplitMix64 does.
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

// slow makes every message on p take up to d longer from now on.
func (n *network) slow(p *path, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.slow += d
}

// trouble makes a master answer a share of its commands with an error.
func (n *network) trouble(m *simMaster, text string, share float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.trouble, m.share = text, share
}
