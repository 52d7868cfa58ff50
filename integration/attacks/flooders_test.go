package attacks

import (
	"fmt"
	"slices"
	"strings"
	"sync"
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

// run sends it on one connection after the other until stop is closed.
func (f flooder) run(addr string, stop <-chan struct{}) {
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

// beside is the median time of a PING at addr beside attackers, of the client that fared worst:
// whoever shares a thread with an attacker fares worse than the others. A PING without a reply
// counts with the time so far.
func (f flooder) beside(t *testing.T, addr string, attackers int) time.Duration {
	t.Helper()
	const victims, window = 4, 700 * time.Millisecond
	var hosts []*lab.Conn
	for range victims {
		host := lab.Dial(t, addr) // before the attack: what a new connection waits is another matter
		host.WantDo("+PONG\r\n", "PING")
		host.Timeout = 2 * time.Minute
		hosts = append(hosts, host.Conn)
	}
	stop := make(chan struct{})
	var attack, asking sync.WaitGroup
	for range attackers {
		attack.Go(func() { f.run(addr, stop) })
	}
	lab.Pass(t, time.Duration(2+attackers)*100*time.Millisecond) // the lists fill
	end := time.Now().Add(window)
	medians := make([]time.Duration, victims)
	for i, host := range hosts {
		asking.Go(func() {
			var took []time.Duration
			for start := time.Now(); start.Before(end); start = time.Now() {
				reply := make(chan error, 1)
				go func() {
					_, err := host.Ask("PING")
					reply <- err
				}()
				select {
				case err := <-reply:
					if err != nil {
						t.Errorf("PING: %v", err)
						return
					}
				case <-time.After(time.Until(end)):
					took = append(took, time.Since(start))
					medians[i] = lab.Median(took)
					<-reply // when the attack is over
					return
				}
				took = append(took, time.Since(start))
				time.Sleep(time.Millisecond) // so that victims are no load
			}
			medians[i] = lab.Median(took)
		})
	}
	lab.Pass(t, time.Until(end))
	close(stop)
	attack.Wait()
	asking.Wait()
	for _, host := range hosts {
		host.Close()
	}
	return slices.Max(medians)
}

// TestFloodersStallNobody: attackers cost others no more than they cost through a relay that knows
// nothing of Redis. Twice as much is allowed, and a time slice of a busy machine. What else the
// machine does at that moment may spoil a measurement, but not three.
func TestFloodersStallNobody(t *testing.T) {
	const slice = time.Millisecond
	upstream := lab.StartRedis(t, "--maxmemory-clients", "400mb")
	haproxy := lab.StartHAProxy(t, upstream.Addr)
	p := lab.StartPlainProxy(t, "--upstream", upstream.Addr, "--restart-guard", "off")
	quiet := flooder{}.beside(t, p.Addr, 0)
	measure := func(f flooder, addr string, attackers int) time.Duration {
		took := f.beside(t, addr, attackers)
		lab.WaitFor(t, "the attackers gone", 2*lab.Patience, func() bool {
			reply, err := upstream.Ask("CLIENT", "LIST")
			return err == nil && strings.Count(reply, " laddr=") <= 2 // this one, and one of the proxy's own
		})
		return took
	}
	for i, f := range floods() {
		for _, attackers := range []int{2, 10} {
			if i > 0 && attackers > 2 {
				continue
			}
			t.Run(fmt.Sprintf("%d of %s", attackers, f.name), func(t *testing.T) {
				for try := range 3 {
					past := measure(f, haproxy, attackers)
					through := measure(f, p.Addr, attackers)
					t.Logf("the median PING of the worst took %v; without an attack %v, with the same through HAProxy %v", through, quiet, past)
					if through <= (2*max(quiet, past) + slice) {
						return
					}
					if try == 2 {
						t.Errorf("with %d who send %s others wait for %v, through HAProxy %v", attackers, f.name, through, past)
					}
				}
			})
		}
	}
}
