package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The upstream refuses, dies, comes back; a real replica and redis-cli --pipe work through the proxy.

// TestUpstreamDown: a command for an upstream that is down gets an error, and the next one dials again.
func TestUpstreamDown(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host := dial(t, c.addr)
	c.upstream.kill()
	refused := "-ERR upstream " + c.upstream.addr + ": connection refused\r\n"
	for range 3 {
		host.wantDo(refused, "SET", "a", "1")
	}
	host.send(encode("GET", "a") + encode("GET", "b"))
	host.want(refused + refused)
	host.unlock("job", host.lock("job", "60s")) // locks need no upstream; the last known answer about AUTH holds
	host.send("PING\r\n")
	host.want(refused)
	c.upstream.restart(t)
	host.wantDo("+OK\r\n", "SET", "a", "1")
	host.wantDo(bulk("1"), "GET", "a")
	host3 := dial3(t, c.addr)
	host3.wantDo(bulk("1"), "GET", "a")
}

// TestUpstreamDies: a connection whose upstream connection ended is closed, since its state is gone.
func TestUpstreamDies(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	idle, locked, blocked, subscribed := dial(t, c.addr), dial(t, c.addr), dial(t, c.addr), dial(t, c.addr)
	idle.wantDo("+PONG\r\n", "PING")
	locked.wantDo("+PONG\r\n", "PING")
	token := locked.lock("job", "60s")
	blocked.send(encode("BLPOP", "queue", "0"))
	subscribed.wantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	waitFor(t, "blocked client", patience, func() bool { return c.upstream.info(t, "clients", "blocked_clients") == "1" })
	c.upstream.restart(t)
	for _, host := range []*client{idle, locked, blocked, subscribed} {
		host.wantClosed()
	}
	dial(t, c.addr).unlock("job", token)
}

// TestUpstreamKillsClient: CLIENT KILL at the upstream ends the client's connection, QUIT-like closes included.
func TestUpstreamKillsClient(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host := dial(t, c.addr)
	host.wantDo("+OK\r\n", "CLIENT", "SETNAME", "victim")
	if got := c.upstream.do(t, "CLIENT", "KILL", "TYPE", "normal"); !strings.HasPrefix(got, ":") {
		t.Fatal(got)
	}
	host.wantClosed()
}

// TestReplica attaches a real replica through the proxy: PSYNC, the RDB file, the stream of commands, REPLCONF ACK.
func TestReplica(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host := dial(t, c.addr)
	trap := encode("LOCK", "trap", "60s") + "$57\r\n"
	for i := range 1000 {
		host.send(encode("SET", fmt.Sprintf("key-%d", i), strings.Repeat(trap, 1+i%40)))
	}
	for range 1000 {
		host.want("+OK\r\n")
	}
	_, port, _ := strings.Cut(c.addr, ":")
	replica := startRedis(t, "--replicaof", "127.0.0.1", port)
	waitFor(t, "replica in sync", 3*patience, func() bool { return replica.info(t, "replication", "master_link_status") == "up" })
	for i := range 1000 {
		host.send(encode("SET", fmt.Sprintf("later-%d", i), strings.Repeat(trap, 1+i%40)))
	}
	for range 1000 {
		host.want("+OK\r\n")
	}
	host.wantDo(":1\r\n", "WAIT", "1", "10000")
	for _, key := range []string{"key-0", "key-999", "later-0", "later-999"} {
		if got := replica.do(t, "GET", key); got != c.upstream.do(t, "GET", key) || len(got) < len(trap) {
			t.Errorf("%s on the replica: %.80q", key, got)
		}
	}
	if size, want := replica.do(t, "DBSIZE"), c.upstream.do(t, "DBSIZE"); size != want {
		t.Errorf("the replica has %q keys, the upstream %q", size, want)
	}
	wantNoStray(t, c.masters, c.proxy)

	// A client that says PSYNC itself has a tunnel from there on: LOCK means nothing in it.
	tunnel := dial(t, c.addr)
	tunnel.send(encode("PSYNC", "?", "-1") + encode("LOCK", "tunnel", "60s"))
	if got, _, _ := tunnel.rest(500 * time.Millisecond); !strings.HasPrefix(got, "+FULLRESYNC ") || strings.Contains(got, "$57\r\n0") {
		t.Errorf("PSYNC and LOCK answered %.200q", got)
	}
	tunnel.Close()
	wantNoStray(t, c.masters, c.proxy)
}
