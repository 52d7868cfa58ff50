package integration

import (
	"testing"
	"time"
)

// TestThousandWaiters: 1,000 waiters on one key cost the masters what one in each proxy costs, and the proxies next to no
// processor time while nothing is released. All are served, in order within each proxy, and neither proxy is kept
// out until the other's are served. Contention took all of a core in rueidis#602 and redis-semaphore#205 (B23).
func TestThousandWaiters(t *testing.T) {
	p := startPair(t)
	const each = 500
	token := p.desk.lock("job", "60s")
	proxies, desks := []*proxy{p.proxy, p.two}, []*client{p.desk, p.far}
	var hosts [2][]*client
	served := make(chan [2]int, 2*each) // proxy and place
	failed := make(chan string, 2*each)
	join := func(side, i int) {
		host := dial(t, proxies[side].addr)
		host.timeout = 2 * time.Minute
		hosts[side] = append(hosts[side], host)
		host.send(encode("LOCK", "job", "60s", "WAIT", "0"))
		desks[side].waitWaiting(i + 1)
		go func() {
			reply, err := host.read()
			token := tokenOf(reply)
			if token != "" {
				served <- [2]int{side, i}
				reply, err = host.conn.do("UNLOCK", "job", token)
			}
			if reply != ":1\r\n" || err != nil {
				failed <- reply
			}
		}()
	}

	// rate counts the commands at the masters, and the proxies' processor time, of a few seconds.
	const span = 2 * time.Second
	rate := func() (commands int, cpu time.Duration) {
		pauseBetween(t, 500*time.Millisecond) // for what joining costs
		before, used := commandCounts(t, p.masters, ""), []time.Duration{p.cpu(t), p.two.cpu(t)}
		pauseBetween(t, span)
		for i, proxy := range proxies {
			cpu = max(cpu, proxy.cpu(t)-used[i])
		}
		return commandCounts(t, p.masters, "") - before, cpu
	}
	join(0, 0)
	join(1, 0)
	one, _ := rate()
	for i := 1; i < each; i++ {
		join(0, i)
		join(1, i)
	}
	all, cpu := rate()
	t.Logf("in %v: %d commands with one waiter a proxy, %d with %d, at most %v of processor time", span, one, all, each, cpu)
	if all > 2*one {
		t.Errorf("%d commands in %v with %d waiters a proxy, %d with one", all, span, each, one)
	}
	if cpu > span/20 && !raceEnabled {
		t.Errorf("a proxy used %v of processor time in %v with nothing to do, want 5%% at most", cpu, span)
	}

	before, start := commandCounts(t, p.masters, ""), time.Now()
	p.desk.unlock("job", token)
	next, last, run, longest := [2]int{}, -1, 0, 0
	for range 2 * each {
		select {
		case s := <-served:
			side, place := s[0], s[1]
			if place != next[side] {
				t.Fatalf("proxy %d served its waiter %d, want %d", side+1, place, next[side])
			}
			next[side]++
			if run++; side != last {
				last, run = side, 1
			}
			if next[1-side] < each { // the other has waiters, too
				longest = max(longest, run)
			}
		case reply := <-failed:
			t.Fatalf("a waiter: %q", reply)
		case <-time.After(2 * patience):
			t.Fatalf("%d and %d of %d served, then no more", next[0], next[1], each)
		}
	}
	took := time.Since(start)
	commands := commandCounts(t, p.masters, "") - before
	t.Logf("%d served within %v, %d commands at the masters each, at most %d in a row by one proxy", 2*each, took, commands/2/each, longest)
	if longest > each/2 {
		t.Errorf("one proxy had %d turns in a row while waiters stood in the other", longest)
	}
	if took > 10*time.Second*slack {
		t.Errorf("%d waiters were served within %v", 2*each, took)
	}
	p.desk.waitWaiting(0)
	p.desk.wantDo(null2, "LOCKINFO", "job")
	p.wantNoStray(t)
}
