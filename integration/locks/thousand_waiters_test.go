package locks

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestThousandWaitersCostAsOne: while a lock is held, 1,000 waiters, or 300 in a short run, cost
// the masters no more than one waiter in each proxy, and the proxies next to no processor time.
// After the release all are served, in order within each proxy, and neither proxy waits until the
// other's waiters are served. Contention took a whole core in rueidis#602 and redis-semaphore#205
// (B23).
func TestThousandWaitersCostAsOne(t *testing.T) {
	each := lab.Long(150, 500)
	q := &longQueues{TwoProxies: lab.StartTwoProxies(t), served: make(chan turn, 2*each),
		failed: make(chan string, 2*each)}
	token := q.Near.LockSession("job", "60s") // held however long the waiters take to join
	q.join(0, 0)
	q.join(1, 0)
	one := q.cost(t)
	for i := 1; i < each; i++ {
		q.join(0, i)
		q.join(1, i)
	}
	all := q.cost(t)
	t.Logf("commands a second: %.1f with one waiter a proxy, %.1f with %d; at most %.1f %% of a processor",
		one.commands, all.commands, each, 100*all.cpu)
	if all.commands > 2*one.commands {
		t.Errorf("commands a second with %d waiters a proxy: got %.1f, want at most %.1f, twice as many as with one",
			each, all.commands, 2*one.commands)
	}
	if all.cpu > 0.05 && !lab.Race {
		t.Errorf("processor time of a proxy whose clients all wait: got %.1f %%, want at most 5 %%", 100*all.cpu)
	}
	q.Near.Unlock("job", token)
	q.wantAllServed(t, each)
	q.Near.WaitWaiting(0)
	lab.WaitFor(t, "the UNLOCK of the last waiter", lab.Patience,
		func() bool { return q.Near.Do("LOCKINFO", "job") == lab.Null2 })
	q.WantNoStray(t)
}

// longQueues has two proxies with many waiters for one key.
type longQueues struct {
	*lab.TwoProxies
	served chan turn
	failed chan string // replies other than a token and 1
}

// turn is a grant to a waiter, by its proxy and its place in the queue there.
type turn struct{ proxy, place int }

// join adds a waiter, which unlocks as soon as it gets the lock.
func (q *longQueues) join(proxy, place int) {
	addr, desk := q.Addr, q.Near
	if proxy == 1 {
		addr, desk = q.Second.Addr, q.Far
	}
	host := lab.Dial(desk.T, addr)
	host.Timeout = 4 * time.Minute
	host.Send(lab.Encode("LOCK", "job", "60s", "WAIT", "0"))
	desk.WaitWaiting(place + 1)
	go func() {
		reply, err := host.Next()
		token := lab.TokenOf(reply)
		if token != "" {
			q.served <- turn{proxy, place}
			reply, err = host.Conn.Ask("UNLOCK", "job", token)
		}
		if reply != ":1\r\n" || err != nil {
			q.failed <- reply
		}
	}()
}

// waitingCost is the cost of waiting in a second.
type waitingCost struct {
	commands float64 // at all masters
	cpu      float64 // share of a processor that the busier proxy used
}

// cost measures the cost of a few seconds.
func (q *longQueues) cost(t *testing.T) (c waitingCost) {
	t.Helper()
	lab.Pass(t, 500*time.Millisecond) // after that, joining costs no more
	proxies := []*lab.Proxy{q.Proxy, q.Second}
	start := time.Now()
	before, used := lab.CommandCounts(t, q.Masters, ""), []time.Duration{q.CPU(t), q.Second.CPU(t)}
	lab.Pass(t, 2*time.Second)
	commands := lab.CommandCounts(t, q.Masters, "") - before
	var cpu time.Duration
	for i, proxy := range proxies {
		cpu = max(cpu, proxy.CPU(t)-used[i])
	}
	passed := time.Since(start).Seconds()
	return waitingCost{float64(commands) / passed, cpu.Seconds() / passed}
}

// wantAllServed waits for all turns and compares their order.
func (q *longQueues) wantAllServed(t *testing.T, each int) {
	t.Helper()
	var next [2]int
	last, run, longest := -1, 0, 0
	for range 2 * each {
		select {
		case s := <-q.served:
			if s.place != next[s.proxy] {
				t.Fatalf("proxy %d: got waiter %d served, want %d", s.proxy+1, s.place, next[s.proxy])
			}
			next[s.proxy]++
			if run++; s.proxy != last {
				last, run = s.proxy, 1
			}
			if next[1-s.proxy] < each { // the other proxy has waiters, too
				longest = max(longest, run)
			}
		case reply := <-q.failed:
			t.Fatalf("a waiter: got %q, want a token and then 1", reply)
		case <-time.After(2 * lab.Patience):
			t.Fatalf("waiters served: got %d and %d, want %d in each proxy", next[0], next[1], each)
		}
	}
	t.Logf("at most %d turns in a row of one proxy", longest)
	if longest > each/2 {
		t.Errorf("turns in a row of one proxy while clients wait in the other: got %d, want at most %d", longest, each/2)
	}
}
