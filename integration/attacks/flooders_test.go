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

// flooder is an attacker. It sends first once, and then the rest over and over until its
// connection ends. It reads only the reply to MULTI.
type flooder struct {
	name        string
	inTx        bool // begin with MULTI
	first, then string
}

// floods fill the memory that a relay may keep of a connection, and then send requests whose cost
// could grow with that memory.
func floods() []flooder {
	long := strings.Repeat("n", 1000)
	entries := times(16_400, "MULTI")
	return []flooder{
		{"MULTI, then CLIENT REPLY OFF", true, unreadErrors + entries, lab.Encode("CLIENT", "REPLY", "OFF")},
		{"MULTI, then MULTI and EXEC", false, unreadEchoes + entries, lab.Encode("MULTI") + lab.Encode("EXEC")},
		{"SUBSCRIBE", false, unreadEchoes, lab.Encode("SUBSCRIBE", "channel")},
		{"AUTH with long names", false, unreadEchoes, lab.Encode("AUTH", long, long)},
		{"HELLO", false, unreadEchoes, lab.Encode("HELLO", "3") + lab.Encode("HELLO", "2")},
		{"SET of large values", false, "", lab.Encode("SET", "large", strings.Repeat("x", 1<<20))},
	}
}

// run attacks over one connection after the other until stop is closed. It adds the bytes that the
// other side took to taken.
func (f flooder) run(addr string, stop <-chan struct{}, taken *atomic.Int64) {
	first, then := []byte(f.first), []byte(strings.Repeat(f.then, max(1, 1<<20/len(f.then)))) // Put would copy them
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
				for _, err = c.Write(first); err == nil; _, err = c.Write(then) {
					taken.Add(int64(len(then)))
				}
			}()
			select {
			case <-ended: // the upstream or the proxy has closed the connection
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

// beside attacks addr until each of four clients has the answers to twenty PINGs. It returns how
// many megabytes the other side took from the attackers. One client is too few, because clients
// that share a thread with an attacker fare worse than others.
func (f flooder) beside(t *testing.T, addr string, attackers int) (megabytes int64) {
	t.Helper()
	const victims, pings = 4, 20
	var hosts []*lab.Conn
	for range victims {
		host := lab.Dial(t, addr) // before the attack, which may delay new connections
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
	lab.Pass(t, time.Duration(2+attackers)*100*time.Millisecond) // the attackers send first
	for _, host := range hosts {
		asking.Go(func() {
			for i := range pings {
				if reply, err := host.Ask("PING"); reply != "+PONG\r\n" {
					t.Errorf("PING %d: got %q, %v, want +PONG", i, reply, err)
					return
				}
				lab.Pass(t, 20*time.Millisecond) // so that the attack lasts and PINGs cost little of it
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

// TestFloodersDoNotStallOthers: other clients get their answers during an attack, and the proxy
// spends about as much processor time on it as Redis, which receives the same bytes. Code that
// searches all bytes of an attacker again for each request spends a hundred times as much. Load on
// the machine does not change processor time; integration/bench measures how long clients wait.
func TestFloodersDoNotStallOthers(t *testing.T) {
	t.Parallel()
	upstream := lab.StartRedis(t, "--maxmemory-clients", "400mb")
	p := lab.StartPlainProxy(t, "--upstream", upstream.Addr, "--restart-guard", "off")
	for i, f := range floods() {
		for _, attackers := range []int{2, 10} {
			if attackers > 2 && (i > 0 || !lab.IsLong()) {
				continue
			}
			t.Run(fmt.Sprintf("%d of %s", attackers, f.name), func(t *testing.T) {
				ours, theirs := p.CPU(t), upstream.CPU(t)
				taken := f.beside(t, p.Addr, attackers)
				lab.WaitFor(t, "the end of the attackers' connections", 2*lab.Patience, func() bool {
					reply, err := upstream.Ask("CLIENT", "LIST")
					return err == nil && strings.Count(reply, " laddr=") <= 2 // this one and the proxy's own
				})
				ours, theirs = p.CPU(t)-ours, upstream.CPU(t)-theirs
				most := 3*theirs + 500*time.Millisecond
				t.Logf("processor time for %d MB: %v of the proxy, %v of Redis", taken, ours, theirs)
				if ours > most {
					t.Errorf("the proxy used %v of processor time, want at most %v, as Redis used %v", ours, most, theirs)
				}
			})
		}
	}
}
