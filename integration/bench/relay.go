package main

import (
	"errors"
	"fmt"
	"time"
)

// reading is what one measurement of the relay found.
type reading struct {
	figures
	cpu  float64 // seconds of the proxy per million requests
	peak float64 // bytes
}

// relayKey is one cell over the rounds.
type relayKey struct{ subject, name string }

// relayResults holds one reading a round.
type relayResults map[relayKey][]reading

// series picks one figure of a cell.
func (res relayResults) series(subject string, c relayCase, pick func(reading) float64) series {
	var s series
	for _, r := range res[relayKey{subject, c.name()}] {
		s = append(s, pick(r))
	}
	return s
}

// has reports whether a subject was measured.
func (res relayResults) has(subject string) bool {
	for key := range res {
		if key.subject == subject {
			return true
		}
	}
	return false
}

// relaySubject is one way to the same Redis.
type relaySubject struct {
	name  string
	start func(r *rig, upstream string) (*server, error)
}

func relaySubjects(o options) []relaySubject {
	ours := func(name, binary string) relaySubject {
		return relaySubject{name, func(r *rig, upstream string) (*server, error) {
			return r.proxy(name, binary, "--upstream", upstream, "--max-clients", fmt.Sprint(r.mostClients()))
		}}
	}
	list := []relaySubject{
		{"direct", func(r *rig, upstream string) (*server, error) { return &server{addr: upstream}, nil }},
		{"haproxy", (*rig).haproxy},
		{"twemproxy", (*rig).twemproxy},
		ours("lockproxy", o.lockproxy),
	}
	if o.base != "" {
		list = append(list, ours("base", o.base))
	}
	var wanted []relaySubject
	for _, s := range list {
		if o.wants(s.name) {
			wanted = append(wanted, s)
		}
	}
	return wanted
}

// measureRelay compares ways to one Redis.
func measureRelay(r *rig, out *report) error {
	var cases []relayCase
	for _, c := range relayCases() {
		if r.wantsCase(c.name()) {
			cases = append(cases, c)
		}
	}
	res, err := r.relayRounds(cases, relaySubjects(r.options))
	if err != nil {
		return err
	}
	reportRelay(out, res, cases)
	return nil
}

// relayRounds measures each case with each subject once a round.
func (r *rig) relayRounds(cases []relayCase, subjects []relaySubject) (relayResults, error) {
	first := len(r.procs)
	defer func() { r.endFrom(first) }()
	redis, err := r.redis("redis")
	if err != nil {
		return nil, err
	}
	res, rates := relayResults{}, map[relayKey]float64{}
	for round := range r.rounds {
		r.note("relay, round %d of %d", round+1, r.rounds)
		servers, err := r.startSubjects(subjects, redis.addr)
		if err != nil {
			return nil, err
		}
		for i, c := range cases {
			if err := r.fill(redis, c); err != nil {
				return nil, err
			}
			for turn := range subjects {
				at := (turn + i + round) % len(subjects)
				key := relayKey{subjects[at].name, c.name()}
				got, err := r.read(servers[at], redis, c, rates, key)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", key.subject, key.name, err)
				}
				res[key] = append(res[key], got)
			}
		}
		r.endFrom(first + 1)
	}
	return res, nil
}

// startSubjects starts the proxies in front of the Redis: new ones in each round, so that no
// round inherits another's memory.
func (r *rig) startSubjects(subjects []relaySubject, upstream string) ([]*server, error) {
	var servers []*server
	for _, s := range subjects {
		started, err := s.start(r, upstream)
		if err != nil {
			return nil, err
		}
		servers = append(servers, started)
	}
	return servers, nil
}

// fill writes the value that a case reads.
func (r *rig) fill(redis *server, c relayCase) error {
	shape := loadShape{"set", c.size, 1, 1}
	_, err := redisBenchmark(r.ctx, redis.addr, shape, 1)
	return err
}

// read makes one measurement.
func (r *rig) read(s, redis *server, c relayCase, rates map[relayKey]float64, key relayKey) (reading, error) {
	n, err := r.requests(s, c, rates, key)
	if err != nil {
		return reading{}, err
	}
	if err := expect(redis.addr, "+OK\r\n", "CONFIG", "RESETSTAT"); err != nil {
		return reading{}, err
	}
	before, err := s.begin()
	if err != nil {
		return reading{}, err
	}
	var found figures
	if c.pilot == 0 {
		found, n, err = r.callers(s.addr, c)
	} else {
		found, err = redisBenchmark(r.ctx, s.addr, c.loadShape, n)
		rates[key] = found.rate
	}
	if err != nil {
		return reading{}, err
	}
	used, peak, err1 := s.since(before)
	calls, failed, err2 := served(redis.addr, c.command)
	err = errors.Join(err1, err2)
	if err == nil && (calls < n || failed > 0) {
		err = fmt.Errorf("of %d requests the Redis served %d and refused %d", n, calls, failed)
	}
	return reading{found, used.Seconds() / float64(n) * 1e6, peak}, err
}

// requests returns the number of requests of a measurement. If the rate is unknown, a pilot run
// finds it.
func (r *rig) requests(s *server, c relayCase, rates map[relayKey]float64, key relayKey) (int, error) {
	if c.pilot == 0 {
		return 0, nil // it ends by the clock
	}
	if rates[key] == 0 {
		pilot, err := redisBenchmark(r.ctx, s.addr, c.loadShape, c.pilot)
		if err != nil {
			return 0, err
		}
		rates[key] = pilot.rate
	}
	return max(int(rates[key]*r.span.Seconds()), 2*c.clients*c.pipeline), nil
}

// callers measures the latency of clients in a load process: redis-benchmark knows the median to 8
// microseconds only.
func (r *rig) callers(addr string, c relayCase) (figures, int, error) {
	order := loadOrder{Addrs: []string{addr}, Workers: c.clients, Span: r.span, Command: c.command, Size: c.size}
	l, err := r.startLoad(order)
	if err != nil {
		return figures{}, 0, err
	}
	defer l.stop()
	got, err := l.result()
	micro := func(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
	return figures{rate: float64(got.Pairs) / got.Seconds, p50: micro(got.LockP50), p99: micro(got.LockP99)}, got.Pairs,
		err
}
