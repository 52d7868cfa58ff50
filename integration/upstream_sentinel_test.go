package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A real Sentinel set-up: a master, a replica, three Sentinels, and failovers of every kind under load.

// watched is such a set-up with a lockproxy before it.
type watched struct {
	*proxy
	master, replica *redisServer
	sentinels       []*redisServer
}

// startWatched starts everything. auth protects the servers and the Sentinels by passwords, which lockproxy has from files.
func startWatched(t *testing.T, auth bool) *watched {
	t.Helper()
	var secured, login []string
	dir := t.TempDir()
	if auth {
		secured = []string{"--requirepass", "server-pw", "--masterauth", "server-pw"}
		login = []string{"--upstream-password-file", secretFile(t, dir, "server-pw"), "--sentinel-user", "asker", "--sentinel-password-file",
			secretFile(t, dir, "sentinel-pw")}
	}
	w := &watched{master: startRedis(t, slices.Concat(secured, []string{"--repl-diskless-sync-delay", "0"})...)}
	_, port, _ := strings.Cut(w.master.addr, ":")
	w.replica = startRedis(t, slices.Concat(secured, []string{"--replicaof", "127.0.0.1", port})...)
	waitFor(t, "the replica", 2*patience, func() bool { // or the Sentinels notice it no sooner than ten seconds later
		c, err := connect(w.replica.addr)
		if err != nil {
			return false
		}
		defer c.Close()
		_, _ = c.do("AUTH", "server-pw")
		reply, err := c.do("INFO", "replication")
		return err == nil && strings.Contains(reply, "master_link_status:up")
	})
	for range 3 {
		w.sentinels = append(w.sentinels, startSentinel(t, w.master.addr, auth))
	}
	waitFor(t, "the Sentinels know each other and the replica", 3*patience, func() bool {
		for _, s := range w.sentinels {
			if s.field("num-slaves") != "1" || s.field("num-other-sentinels") != "2" || s.field("flags") != "master" {
				return false
			}
		}
		return true
	})
	servers := startMasters(t, 3)
	w.proxy = startProxy(t, append([]string{"--upstream", "redis+sentinel://" + strings.Join(addrs(w.sentinels), ",") + "/mymaster",
		"--masters", strings.Join(addrs(servers), ","), "--restart-guard", "off"}, login...)...)
	w.waitVoting(t)
	return w
}

// secretFile writes a secret to a file, as people do: with an end of line.
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
func startSentinel(t *testing.T, master string, auth bool) *redisServer {
	t.Helper()
	path := tool(t, "redis-server")
	for range 20 {
		s := &redisServer{addr: freeAddr(t), path: path}
		host, port, _ := strings.Cut(s.addr, ":")
		masterHost, masterPort, _ := strings.Cut(master, ":")
		dir, err := os.MkdirTemp(scratch, "sentinel-")
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("bind %s\nport %s\ndir %s\nsentinel monitor mymaster %s %s 2\nsentinel down-after-milliseconds mymaster 500\n"+
			"sentinel failover-timeout mymaster 5000\n", host, port, dir, masterHost, masterPort)
		if auth {
			text += "sentinel auth-pass mymaster server-pw\nuser asker on >sentinel-pw resetchannels &+switch-master -@all +sentinel|master " +
				"+subscribe +unsubscribe +ping +hello\n"
		}
		config := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.process = launch(t, "sentinel "+s.addr, path, config, "--sentinel")
		up := func() bool { reply, err := s.ask("PING"); return err == nil && reply == "+PONG\r\n" }
		if poll(patience, func() bool { return !s.running() || up() }) && s.running() {
			return s
		}
	}
	t.Fatal("no port found for a Sentinel")
	return nil
}

// field is one of SENTINEL MASTER, or "".
func (s *redisServer) field(name string) string {
	reply, err := s.ask("SENTINEL", "MASTER", "mymaster")
	if err != nil {
		return ""
	}
	all := fields(reply)
	for i := 0; i+1 < len(all); i += 2 {
		if all[i] == name {
			return all[i+1]
		}
	}
	return ""
}

// worker is a client that writes and reads values nobody else has, and connects anew when its connection ends.
type worker struct {
	addr, name string
	lost       int // connections that ended
	slowest    time.Duration
	wrong      []string
	written    atomic.Int64
	lastAt     atomic.Int64 // of the last acknowledged write, in ns
}

func (k *worker) run(stop <-chan struct{}) {
	var c *conn
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
			if c, err = connect(k.addr); err != nil {
				k.wrong = append(k.wrong, err.Error())
				return
			}
			c.timeout = 20 * time.Second
		}
		value := fmt.Sprintf("%s-%d", k.name, n)
		err := c.write(encode("SET", k.name, value) + encode("GET", k.name) + encode("ECHO", value))
		replies := make([]string, 3)
		for i := range replies {
			if err == nil {
				replies[i], err = c.read()
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
		if replies[0] != "+OK\r\n" || replies[1] != bulk(value) || replies[2] != bulk(value) {
			k.wrong = append(k.wrong, fmt.Sprintf("%s: %q", value, replies))
		}
		k.written.Add(1)
		k.slowest = max(k.slowest, time.Since(last))
		last = time.Now()
		k.lastAt.Store(last.UnixNano())
	}
}

// poller waits for what never comes, half a second at a time, and counts how often its connection is closed in the midst of that.
func poller(addr string, stop <-chan struct{}) (cut int) {
	for {
		c, err := connect(addr)
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
			if _, err = c.do("BLPOP", "never", "0.5"); err != nil && time.Since(start) > 100*time.Millisecond {
				cut++
			}
		}
		c.Close()
	}
}

// TestSentinelFailover: writes resume at the new master without a restart of the proxy, however the old one ends, and no client gets a
// reply that is not its own.
func TestSentinelFailover(t *testing.T) {
	for name, c := range map[string]struct {
		auth bool
		fail func(t *testing.T, w *watched)
	}{
		"on command": {false, func(t *testing.T, w *watched) {
			waitFor(t, "SENTINEL FAILOVER", patience, func() bool {
				reply, _ := w.sentinels[0].ask("SENTINEL", "FAILOVER", "mymaster")
				return reply == "+OK\r\n"
			})
		}},
		"killed, with passwords": {true, func(_ *testing.T, w *watched) { w.master.kill() }},
		"silent":                 {false, func(t *testing.T, w *watched) { w.master.pause(t) }},
		"killed with a Sentinel": {false, func(_ *testing.T, w *watched) { w.master.kill(); w.sentinels[0].kill() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWatched(t, c.auth)
			ends := w.clientsOfAllKinds(t)
			var workers []*worker
			var wg sync.WaitGroup
			stop := make(chan struct{})
			for i := range 10 {
				k := &worker{addr: w.addr, name: fmt.Sprintf("worker-%d", i)}
				workers = append(workers, k)
				wg.Go(func() { k.run(stop) })
			}
			cut := make(chan int, 1)
			go func() { cut <- poller(w.addr, stop) }()
			ready := func(since time.Time) bool {
				for _, k := range workers {
					if k.lastAt.Load() < since.UnixNano() {
						return false
					}
				}
				return true
			}
			waitFor(t, "work", patience, func() bool {
				return !slices.ContainsFunc(workers, func(k *worker) bool { return k.written.Load() < 100 })
			})
			start := time.Now()
			c.fail(t, w)
			waitFor(t, "the Sentinels agree on the replica", 3*patience, func() bool {
				_, port, _ := strings.Cut(w.replica.addr, ":")
				return w.sentinels[1].field("port") == port && w.sentinels[2].field("port") == port
			})
			switched := time.Now()
			for i, end := range ends {
				if !poll(patience+10*time.Second, end) {
					t.Errorf("client %d is still connected to the old master", i)
				}
			}
			closed := time.Now()
			waitFor(t, "work again", 2*patience, func() bool { return ready(closed) })
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

// clientsOfAllKinds returns, for clients in states in which they would stay where they are, who tells whether each was closed.
func (w *watched) clientsOfAllKinds(t *testing.T) (closed []func() bool) {
	for _, send := range []string{
		encode("PING"), encode("SUBSCRIBE", "news"), encode("BLPOP", "nothing", "0"), encode("MULTI") + encode("SET", "a", "1"),
		encode("MONITOR"), encode("LOCK", "held", "60s", "SESSION") + encode("PING"), encode("PSUBSCRIBE", "*") + encode("LOCK", "x", "1s"),
	} {
		c := dial(t, w.addr)
		c.send(send)
		if !strings.Contains(send, "BLPOP") {
			c.frame()
		}
		var gone atomic.Bool
		go func() {
			for buf := make([]byte, 4096); ; {
				if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					return
				}
				if _, err := c.br.Read(buf); err != nil {
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
		if reply, err := w.replica.ask("PING"); err == nil && reply == "+PONG\r\n" { // no password
			if got := w.replica.do(t, "EXISTS", k.name); got != ":1\r\n" {
				t.Errorf("%s wrote nothing at the new master: %q", k.name, got)
			}
		}
		written, lost, slowest = written+int(k.written.Load()), lost+k.lost, max(slowest, k.slowest)
	}
	t.Logf("%d writes, %d connections lost, no write for %v at most; the Sentinels switched after %v, all other clients were closed %v later",
		written, lost, slowest.Round(time.Millisecond), switched.Sub(start).Round(time.Millisecond), closed.Sub(switched).Round(time.Millisecond))
}
