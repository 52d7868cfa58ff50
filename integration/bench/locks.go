package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// numMasters is how many masters keep the locks.
const numMasters = 5

// lockSubject is one way to lock on the same masters.
type lockSubject struct {
	name   string
	way    string
	binary string   // of the proxy; empty: none, the clients go to the masters themselves
	flags  []string // of the proxy
	one    bool     // the proxy's goroutines run on one thread at a time
}

func lockSubjects(o options) []lockSubject {
	list := []lockSubject{
		{"lockproxy", "plain", o.lockproxy, []string{"--key-prefix", "lock:"}, false},
		{"lockproxy-unfenced", "plain", o.lockproxy, []string{"--key-prefix", "unfenced:", "--fencing", "off"}, false},
		{"lockproxy-one-thread", "plain", o.lockproxy, []string{"--key-prefix", "one:"}, true},
		{"lockproxy-go-redis", "goredis", o.lockproxy, []string{"--key-prefix", "client:"}, false},
		{"redsync", "redsync", "", nil, false},
	}
	if o.base != "" {
		list = append(list, lockSubject{"base", "plain", o.base, []string{"--key-prefix", "base:"}, false})
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

// lockRounds measures each number of workers with each subject once a round. Masters and proxies are started anew for each.
func (r *rig) lockRounds(part string, workers []int, subjects []lockSubject, contend bool, span time.Duration) (lockResults, error) {
	first := len(r.procs)
	defer func() { r.endFrom(first) }()
	res := lockResults{}
	for round := range r.rounds {
		r.note("%s, round %d of %d", part, round+1, r.rounds)
		masters, addrs, err := r.masters()
		if err != nil {
			return nil, err
		}
		proxies, err := r.lockProxies(subjects, masters[0].addr, addrs)
		if err != nil {
			return nil, err
		}
		for i, n := range workers {
			for turn := range subjects {
				at := (turn + i + round) % len(subjects)
				order := loadOrder{Way: subjects[at].way, Addrs: addrs, Workers: n, Span: span, Contend: contend}
				got, err := r.lockRead(subjects[at], proxies[at], masters, order)
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

// masters starts the servers that keep the locks.
func (r *rig) masters() (list []*server, addrs []string, err error) {
	for i := range numMasters {
		s, err := r.redis(fmt.Sprintf("master %d", i+1))
		if err != nil {
			return nil, nil, err
		}
		list, addrs = append(list, s), append(addrs, s.addr)
	}
	return list, addrs, nil
}

// lockProxies starts each subject's proxy, nil where it has none, and waits until it grants.
func (r *rig) lockProxies(subjects []lockSubject, upstream string, masters []string) ([]*server, error) {
	var list []*server
	for _, s := range subjects {
		if s.binary == "" {
			list = append(list, nil)
			continue
		}
		command := []string{s.binary}
		if s.one {
			command = []string{"env", "GOMAXPROCS=1", s.binary}
		}
		p, err := r.proxyBy(s.name, command, append([]string{"--upstream", upstream, "--masters", strings.Join(masters, ",")}, s.flags...)...)
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
		list = append(list, p)
	}
	return list, nil
}

// tokenLength is the length of 16 digits, a colon and 40 hex digits.
const tokenLength = 57

// lockRead makes one measurement in a load process.
func (r *rig) lockRead(s lockSubject, proxy *server, masters []*server, order loadOrder) (lockReading, error) {
	var measured *process
	if proxy != nil {
		order.Addrs, measured = []string{proxy.addr}, proxy.process
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
	mastersBefore, err2 := cpuOfAll(masters)
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
	mastersAfter, err2 := cpuOfAll(masters)
	got := lockReading{proxy: used.Seconds(), peak: peak, masters: (mastersAfter - mastersBefore).Seconds()}
	err3 := l.decode(&got.loadResult)
	err = errors.Join(err1, err2, err3)
	if err == nil && got.Pairs == 0 {
		err = fmt.Errorf("no pair in %v: %s", order.Span, got.Failure)
	}
	if got.Failed > 0 {
		r.note("%s, %d workers: %d of %d failed, the first: %s", s.name, order.Workers, got.Failed, got.Failed+got.Pairs, got.Failure)
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
