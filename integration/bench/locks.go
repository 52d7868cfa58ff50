package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// numMasters is how many masters keep the locks.
const numMasters = 5

// lockSubject is one way to lock, on the same masters unless it has nodes of its own.
type lockSubject struct {
	name    string
	way     string
	binary  string   // of the proxy; empty: none, the clients go to the masters themselves
	flags   []string // of the proxy
	one     bool     // the proxy's goroutines run on one thread at a time
	masters int      // how many of the masters it uses; 0 for all
	through string   // the subject before it whose proxy it goes through; empty: it has its own
	adopts  string   // adopt-keys of its proxy, and its clients use the lock listener; empty: they use listen
}

func lockSubjects(o options) []lockSubject {
	list := []lockSubject{
		{name: "lockproxy", way: "plain", binary: o.lockproxy, flags: []string{"--key-prefix", "lock:"}},
		{name: "lockproxy-unfenced", way: "plain", binary: o.lockproxy,
			flags: []string{"--key-prefix", "unfenced:", "--fencing", "off"}},
		{name: "lockproxy-one-thread", way: "plain", binary: o.lockproxy, one: true,
			flags: []string{"--key-prefix", "one:"}},
		{name: "lockproxy-go-redis", way: "goredis", binary: o.lockproxy, flags: []string{"--key-prefix", "client:"}},
		{name: "redsync", way: "redsync"},
	}
	if o.base != "" {
		list = append(list, lockSubject{name: "base", way: "plain", binary: o.base,
			flags: []string{"--key-prefix", "base:"}})
	}
	if o.slock != "" {
		list = append(list, lockSubject{name: "lockproxy-three", way: "plain", binary: o.lockproxy, masters: slockNodes,
			flags: []string{"--key-prefix", "three:"}},
			lockSubject{name: "slock", way: "slock", binary: o.slock, masters: slockNodes})
	}
	var wanted []lockSubject
	for _, s := range list {
		if o.wants(s.name) {
			wanted = append(wanted, s)
		}
	}
	return wanted
}

// lockReading is what one measurement of locks found.
type lockReading struct {
	loadResult
	proxy   float64 // CPU seconds
	masters float64 // CPU seconds, all together
	peak    float64 // bytes, of the proxy
}

// lockKey is one cell over the rounds.
type lockKey struct {
	subject string
	workers int
}

// lockResults holds one reading a round.
type lockResults map[lockKey][]lockReading

func (res lockResults) series(subject string, workers int, pick func(lockReading) float64) series {
	var s series
	for _, r := range res[lockKey{subject, workers}] {
		s = append(s, pick(r))
	}
	return s
}

func (res lockResults) has(subject string) bool {
	for key := range res {
		if key.subject == subject {
			return true
		}
	}
	return false
}

// lockRounds measures each number of workers with each subject once a round, with what form says
// of the load. Masters and proxies are started anew for each.
func (r *rig) lockRounds(part string, workers []int, subjects []lockSubject, form loadOrder) (lockResults, error) {
	first := len(r.procs)
	defer func() { r.endFrom(first) }()
	res := lockResults{}
	for round := range r.rounds {
		r.note("%s, round %d of %d", part, round+1, r.rounds)
		servers, err := r.lockServers(subjects)
		if err != nil {
			return nil, err
		}
		for i, n := range workers {
			for turn := range subjects {
				at := (turn + i + round) % len(subjects)
				order := form
				order.Way, order.Addrs, order.Workers = subjects[at].way, servers[at].addrs(), n
				got, err := r.lockRead(subjects[at], servers[at], order)
				if err != nil {
					return nil, fmt.Errorf("%s, %d workers: %w", subjects[at].name, n, err)
				}
				key := lockKey{subjects[at].name, n}
				res[key] = append(res[key], got)
			}
		}
		r.endFrom(first)
	}
	return res, nil
}

// lockServers is what one subject locks on.
type lockServers struct {
	proxy        *server // or the leader of nodes that keep the locks themselves; nil without one
	lockListener string  // the address of the proxy's lock listener, if clients use that
	masters      []*server
}

// addrs returns the addresses that clients connect to.
func (s lockServers) addrs() (list []string) {
	if s.lockListener != "" {
		return []string{s.lockListener}
	}
	if s.proxy != nil {
		return []string{s.proxy.addr}
	}
	for _, m := range s.masters {
		list = append(list, m.addr)
	}
	return list
}

// lockServers starts the masters, and what each subject needs beside them.
func (r *rig) lockServers(subjects []lockSubject) (list []lockServers, err error) {
	var masters []*server
	for i := range numMasters {
		s, err := r.redis(fmt.Sprintf("master %d", i+1))
		if err != nil {
			return nil, err
		}
		masters = append(masters, s)
	}
	proxies := map[string]*server{}
	for _, s := range subjects {
		servers := lockServers{masters: masters}
		switch {
		case s.through != "":
			servers.proxy = proxies[s.through]
		case s.adopts != "":
			if servers.lockListener, err = freeAddr(); err == nil {
				s.flags = append(s.flags, "--adopt-listen", servers.lockListener, "--adopt-keys", s.adopts)
				servers.proxy, err = r.lockProxy(s, masters)
			}
		case s.way == "slock":
			servers, err = r.slockServers(s.binary)
		case s.masters > 0:
			servers.masters = masters[:s.masters]
			fallthrough
		case s.binary != "":
			servers.proxy, err = r.lockProxy(s, servers.masters)
		}
		if err != nil {
			return nil, err
		}
		proxies[s.name] = servers.proxy
		list = append(list, servers)
	}
	return list, nil
}

// lockProxy starts a subject's proxy and waits until it grants.
func (r *rig) lockProxy(s lockSubject, masters []*server) (*server, error) {
	command := []string{s.binary}
	if s.one {
		command = []string{"env", "GOMAXPROCS=1", s.binary}
	}
	addrs := strings.Join(lockServers{masters: masters}.addrs(), ",")
	p, err := r.proxyBy(s.name, command, append([]string{"--upstream", masters[0].addr, "--masters", addrs},
		s.flags...)...)
	if err != nil {
		return nil, err
	}
	granted := func() error {
		reply, err := ask(p.addr, "LOCK", "is-ready", "1s")
		if err == nil && len(reply) != tokenLength {
			err = fmt.Errorf("LOCK: %q", reply)
		}
		return err
	}
	if err := r.poll(granted); err != nil {
		return nil, fmt.Errorf("%s grants nothing: %w\n%s", s.name, err, p.words())
	}
	return p, nil
}

// tokenLength is the length of 16 digits, a colon and 40 hex digits.
const tokenLength = 57

// lockRead makes one measurement in a load process.
func (r *rig) lockRead(s lockSubject, servers lockServers, order loadOrder) (lockReading, error) {
	var measured *process
	if servers.proxy != nil {
		measured = servers.proxy.process
	}
	l, err := r.startLoad(order)
	if err != nil {
		return lockReading{}, err
	}
	defer l.stop()
	if err := l.await("ready"); err != nil {
		return lockReading{}, err
	}
	before, err1 := measured.begin()
	mastersBefore, err2 := cpuOfAll(servers.masters)
	if err := errors.Join(err1, err2); err != nil {
		return lockReading{}, err
	}
	if err := l.begin(); err != nil {
		return lockReading{}, err
	}
	if err := l.await("done"); err != nil {
		return lockReading{}, err
	}
	used, peak, err1 := measured.since(before)
	mastersAfter, err2 := cpuOfAll(servers.masters)
	got := lockReading{proxy: used.Seconds(), peak: peak, masters: (mastersAfter - mastersBefore).Seconds()}
	err3 := l.decode(&got.loadResult)
	err = errors.Join(err1, err2, err3)
	if err == nil && got.Pairs == 0 && order.Workers <= warmAtOnce { // more may be too many
		err = fmt.Errorf("no pair in %v: %s", order.Span, got.Failure)
	}
	if got.Failed > 0 {
		r.note("%s, %d workers: %d of %d failed, the first: %s", s.name, order.Workers, got.Failed, got.Failed+got.Pairs,
			got.Failure)
	}
	return got, err
}

// cpuOfAll adds up the processor time of servers.
func cpuOfAll(servers []*server) (sum time.Duration, err error) {
	for _, s := range servers {
		used, err := s.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}
