package attacks

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// flooder is what an attacker sends: first once, then over and over until its connection ends. It
// reads the reply to MULTI, and nothing more.
type flooder struct {
	name        string
	inTx        bool // it begins with MULTI
	first, then string
}

// floods fill what a relay may remember of a connection, and then give it work that could grow
// with that.
func floods() []flooder {
	long := strings.Repeat("n", 1000)
	stuck := strings.Repeat(lab.Encode(strings.Repeat("u", 128), strings.Repeat("a", 128)), 16_000) // errors of 300 bytes: no reply behind them arrives
	entries := stuck + strings.Repeat(lab.Encode("MULTI"), 16_400)
	return []flooder{
		{"MULTI, then CLIENT REPLY OFF", true, entries, lab.Encode("CLIENT", "REPLY", "OFF")},
		{"MULTI, then MULTI and EXEC", false, entries, lab.Encode("MULTI") + lab.Encode("EXEC")},
		{"SUBSCRIBE", false, stuck, lab.Encode("SUBSCRIBE", "channel")},
		{"AUTH with long names", false, stuck, lab.Encode("AUTH", long, long)},
		{"HELLO", false, stuck, lab.Encode("HELLO", "3") + lab.Encode("HELLO", "2")},
		{"SET of large values", false, "", lab.Encode("SET", "large", strings.Repeat("x", 1<<20))},
	}
}

// run sends it on one connection after the other until stop is closed, and adds the bytes that were
// accepted to taken.
func (f flooder) run(addr string, stop <-chan struct{}, taken *atomic.Int64) {
	then := strings.Repeat(f.then, max(1, 1<<20/len(f.then)))
	for {
		c, err := lab.Connect(addr)
		if err == nil {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = c.SetReadBuffer(4096)
				if f.inTx {
					_, err = c.Ask("MULTI")
				}
				for err = c.Put(f.first); err == nil; err = c.Put(then) {
					taken.Add(int64(len(then)))
				}
			}()
			select {
			case <-ended: // the upstream, or the relay, had enough of it
			case <-stop:
			}
			c.Reset()
			<-ended
		}
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// beside attacks addr until each of four clients has the answers to twenty PINGs, and returns how
// much was taken from the attackers. Four clients, because those that share a thread with an
// attacker fare worse than the rest.
func (f flooder) beside(t *testing.T, addr string, attackers int) (megabytes int64) {
	t.Helper()
	const victims, pings = 4, 20
	var hosts []*lab.Conn
	for range victims {
		host := lab.Dial(t, addr) // before the attack: what a new connection waits is another matter
		host.WantDo("+PONG\r\n", "PING")
		host.Timeout = 2 * time.Minute
		hosts = append(hosts, host.Conn)
	}
	stop := make(chan struct{})
	var attack, asking sync.WaitGroup
	var taken atomic.Int64
	for range attackers {
		attack.Go(func() { f.run(addr, stop, &taken) })
	}
	lab.Pass(t, time.Duration(2+attackers)*100*time.Millisecond) // the lists fill
	for _, host := range hosts {
		asking.Go(func() {
			for i := range pings {
				if reply, err := host.Ask("PING"); reply != "+PONG\r\n" {
					t.Errorf("PING %d: %q, %v", i, reply, err)
					return
				}
				time.Sleep(20 * time.Millisecond) // so that victims are no load, and the attack lasts
			}
		})
	}
	asking.Wait()
	close(stop)
	attack.Wait()
	for _, host := range hosts {
		host.Close()
	}
	return taken.Load() >> 20
}

// TestFloodersStallNobody: other clients get their answers during an attack, and the proxy spends
// about as much processor time on it as Redis, which receives the same bytes. Code that searches
// all that an attacker has sent so far spends a hundred times as much. Load on the machine does not
// change processor time; integration/bench measures how long other clients wait.
func TestFloodersStallNobody(t *testing.T) {
	t.Parallel()
	upstream := lab.StartRedis(t, "--maxmemory-clients", "400mb")
	p := lab.StartPlainProxy(t, "--upstream", upstream.Addr, "--restart-guard", "off")
	for i, f := range floods() {
		for _, attackers := range []int{2, 10} {
			if i > 0 && attackers > 2 {
				continue
			}
			t.Run(fmt.Sprintf("%d of %s", attackers, f.name), func(t *testing.T) {
				ours, theirs := p.CPU(t), upstream.CPU(t)
				taken := f.beside(t, p.Addr, attackers)
				lab.WaitFor(t, "the attackers gone", 2*lab.Patience, func() bool {
					reply, err := upstream.Ask("CLIENT", "LIST")
					return err == nil && strings.Count(reply, " laddr=") <= 2 // this one, and one of the proxy's own
				})
				ours, theirs = p.CPU(t)-ours, upstream.CPU(t)-theirs
				t.Logf("%d MB were taken, with %v of processor time, of Redis %v", taken, ours, theirs)
				if ours > 3*theirs+500*time.Millisecond {
					t.Errorf("the proxy used %v of processor time, Redis %v", ours, theirs)
				}
			})
		}
	}
}
