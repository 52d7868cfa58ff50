package operations

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// A real Sentinel set-up: a master, a replica, three Sentinels, and failovers of every kind under
// load.

// watched is such a set-up with a lockproxy before it.
type watched struct {
	*lab.Proxy
	master, replica *lab.Redis
	sentinels       []*lab.Redis
	successor       string // port of the replica that the others know it by
}

// startWatched starts everything. auth protects the servers and the Sentinels by passwords, which
// lockproxy has from files. With overTLS all of them, and lockproxy, talk TLS to each other, and
// want a certificate of each other; plain ports are there for the test.
func startWatched(t *testing.T, auth, overTLS bool) *watched {
	t.Helper()
	var secured, flags []string
	dir := t.TempDir()
	if auth {
		secured = []string{"--requirepass", "server-pw", "--masterauth", "server-pw"}
		flags = []string{"--upstream-password-file", secretFile(t, dir, "server-pw"), "--sentinel-user", "asker", "--sentinel-password-file",
			secretFile(t, dir, "sentinel-pw")}
	}
	var private *private
	scheme := "redis+sentinel://"
	if overTLS {
		private = newPrivate(t)
		scheme, flags = "rediss+sentinel://", append(flags, private.flags()...)
	}
	w := &watched{}
	at, args := private.port()
	w.master = lab.StartRedis(t, slices.Concat(secured, args, []string{"--repl-diskless-sync-delay", "0"})...)
	master := cmp.Or(at, w.master.Addr)
	_, port, _ := strings.Cut(master, ":")
	at, args = private.port()
	w.replica = lab.StartRedis(t, slices.Concat(secured, args, []string{"--replicaof", "127.0.0.1", port})...)
	_, w.successor, _ = strings.Cut(cmp.Or(at, w.replica.Addr), ":")
	lab.WaitFor(t, "the replica", 2*lab.Patience, func() bool { // or the Sentinels notice it no sooner than ten seconds later
		c, err := lab.Connect(w.replica.Addr)
		if err != nil {
			return false
		}
		defer c.Close()
		_, _ = c.Ask("AUTH", "server-pw")
		reply, err := c.Ask("INFO", "replication")
		return err == nil && strings.Contains(reply, "master_link_status:up")
	})
	var addrs []string
	for range 3 {
		at, args = private.port()
		s := startSentinel(t, master, auth, args)
		w.sentinels, addrs = append(w.sentinels, s), append(addrs, cmp.Or(at, s.Addr))
	}
	lab.WaitFor(t, "the Sentinels know each other and the replica", 3*lab.Patience, func() bool {
		for _, s := range w.sentinels {
			if field(s, "num-slaves") != "1" || field(s, "num-other-sentinels") != "2" || field(s, "flags") != "master" {
				return false
			}
		}
		return true
	})
	servers := lab.StartMasters(t, 3)
	w.Proxy = lab.StartProxy(t, append([]string{"--upstream", scheme + strings.Join(addrs, ",") + "/mymaster",
		"--masters", strings.Join(lab.Addrs(servers), ","), "--restart-guard", "off"}, flags...)...)
	w.WaitVoting(t)
	return w
}

// secretFile writes a secret to a file, as people do: with an end of line. The name does not show
// it.
func secretFile(t *testing.T, dir, secret string) string {
	t.Helper()
	file, err := os.CreateTemp(dir, "secret-")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(secret + "\n"); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

// startSentinel starts a Sentinel for a master, which it takes for down after half a second.
func startSentinel(t *testing.T, master string, auth bool, args []string) *lab.Redis {
	t.Helper()
	host, port, _ := strings.Cut(master, ":")
	lines := []string{fmt.Sprintf("sentinel monitor mymaster %s %s 2", host, port), "sentinel down-after-milliseconds mymaster 500",
		"sentinel failover-timeout mymaster 5000"}
	for pair := range slices.Chunk(args, 2) {
		lines = append(lines, strings.TrimPrefix(pair[0], "--")+" "+pair[1])
	}
	if auth {
		lines = append(lines, "sentinel auth-pass mymaster server-pw", "user asker on >sentinel-pw resetchannels &+switch-master -@all "+
			"+sentinel|master +subscribe +unsubscribe +ping +hello")
	}
	return lab.StartSentinel(t, lines...)
}

// field is one of SENTINEL MASTER, or "".
func field(s *lab.Redis, name string) string {
	reply, err := s.Ask("SENTINEL", "MASTER", "mymaster")
	if err != nil {
		return ""
	}
	all := lab.Fields(reply)
	for i := 0; i+1 < len(all); i += 2 {
		if all[i] == name {
			return all[i+1]
		}
	}
	return ""
}

// worker is a client that writes and reads values nobody else has, and connects anew when its
// connection ends.
type worker struct {
	addr, name string
	lost       int // connections that ended
	slowest    time.Duration
	wrong      []string
	written    atomic.Int64
	lastAt     atomic.Int64 // of the last acknowledged write, in ns
}

func (k *worker) run(stop <-chan struct{}) {
	var c *lab.Conn
	last := time.Now()
	for n := 0; ; n++ {
		select {
		case <-stop:
			if c != nil {
				c.Close()
			}
			return
		default:
		}
		if c == nil {
			var err error
			if c, err = lab.Connect(k.addr); err != nil {
				k.wrong = append(k.wrong, err.Error())
				return
			}
			c.Timeout = 20 * time.Second
		}
		value := fmt.Sprintf("%s-%d", k.name, n)
		err := c.Put(lab.Encode("SET", k.name, value) + lab.Encode("GET", k.name) + lab.Encode("ECHO", value))
		replies := make([]string, 3)
		for i := range replies {
			if err == nil {
				replies[i], err = c.Next()
			}
		}
		if err != nil {
			c.Close()
			c, k.lost = nil, k.lost+1
			continue
		}
		if strings.HasPrefix(replies[0], "-") { // refused, as a whole or at a replica
			continue
		}
		if replies[0] != "+OK\r\n" || replies[1] != lab.Bulk(value) || replies[2] != lab.Bulk(value) {
			k.wrong = append(k.wrong, fmt.Sprintf("%s: %q", value, replies))
		}
		k.written.Add(1)
		k.slowest = max(k.slowest, time.Since(last))
		last = time.Now()
		k.lastAt.Store(last.UnixNano())
	}
}

// poller waits for what never comes, half a second at a time, and counts how often its connection
// is closed in the midst of that.
func poller(addr string, stop <-chan struct{}) (cut int) {
	for {
		c, err := lab.Connect(addr)
		if err != nil {
			return -1
		}
		for err == nil {
			select {
			case <-stop:
				c.Close()
				return cut
			default:
			}
			start := time.Now()
			if _, err = c.Ask("BLPOP", "never", "0.5"); err != nil && time.Since(start) > 100*time.Millisecond {
				cut++
			}
		}
		c.Close()
	}
}

// TestSentinelFailover: writes resume at the new master without a restart of the proxy, however
// the old one ends, and no client gets a reply that is not its own.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		auth, tls bool
		fail      func(t *testing.T, w *watched)
	}{
		"on command": {false, false, func(t *testing.T, w *watched) {
			lab.WaitFor(t, "SENTINEL FAILOVER", lab.Patience, func() bool {
				reply, _ := w.sentinels[0].Ask("SENTINEL", "FAILOVER", "mymaster")
				return reply == "+OK\r\n"
			})
		}},
		"killed, with passwords": {true, false, func(_ *testing.T, w *watched) { w.master.Kill() }},
		"killed, with TLS":       {false, true, func(_ *testing.T, w *watched) { w.master.Kill() }},
		"silent":                 {false, false, func(t *testing.T, w *watched) { w.master.Pause(t) }},
		"killed with a Sentinel": {false, false, func(_ *testing.T, w *watched) { w.master.Kill(); w.sentinels[0].Kill() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWatched(t, c.auth, c.tls)
			ends := w.clientsOfAllKinds(t)
			var workers []*worker
			var wg sync.WaitGroup
			stop := make(chan struct{})
			for i := range 10 {
				k := &worker{addr: w.Addr, name: fmt.Sprintf("worker-%d", i)}
				workers = append(workers, k)
				wg.Go(func() { k.run(stop) })
			}
			cut := make(chan int, 1)
			go func() { cut <- poller(w.Addr, stop) }()
			ready := func(since time.Time) bool {
				for _, k := range workers {
					if k.lastAt.Load() < since.UnixNano() {
						return false
					}
				}
				return true
			}
			lab.WaitFor(t, "work", lab.Patience, func() bool {
				return !slices.ContainsFunc(workers, func(k *worker) bool { return k.written.Load() < 100 })
			})
			start := time.Now()
			c.fail(t, w)
			lab.WaitFor(t, "the Sentinels agree on the replica", 3*lab.Patience, func() bool {
				return field(w.sentinels[1], "port") == w.successor && field(w.sentinels[2], "port") == w.successor
			})
			switched := time.Now()
			for i, end := range ends {
				if !lab.Poll(lab.Patience+10*time.Second, end) {
					t.Errorf("client %d is still connected to the old master", i)
				}
			}
			closed := time.Now()
			lab.WaitFor(t, "work again", 2*lab.Patience, func() bool { return ready(closed) })
			close(stop)
			wg.Wait()
			if n := <-cut; name == "on command" && n > 0 {
				t.Errorf("%d times a connection was closed while a command waited for its answer, although the old master was there", n)
			}
			if d := closed.Sub(switched); name == "on command" && d > 7*time.Second { // the Sentinels tell the old master after 8s
				t.Errorf("the last client of the old master was closed after %v", d)
			}
			w.report(t, workers, start, switched, closed)
		})
	}
}

// clientsOfAllKinds returns, for clients in states in which they would stay where they are, who
// tells whether each was closed.
func (w *watched) clientsOfAllKinds(t *testing.T) (closed []func() bool) {
	for _, send := range []string{
		lab.Encode("PING"), lab.Encode("SUBSCRIBE", "news"), lab.Encode("BLPOP", "nothing", "0"), lab.Encode("MULTI") + lab.Encode("SET", "a", "1"),
		lab.Encode("MONITOR"), lab.Encode("LOCK", "held", "60s", "SESSION") + lab.Encode("PING"), lab.Encode("PSUBSCRIBE", "*") + lab.Encode("LOCK", "x", "1s"),
	} {
		c := lab.Dial(t, w.Addr)
		c.Send(send)
		if !strings.Contains(send, "BLPOP") {
			c.Frame()
		}
		var gone atomic.Bool
		go func() {
			for buf := make([]byte, 4096); ; {
				if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					return
				}
				if _, err := c.Reader.Read(buf); err != nil {
					gone.Store(!os.IsTimeout(err))
					return
				}
			}
		}()
		closed = append(closed, gone.Load)
	}
	return closed
}

func (w *watched) report(t *testing.T, workers []*worker, start, switched, closed time.Time) {
	var written, lost int
	var slowest time.Duration
	for _, k := range workers {
		for _, wrong := range k.wrong {
			t.Errorf("%s: %s", k.name, wrong)
		}
		if reply, err := w.replica.Ask("PING"); err == nil && reply == "+PONG\r\n" { // no password
			if got := w.replica.Do(t, "EXISTS", k.name); got != ":1\r\n" {
				t.Errorf("%s wrote nothing at the new master: %q", k.name, got)
			}
		}
		written, lost, slowest = written+int(k.written.Load()), lost+k.lost, max(slowest, k.slowest)
	}
	t.Logf("%d writes, %d connections lost, no write for %v at most; the Sentinels switched after %v, all other clients were closed %v later",
		written, lost, slowest.Round(time.Millisecond), switched.Sub(start).Round(time.Millisecond), closed.Sub(switched).Round(time.Millisecond))
}
