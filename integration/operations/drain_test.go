package operations

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// counting is a client that sends INCR as fast as it gets replies, a few at a time, until the
// connection ends.
type counting struct {
	key     string
	answers int
	total   *atomic.Int64 // of all clients
}

func (c *counting) run(addr string, pipelined int) {
	conn, err := lab.Connect(addr)
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		if conn.Put(strings.Repeat(lab.Encode("INCR", c.key), pipelined)) != nil {
			return // the turn before has read all replies
		}
		for range pipelined {
			reply, err := conn.Next()
			if err != nil || reply != fmt.Sprintf(":%d\r\n", c.answers+1) {
				return
			}
			c.answers++
			c.total.Add(1)
		}
	}
}

// At SIGTERM 100 clients send commands, 50 hold SESSION locks and 50 wait for these. No reply of
// Redis is lost, every waiter gets an answer, every session lock runs out with its holder
// informed, and the proxy ends in time.
func TestDrainLosesNothing(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--drain-timeout", "60s") // a timeout would lose replies
	const connections = 50
	var holders, waiters [connections]*lab.Client
	var tokens [connections]string
	for i := range holders {
		holders[i], waiters[i] = lab.Dial3(t, c.Addr), lab.Dial(t, c.Addr)
		tokens[i] = holders[i].LockSession(fmt.Sprint("held-", i), "60s")
		waiters[i].Send(lab.Encode("LOCK", fmt.Sprint("held-", i), "60s", "WAIT", "60s"))
	}
	desk := lab.Dial(t, c.Addr)
	for i := range waiters {
		lab.WaitFor(t, "a waiter in its queue", lab.Patience, func() bool {
			return strings.Contains(desk.Do("LOCKINFO", fmt.Sprint("held-", i)), "waiting\r\n:1\r\n")
		})
	}
	load := make([]*counting, 100)
	var wg sync.WaitGroup
	var total atomic.Int64
	for i := range load {
		load[i] = &counting{key: fmt.Sprint("count-", i), total: &total}
		wg.Go(func() { load[i].run(c.Addr, 1+i%3*10) })
	}
	lab.WaitFor(t, "1000 replies", 2*lab.Patience, func() bool { return total.Load() >= 1000 })

	c.Signal(syscall.SIGTERM)
	lab.WaitFor(t, "the end of the proxy", 2*lab.Patience, func() bool { return !c.Running() })
	if c.Err != nil {
		t.Errorf("the proxy ended with %v, want exit code 0", c.Err)
	}
	wg.Wait()
	sum := 0
	for _, client := range load {
		got := c.Upstream.Do(t, "GET", client.key)
		if client.answers == 0 && got == lab.Null2 {
			continue // it never got to send
		}
		if got != lab.Bulk(fmt.Sprint(client.answers)) {
			t.Errorf("%s: Redis counted %q, the client got %d replies", client.key, got, client.answers)
		}
		sum += client.answers
	}
	for i, holder := range holders {
		key := fmt.Sprint("held-", i)
		holder.Want(">4\r\n" + lab.Bulk("lock") + lab.Bulk("lost") + lab.Bulk(key) + lab.Bulk(tokens[i]))
		holder.WantClosed()
		waiters[i].Want("-TRYAGAIN the proxy is ending\r\n")
		waiters[i].WantClosed()
		if n := lab.Holders(t, c.Masters, key); n != 3 {
			t.Errorf("%s: got it on %d masters, want 3, because it runs out", key, n)
		}
	}
	t.Logf("%d replies, none lost", sum)
	if sum < 1000 {
		t.Errorf("got %d replies, want at least 1000", sum)
	}
}

// launchServing starts a proxy that the test ends uncleanly.
func launchServing(t *testing.T, flags ...string) (p *lab.Process, addr string) {
	t.Helper()
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	addr = lab.FreeAddr(t)
	p = lab.Launch(t, "lockproxy", path, append([]string{"--listen", addr, "--log-format", "json", "--restart-guard",
		"off"}, flags...)...)
	lab.WaitFor(t, "lockproxy ready", 2*lab.Patience, func() bool {
		return strings.Contains(p.Log.String(), `"msg":"ready"`)
	})
	return p, addr
}

// A client in the middle of a command delays the end for drain-timeout at most, and a second
// SIGTERM ends the proxy at once.
func TestDrainTimeoutEndsDrain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		timeout string
		signals int
		clean   bool
	}{"drain-timeout": {"1s", 1, true}, "second SIGTERM": {"60s", 2, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := lab.StartRedis(t)
			p, addr := launchServing(t, "--upstream", redis.Addr, "--drain-timeout", test.timeout)
			blocked := lab.Dial(t, addr)
			blocked.WantDo("+PONG\r\n", "PING")
			blocked.Send(lab.Encode("BLPOP", "nothing", "0"))
			lab.WaitFor(t, "a blocked client", lab.Patience, func() bool {
				return strings.Contains(redis.Do(t, "CLIENT", "LIST"), "cmd=blpop")
			})
			start := time.Now()
			for range test.signals {
				p.Signal(syscall.SIGTERM)
				lab.WaitFor(t, "the log line about the end", lab.Patience, func() bool {
					return strings.Contains(p.Log.String(), `"msg":"ending"`)
				})
				lab.WaitFor(t, "no new connections", lab.Patience, func() bool {
					conn, err := lab.Connect(addr)
					if err == nil {
						conn.Close()
					}
					return err != nil
				})
			}
			lab.WaitFor(t, "the end of the proxy", lab.Patience, func() bool { return !p.Running() })
			if took := time.Since(start); (p.Err == nil) != test.clean || test.clean && took < 800*time.Millisecond {
				t.Errorf("the proxy ended with %v after %v, want clean %v, and not before its drain-timeout", p.Err, took,
					test.clean)
			}
			blocked.WantClosed()
		})
	}
}

// retrier repeats a piece of work under a lock, through either of two proxies, until stop is
// closed.
type retrier struct {
	id    int
	addrs []string
	conn  *lab.Conn
	tries int
	done  []string // finished pieces of work
	total *atomic.Int64
	wrong string
}

func (w *retrier) run(stop <-chan struct{}) {
	for i := 0; ; i++ {
		item := fmt.Sprintf("%d-%d", w.id, i)
		for !w.try(item) {
			if w.wrong != "" {
				return
			}
		}
		w.done = append(w.done, item)
		w.total.Add(1)
		select {
		case <-stop:
			return
		default:
		}
	}
}

// try does one piece of work; false: it must start again, on a new connection.
func (w *retrier) try(item string) (ok bool) {
	defer func() {
		if !ok && w.conn != nil {
			w.conn.Close()
			w.conn = nil
		}
	}()
	if w.tries++; w.conn == nil {
		conn, err := lab.Connect(w.addrs[w.tries%2])
		if err != nil {
			return false
		}
		w.conn = conn
	}
	sent := time.Now()
	reply, err := w.conn.Ask("LOCK", "job", "3s", "WAIT", "2s")
	token := lab.TokenOf(reply)
	if err != nil || token == "" {
		return false
	}
	for _, step := range [][]string{{"+OK\r\n", "SET", "at-work", item}, {"", "SADD", "finished", item},
		{lab.Bulk(item), "GET", "at-work"}} {
		reply, err := w.conn.Ask(step[1:]...)
		if err != nil || strings.HasPrefix(reply, "-") {
			return false
		}
		if held := time.Since(sent) < 3*time.Second; held && step[0] != "" && reply != step[0] {
			w.wrong = fmt.Sprintf("%q: %q, want %q: another is at work", step[1:], reply, step[0])
			return false
		}
	}
	reply, err = w.conn.Ask("UNLOCK", "job", token)
	return err == nil && reply == ":1\r\n"
}

// Two proxies are restarted one by one, twice, under the load of clients that retry. No work is
// lost.
func TestRollingRestartLosesNoWork(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	other := c.Another(t)
	stop := make(chan struct{})
	workers := make([]*retrier, 12)
	var wg sync.WaitGroup
	var total atomic.Int64
	for i := range workers {
		workers[i] = &retrier{id: i, addrs: []string{c.Addr, other.Addr}, total: &total}
		wg.Go(func() { workers[i].run(stop) })
	}
	for range 2 {
		for _, p := range []*lab.Proxy{c.Proxy, other} {
			enough := total.Load() + 7
			lab.WaitFor(t, "seven pieces of work", 2*lab.Patience, func() bool { return total.Load() >= enough })
			p.Stop(t)
			p.Restart(t)
			p.WaitVoting(t)
		}
	}
	close(stop)
	wg.Wait()
	finished := map[string]bool{}
	for _, item := range lab.Fields(c.Upstream.Do(t, "SMEMBERS", "finished")) {
		finished[item] = true
	}
	done, tries := 0, 0
	for _, w := range workers {
		if w.wrong != "" {
			t.Error(w.wrong)
		}
		for _, item := range w.done {
			if !finished[item] {
				t.Errorf("%s was finished, but Redis does not have it", item)
			}
		}
		done, tries = done+len(w.done), tries+w.tries
	}
	t.Logf("%d pieces of work in %d tries, over 4 restarts", done, tries)
	if done < 25 {
		t.Errorf("got %d pieces of work, want at least 25", done)
	}
}

// A new process listens on the same port while the old one drains, if reuse-port is on.
// admin-listen shows the old process until it has ended, then the new one.
func TestReusePortHandsOverListener(t *testing.T) {
	t.Parallel()
	desk := lab.FreeAddr(t)
	// it ends when its last client is at rest
	c := lab.StartCluster(t, 3, "--reuse-port", "--admin-listen", desk, "--drain-timeout", "10m")
	ready := func() (text string) {
		resp, err := http.Get("http://" + desk + "/readyz")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	holder := lab.Dial(t, c.Addr)
	holder.WantDo("+OK\r\n", "MULTI") // keeps the old process
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	alone := lab.Launch(t, "lockproxy", path, "--upstream", c.Upstream.Addr, "--listen", c.Addr)
	lab.WantExit(t, alone, 1)
	next := lab.StartProxy(t, append(c.Flags, "--listen", c.Addr)...)
	c.Signal(syscall.SIGTERM)
	lab.WaitFor(t, "the old process ending", lab.Patience, func() bool {
		return strings.Contains(c.Log.String(), `"msg":"ending"`)
	})
	for range 50 {
		// the kernel resets connections that the old one had not accepted yet
		lab.WaitFor(t, "an answer at the port", lab.Patience, func() bool {
			conn, err := lab.Connect(c.Addr)
			if err != nil {
				return false
			}
			defer conn.Close()
			reply, _ := conn.Ask("PING")
			return reply == "+PONG\r\n"
		})
	}
	next.WaitVoting(t)
	const ending = "not ready\nthe proxy is ending\n"
	got := ""
	lab.Poll(lab.Patience, func() bool { // a busy proxy may name more reasons for a moment
		got = ready()
		return got == ending || got == "ready\n"
	})
	if got != ending {
		t.Errorf("readyz: got %q, want %q of the old process", got, ending)
	}
	holder.WantDo("*0\r\n", "EXEC")
	lab.WaitFor(t, "the end of the old process", lab.Patience, func() bool { return !c.Running() })
	lab.WaitFor(t, "the new process at admin-listen", lab.Patience, func() bool { return ready() == "ready\n" })
}
