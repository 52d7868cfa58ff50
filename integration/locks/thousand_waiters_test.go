package locks

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestThousandWaiters: 1,000 waiters on one key cost the masters what one in each proxy costs, and
// the proxies next to no processor time while nothing is released. All are served, in order within
// each proxy, and neither proxy is kept out until the other's are served. Contention took all of a
// core in rueidis#602 and redis-semaphore#205 (B23).
func TestThousandWaiters(t *testing.T) {
	p := lab.StartTwoProxies(t)
	const each = 500
	token := p.Near.Lock("job", "60s")
	proxies, desks := []*lab.Proxy{p.Proxy, p.Second}, []*lab.Client{p.Near, p.Far}
	var hosts [2][]*lab.Client
	served := make(chan [2]int, 2*each) // proxy and place
	failed := make(chan string, 2*each)
	join := func(side, i int) {
		host := lab.Dial(t, proxies[side].Addr)
		host.Timeout = 2 * time.Minute
		hosts[side] = append(hosts[side], host)
		host.Send(lab.Encode("LOCK", "job", "60s", "WAIT", "0"))
		desks[side].WaitWaiting(i + 1)
		go func() {
			reply, err := host.Next()
			token := lab.TokenOf(reply)
			if token != "" {
				served <- [2]int{side, i}
				reply, err = host.Conn.Ask("UNLOCK", "job", token)
			}
			if reply != ":1\r\n" || err != nil {
				failed <- reply
			}
		}()
	}

	// rate counts the commands at the masters, and the proxies' processor time, of a few seconds.
	const span = 2 * time.Second
	rate := func() (commands int, cpu time.Duration) {
		lab.Pass(t, 500*time.Millisecond) // for what joining costs
		before, used := lab.CommandCounts(t, p.Masters, ""), []time.Duration{p.CPU(t), p.Second.CPU(t)}
		lab.Pass(t, span)
		for i, proxy := range proxies {
			cpu = max(cpu, proxy.CPU(t)-used[i])
		}
		return lab.CommandCounts(t, p.Masters, "") - before, cpu
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
	if cpu > span/20 && !lab.Race {
		t.Errorf("a proxy used %v of processor time in %v with nothing to do, want 5%% at most", cpu, span)
	}

	before, start := lab.CommandCounts(t, p.Masters, ""), time.Now()
	p.Near.Unlock("job", token)
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
		case <-time.After(2 * lab.Patience):
			t.Fatalf("%d and %d of %d served, then no more", next[0], next[1], each)
		}
	}
	took := time.Since(start)
	commands := lab.CommandCounts(t, p.Masters, "") - before
	t.Logf("%d served within %v, %d commands at the masters each, at most %d in a row by one proxy", 2*each, took, commands/2/each, longest)
	if longest > each/2 {
		t.Errorf("one proxy had %d turns in a row while waiters stood in the other", longest)
	}
	p.Near.WaitWaiting(0)
	p.Near.WantDo(lab.Null2, "LOCKINFO", "job")
	p.WantNoStray(t)
}
