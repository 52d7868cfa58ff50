package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockproxy/resp/respio"
)

// A machine that others use too changes its speed within seconds. So this part measures this build
// and an earlier one in slices that are shorter: both run all the time, before the same servers,
// and the load goes to one of them in turn.
const (
	sliceTime      = 80 * time.Millisecond
	blocksPerRound = 20
)

// versionLoad is the work of a number of clients, each on a connection of its own.
type versionLoad struct {
	name    string
	clients int
	units   int // requests or pairs of one call of what work returns
	work    func(c *client, key string) func() error
}

func versionLoads() []versionLoad {
	var list []versionLoad
	for _, n := range []int{1, 16, 64, 256} {
		list = append(list, versionLoad{"LOCK and UNLOCK, " + count(n, "worker"), n, 1, lockPairs})
	}
	for _, n := range []int{1, 16, 100} {
		list = append(list, versionLoad{fmt.Sprintf("GET 64 B, 50 clients, pipeline %d", n), 50, n, getsInBatches(n)})
	}
	return list
}

// lockPairs takes a lock and gives it back, by the way "plain".
func lockPairs(c *client, key string) func() error {
	p, ctx := &plain{client: c}, context.Background()
	return func() error {
		if err := p.lock(ctx, key); err != nil {
			return err
		}
		return p.unlock(ctx, key)
	}
}

// versionKey is the key that the load fetches.
const versionKey = "bench-versions"

// getsInBatches sends n requests at once and reads their replies, which must be bulk strings.
func getsInBatches(n int) func(c *client, _ string) func() error {
	requests := bytes.Repeat(respio.AppendCommand(nil, "GET", versionKey), n)
	return func(c *client, _ string) func() error {
		return func() error {
			if _, err := c.conn.Write(requests); err != nil {
				return err
			}
			for range n {
				line, body, err := c.receive()
				if err != nil {
					return err
				}
				if body == nil {
					return fmt.Errorf("GET: %q", line)
				}
			}
			return nil
		}
	}
}

// versionResult is the ratios of lockproxy to base, block by block: of requests a second, and of
// the proxy's processor time for each.
type versionResult struct{ speed, cost series }

// measureVersions compares BENCH_LOCKPROXY with BENCH_BASE. In every other round base starts
// first, because the masters serve the one that connected first before the other.
func measureVersions(r *rig, out *report) error {
	if r.base == "" {
		return errors.New("BENCH_BASE is not set: it names the build to compare with")
	}
	loads := versionLoads()
	results := make([]versionResult, len(loads))
	for round := range r.rounds {
		r.note("versions, round %d of %d", round+1, r.rounds)
		if err := r.versionRound(loads, results, round%2 == 1); err != nil {
			return err
		}
	}
	t := table{head: []string{"load", "a second, lockproxy / base", "proxy's time for each, lockproxy / base"}}
	for i, load := range loads {
		t.add(load.name, results[i].speed.showInterval(thousandths), results[i].cost.showInterval(thousandths))
	}
	out.section("This build beside an earlier one", fmt.Sprintf("Both run before the same servers and get the load "+
		"in turn, for %v each. Medians of the ratios of %d blocks of four slices, with the interval that holds the "+
		"true median in 95 of 100 cases.\n", sliceTime, r.rounds*blocksPerRound), t.String())
	return nil
}

// versionRound adds the blocks of one round to results.
func (r *rig) versionRound(loads []versionLoad, results []versionResult, baseFirst bool) error {
	first := len(r.procs)
	defer func() { r.endFrom(first) }()
	subjects := []lockSubject{
		{name: "lockproxy", binary: r.lockproxy, flags: []string{"--key-prefix", "now:"}},
		{name: "base", binary: r.base, flags: []string{"--key-prefix", "base:"}},
	}
	now := 0
	if baseFirst {
		now = 1
		slices.Reverse(subjects)
	}
	servers, err := r.lockServers(subjects)
	if err != nil {
		return err
	}
	if err := expect(servers[0].masters[0].addr, "+OK\r\n", "SET", versionKey, strings.Repeat("x", 64)); err != nil {
		return err
	}
	for i, load := range loads {
		if err := r.compareVersions(load, servers[now].proxy, servers[1-now].proxy, &results[i]); err != nil {
			return fmt.Errorf("%s: %w", load.name, err)
		}
	}
	return nil
}

// compareVersions adds the ratios of a round to the result.
func (r *rig) compareVersions(load versionLoad, now, base *server, result *versionResult) error {
	var sides [2]*side
	for i, s := range []*server{now, base} {
		d, err := connectSide(s, load)
		if err != nil {
			return err
		}
		defer d.close()
		sides[i] = d
	}
	for n := range blocksPerRound + 1 {
		order := []int{0, 1, 1, 0}
		if n%2 == 1 {
			order = []int{1, 0, 0, 1}
		}
		var sums [2]sliceSum
		for _, i := range order {
			if err := sides[i].slice(&sums[i]); err != nil {
				return err
			}
		}
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if n > 0 { // the first warms up
			result.speed = append(result.speed, sums[0].speed()/sums[1].speed())
			result.cost = append(result.cost, sums[0].cost()/sums[1].cost())
		}
	}
	return nil
}

// side is the clients of one proxy.
type side struct {
	server  *server
	units   int // of one call of work
	clients []*client
	work    []func() error // of each client
}

func connectSide(s *server, load versionLoad) (*side, error) {
	d := &side{server: s, units: load.units}
	for i := range load.clients {
		c, err := dial(s.addr)
		if err != nil {
			d.close()
			return nil, err
		}
		d.clients = append(d.clients, c)
		d.work = append(d.work, load.work(c, fmt.Sprint("job-", i)))
	}
	return d, nil
}

func (d *side) close() {
	for _, c := range d.clients {
		c.conn.Close()
	}
}

// sliceSum is what slices did.
type sliceSum struct {
	units     int
	took, cpu time.Duration
}

func (s sliceSum) speed() float64 { return float64(s.units) / s.took.Seconds() }
func (s sliceSum) cost() float64  { return s.cpu.Seconds() / float64(s.units) }

// slice lets the clients work for sliceTime and adds their work to sum.
func (d *side) slice(sum *sliceSum) error {
	before, err := d.server.cpu()
	if err != nil {
		return err
	}
	begun := time.Now()
	counts, errs := make([]int, len(d.clients)), make([]error, len(d.clients))
	var wg sync.WaitGroup
	for i, c := range d.clients {
		c.conn.SetDeadline(begun.Add(patience))
		wg.Go(func() {
			for errs[i] == nil && time.Since(begun) < sliceTime {
				errs[i] = d.work[i]()
				counts[i] += d.units
			}
		})
	}
	wg.Wait()
	sum.took += time.Since(begun)
	after, err := d.server.cpu()
	sum.cpu += after - before
	for _, n := range counts {
		sum.units += n
	}
	return errors.Join(append(errs, err)...)
}
