package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The upstream refuses, dies and restarts; a real replica and redis-cli --pipe work through the
// proxy.

// While the upstream is down each command gets an error, and the next one dials again.
func TestUpstreamDownGivesErrorsAndRedials(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	c.Upstream.Kill()
	refused := "-ERR upstream " + c.Upstream.Addr + ": connection refused\r\n"
	for range 3 {
		host.WantDo(refused, "SET", "a", "1")
	}
	host.Send(lab.Encode("GET", "a") + lab.Encode("GET", "b"))
	host.Want(refused + refused)
	host.Unlock("job", host.Lock("job", "60s")) // locks need no upstream; its last answer about AUTH counts
	host.Send("PING\r\n")
	host.Want(refused)
	c.Upstream.RestartEmpty(t)
	host.WantDo("+OK\r\n", "SET", "a", "1")
	host.WantDo(lab.Bulk("1"), "GET", "a")
	host3 := lab.Dial3(t, c.Addr)
	host3.WantDo(lab.Bulk("1"), "GET", "a")
}

// A proxy that starts while the upstream is away asks the masters whether the upstream wants a
// password: one master suffices for yes, a majority is needed for no.
func TestMastersRememberWhetherUpstreamWantsPassword(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	kept := func(value string, n int) {
		t.Helper()
		lab.WaitFor(t, value+" kept", lab.Patience, func() bool {
			found := 0
			for _, m := range c.Masters {
				if strings.Contains(m.Do(t, "HVALS", "lockproxy:upstream:lock:"), value) {
					found++
				}
			}
			return found == n
		})
	}
	const notSaid = "-NOAUTH the upstream has not said yet whether it wants a password: connection refused\r\n"
	// answered waits until a new proxy has connected to its masters, and returns the reply to
	// LOCK.
	answered := func(p *lab.Proxy) (reply string) {
		host := lab.Dial(t, p.Addr)
		lab.WaitFor(t, "an answer", lab.Patience, func() bool {
			reply = host.Do("LOCK", "job", "100ms")
			return reply != notSaid && !strings.HasPrefix(reply, "-NOQUORUM")
		})
		return reply
	}
	kept("none", 3)
	c.Upstream.Kill()
	c.Restart(t)
	if got := answered(c.Proxy); lab.TokenOf(got) == "" {
		t.Errorf("LOCK, while the upstream never wanted a password: got %q, want a token", got)
	}
	if text := lab.FinishTool(t, 0, "status", "--addr", c.Addr); !strings.Contains(text, "connection refused") {
		t.Errorf("status does not say that the upstream refuses connections:\n%s", text)
	}
	lab.FinishTool(t, 0, "run", "--addr", c.Addr, "--key", "a", "--", "true")

	// The upstream restarts with a password; a running proxy enforces it at once.
	c.Upstream.RestartEmpty(t)
	c.Upstream.Do(t, "CONFIG", "SET", "requirepass", "secret")
	lab.WaitFor(t, "LOCK refused", lab.Patience, func() bool {
		return lab.Dial(t, c.Addr).Do("LOCK", "job", "20ms") == noAuth
	})
	kept("password", 3)
	c.Upstream.Kill()
	c.Masters[0].Do(t, "DEL", "lockproxy:upstream:lock:")
	c.Restart(t)
	if got := answered(c.Proxy); got != noAuth {
		t.Errorf("LOCK, while the upstream wants a password: got %q, want NOAUTH", got)
	}
	for _, m := range c.Masters {
		m.Do(t, "DEL", "lockproxy:upstream:lock:")
	}
	c.Restart(t)
	host := lab.Dial(t, c.Addr)
	for range 5 {
		host.WantDo(notSaid, "LOCK", "job", "100ms")
	}
}

// The proxy closes a client's connection when its upstream connection ends, because its state is
// lost.
func TestUpstreamDeathClosesConnections(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	idle, locked, blocked, subscribed := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr), lab.Dial(t, c.Addr),
		lab.Dial(t, c.Addr)
	idle.WantDo("+PONG\r\n", "PING")
	locked.WantDo("+PONG\r\n", "PING")
	token := locked.Lock("job", "60s")
	blocked.Send(lab.Encode("BLPOP", "queue", "0"))
	subscribed.WantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	lab.WaitFor(t, "blocked client", lab.Patience, func() bool {
		return c.Upstream.Info(t, "clients", "blocked_clients") == "1"
	})
	c.Upstream.RestartEmpty(t)
	for _, host := range []*lab.Client{idle, locked, blocked, subscribed} {
		host.WantClosed()
	}
	lab.Dial(t, c.Addr).Unlock("job", token)
}

// CLIENT KILL at the upstream, and any other close there, ends the client's connection.
func TestUpstreamKillClosesClient(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "CLIENT", "SETNAME", "victim")
	if got := c.Upstream.Do(t, "CLIENT", "KILL", "TYPE", "normal"); !strings.HasPrefix(got, ":") {
		t.Fatal(got)
	}
	host.WantClosed()
}

// A real replica syncs through the proxy: PSYNC, the RDB file, the stream of commands, REPLCONF
// ACK.
func TestReplicaSyncsThroughProxy(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	trap := lab.Encode("LOCK", "trap", "60s") + "$57\r\n"
	for i := range 1000 {
		host.Send(lab.Encode("SET", fmt.Sprintf("key-%d", i), strings.Repeat(trap, 1+i%40)))
	}
	for range 1000 {
		host.Want("+OK\r\n")
	}
	_, port, _ := strings.Cut(c.Addr, ":")
	replica := lab.StartRedis(t, "--replicaof", "127.0.0.1", port)
	lab.WaitFor(t, "replica in sync", 3*lab.Patience, func() bool {
		return replica.Info(t, "replication", "master_link_status") == "up"
	})
	for i := range 1000 {
		host.Send(lab.Encode("SET", fmt.Sprintf("later-%d", i), strings.Repeat(trap, 1+i%40)))
	}
	for range 1000 {
		host.Want("+OK\r\n")
	}
	host.WantDo(":1\r\n", "WAIT", "1", "10000")
	for _, key := range []string{"key-0", "key-999", "later-0", "later-999"} {
		if got := replica.Do(t, "GET", key); got != c.Upstream.Do(t, "GET", key) || len(got) < len(trap) {
			t.Errorf("%s on the replica: got %.80q", key, got)
		}
	}
	if size, want := replica.Do(t, "DBSIZE"), c.Upstream.Do(t, "DBSIZE"); size != want {
		t.Errorf("got %q keys on the replica, want %q", size, want)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)

	// PSYNC turns a client's connection into a tunnel: LOCK has no meaning in it.
	tunnel := lab.Dial(t, c.Addr)
	tunnel.Send(lab.Encode("PSYNC", "?", "-1") + lab.Encode("LOCK", "tunnel", "60s"))
	if got, _, _ := tunnel.Rest(500 * time.Millisecond); !strings.HasPrefix(got, "+FULLRESYNC ") ||
		strings.Contains(got, "$57\r\n0") {
		t.Errorf("PSYNC and LOCK: got %.200q", got)
	}
	tunnel.Close()
	lab.WantNoStray(t, c.Masters, c.Proxy)
}
