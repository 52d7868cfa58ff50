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

// A real Sentinel deployment: a master, a replica, three Sentinels, and failovers of every kind
// under load.

// watched is such a deployment, with a lockproxy in front.
type watched struct {
	*lab.Proxy
	master, replica *lab.Redis
	sentinels       []*lab.Redis
	successor       string // the replica's port, by which the Sentinels know it
}

// startWatched starts the deployment. auth: servers and Sentinels have passwords, which lockproxy
// gets from files. overTLS: they and lockproxy use TLS with client certificates; the test uses
// the plain ports.
func startWatched(t *testing.T, auth, overTLS bool) *watched {
	t.Helper()
	var secured, flags []string
	dir := t.TempDir()
	if auth {
		secured = []string{"--requirepass", "server-pw", "--masterauth", "server-pw"}
		flags = []string{"--upstream-password-file", secretFile(t, dir, "server-pw"), "--sentinel-user", "asker",
			"--sentinel-password-file",
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
	// otherwise the Sentinels notice the replica ten seconds later
	lab.WaitFor(t, "the replica", 2*lab.Patience, func() bool {
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
	lab.WaitFor(t, "Sentinels that know each other and the replica", 3*lab.Patience, func() bool {
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

// secretFile writes a secret to a file, with a line end as people do. The file's name does not
// contain it.
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

// startSentinel starts a Sentinel that considers the master down after two seconds.
func startSentinel(t *testing.T, master string, auth bool, args []string) *lab.Redis {
	t.Helper()
	host, port, _ := strings.Cut(master, ":")
	lines := []string{fmt.Sprintf("sentinel monitor mymaster %s %s 2", host, port),
		"sentinel down-after-milliseconds mymaster 2000",
		"sentinel failover-timeout mymaster 5000"}
	for pair := range slices.Chunk(args, 2) {
		lines = append(lines, strings.TrimPrefix(pair[0], "--")+" "+pair[1])
	}
	if auth {
		lines = append(lines, "sentinel auth-pass mymaster server-pw",
			"user asker on >sentinel-pw resetchannels &+switch-master -@all "+
				"+sentinel|master +subscribe +unsubscribe +ping +hello")
	}
	return lab.StartSentinel(t, lines...)
}

// field returns a field of SENTINEL MASTER, or "".
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

// worker is a client that writes and reads unique values, and reconnects when its connection
// ends.
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
		case <-time.After(time.Millisecond): // leaves processor time to others
		}
		if c == nil {
			var err error
			if c, err = lab.Connect(k.addr); err != nil {
				k.wrong = append(k.wrong, err.Error())
				return
			}
			c.Timeout = 20 * time.Second
		}
		acknowledged, err := k.write(c, fmt.Sprintf("%s-%d", k.name, n))
		if err != nil {
			c.Close()
			c, k.lost = nil, k.lost+1
		}
		if acknowledged {
			k.written.Add(1)
			k.slowest = max(k.slowest, time.Since(last))
			last = time.Now()
			k.lastAt.Store(last.UnixNano())
		}
	}
}

// write writes and reads back a value, and sends ECHO. It notes wrong replies to a write that was
// not refused. An error ends the connection.
func (k *worker) write(c *lab.Conn, value string) (acknowledged bool, err error) {
	err = c.Put(lab.Encode("SET", k.name, value) + lab.Encode("GET", k.name) + lab.Encode("ECHO", value))
	replies := make([]string, 3)
	for i := range replies {
		if err == nil {
			replies[i], err = c.Next()
		}
	}
	if err != nil || strings.HasPrefix(replies[0], "-") { // refused before or by a replica
		return false, err
	}
	if replies[0] != "+OK\r\n" || replies[1] != lab.Bulk(value) || replies[2] != lab.Bulk(value) {
		k.wrong = append(k.wrong, fmt.Sprintf("%s: %q", value, replies))
	}
	return true, nil
}

// poller blocks on a list that stays empty, half a second at a time, and counts how often its
// connection is closed while Redis blocks it. The reply to ECHO proves that both commands were
// forwarded.
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
			if _, err = c.Ask("ECHO", "alive"); err != nil { // closed between two commands
				break
			}
			if err = c.Put(lab.Encode("ECHO", "forwarded") + lab.Encode("BLPOP", "never", "0.5")); err != nil {
				break
			}
			if _, err = c.Next(); err != nil {
				break
			}
			if _, err = c.Next(); err != nil {
				cut++
			}
		}
		c.Close()
	}
}

// After a failover of any kind writes resume at the new master without a restart of the proxy,
// and no client gets another's reply.
func TestSentinelFailoverResumesWrites(t *testing.T) {
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
		"killed with a Sentinel, with passwords and TLS": {true, true, func(_ *testing.T, w *watched) {
			w.master.Kill()
			w.sentinels[0].Kill()
		}},
		"silent": {false, false, func(t *testing.T, w *watched) { w.master.Pause(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWatched(t, c.auth, c.tls)
			ends := w.clientsOfAllKinds(t)
			stop, cut := make(chan struct{}), make(chan int, 1)
			workers, wg := startWorkers(t, w.Addr, stop)
			go func() { cut <- poller(w.Addr, stop) }()
			if slices.ContainsFunc(w.sentinels, func(s *lab.Redis) bool { return field(s, "port") == w.successor }) {
				t.Skip("the machine is so busy that the Sentinels failed over before the fault")
			}
			start := time.Now()
			c.fail(t, w)
			lab.WaitFor(t, "Sentinels that agree on the replica", 3*lab.Patience, func() bool {
				return field(w.sentinels[1], "port") == w.successor && field(w.sentinels[2], "port") == w.successor
			})
			switched := time.Now()
			for i, end := range ends {
				if !lab.Poll(lab.Patience+10*time.Second, end) {
					t.Errorf("client %d is still connected to the old master", i)
				}
			}
			closed := time.Now()
			// The Sentinels make the old master a replica after 8s, which closes its clients, too.
			if name == "on command" && !strings.Contains(w.master.Do(t, "ROLE"), "master") {
				t.Error("the proxy had not closed the clients of the old master when that became a replica")
			}
			lab.WaitFor(t, "work at the new master", 2*lab.Patience, func() bool {
				return !slices.ContainsFunc(workers, func(k *worker) bool { return k.lastAt.Load() < closed.UnixNano() })
			})
			close(stop)
			wg.Wait()
			if n := <-cut; name == "on command" && n > 0 {
				t.Errorf("a connection was closed %d times during a command although the old master was up", n)
			}
			w.report(t, workers, start, switched, closed)
		})
	}
}

// startWorkers starts ten workers, and returns when each has written 100 values.
func startWorkers(t *testing.T, addr string, stop <-chan struct{}) (workers []*worker, wg *sync.WaitGroup) {
	t.Helper()
	wg = &sync.WaitGroup{}
	for i := range 10 {
		k := &worker{addr: addr, name: fmt.Sprintf("worker-%d", i)}
		workers = append(workers, k)
		wg.Go(func() { k.run(stop) })
	}
	lab.WaitFor(t, "work", lab.Patience, func() bool {
		return !slices.ContainsFunc(workers, func(k *worker) bool { return k.written.Load() < 100 })
	})
	return workers, wg
}

// clientsOfAllKinds connects clients in states in which they would wait for ever, and returns a
// function for each that reports whether its connection was closed.
func (w *watched) clientsOfAllKinds(t *testing.T) (closed []func() bool) {
	for _, send := range []string{
		lab.Encode("PING"), lab.Encode("SUBSCRIBE", "news"), lab.Encode("BLPOP", "nothing", "0"),
		lab.Encode("MULTI") + lab.Encode("SET", "a", "1"),
		lab.Encode("MONITOR"), lab.Encode("LOCK", "held", "60s", "SESSION") + lab.Encode("PING"),
		lab.Encode("PSUBSCRIBE", "*") + lab.Encode("LOCK", "x", "1s"),
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
				t.Errorf("%s on the new master: EXISTS: got %q, want 1", k.name, got)
			}
		}
		written, lost, slowest = written+int(k.written.Load()), lost+k.lost, max(slowest, k.slowest)
	}
	t.Logf("%d writes, %d connections lost, no write for %v at most; the Sentinels switched after %v, all other clients were closed %v later",
		written, lost, slowest.Round(time.Millisecond), switched.Sub(start).Round(time.Millisecond),
		closed.Sub(switched).Round(time.Millisecond))
}
