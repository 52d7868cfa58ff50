package integration

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// long returns the size of a test for the short run, or for the long one that INTEGRATION_LONG asks for.
func long[T any](short, long T) T {
	if os.Getenv("INTEGRATION_LONG") != "" {
		return long
	}
	return short
}

// TestMaxClientsAsRedisSaysIt: too many connections are refused in Redis' words, and there is room again when some have left.
func TestMaxClientsAsRedisSaysIt(t *testing.T) {
	t.Parallel()
	c, direct := startCluster(t, 1, "--max-clients", "20"), startRedis(t, "--maxclients", "20")
	said := map[string]string{}
	for name, addr := range map[string]string{"proxy": c.addr, "redis": direct.addr} {
		var all []*client
		for range 19 {
			host := dial(t, addr)
			host.wantDo("+PONG\r\n", "PING")
			all = append(all, host)
		}
		waitFor(t, "refusal by "+name, patience, func() bool {
			host := dial(t, addr)
			all = append(all, host)
			text, closed, _ := host.rest(100 * time.Millisecond)
			said[name] = text
			return closed
		})
		for _, host := range all {
			host.Close()
		}
		waitFor(t, "room again at "+name, patience, func() bool {
			host, err := connect(addr)
			if err != nil {
				return false
			}
			defer host.Close()
			reply, _ := host.do("PING")
			return reply == "+PONG\r\n"
		})
	}
	if said["proxy"] != said["redis"] || said["proxy"] == "" {
		t.Errorf("the proxy says %q, Redis %q", said["proxy"], said["redis"])
	}
}

// TestSlowClientsAreClosed: those that take nothing or finish nothing, within the time and a little more; and nobody else.
func TestSlowClientsAreClosed(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	c := protectedCluster(t, "--slow-client-timeout", "2s")
	login := func() *client {
		host := dial(t, c.addr)
		host.wantDo("+OK\r\n", "AUTH", "secret")
		return host
	}
	desk := login()
	held := desk.lock("held", "60s")
	desk.wantDo("+OK\r\n", "SET", "big", strings.Repeat("x", 1<<20))

	idle, mute, subscriber, blocked, waiter := login(), dial(t, c.addr), login(), login(), login()
	subscriber.wantDo("*3\r\n"+bulk("subscribe")+bulk("news")+":1\r\n", "SUBSCRIBE", "news")
	blocked.send(encode("BLPOP", "queue", "0"))
	waiter.send(encode("LOCK", "held", "60s", "WAIT", "60s"))

	drip, value, own, deaf, deafTx, hello := dial(t, c.addr), login(), login(), login(), login(), dial(t, c.addr)
	hello.send("\x16\x03\x01\x00\xf8\x01\x00\x00") // a TLS client on a plain port
	value.send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100\r\nx")
	own.send("*3\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$3\r\n6")
	deaf.send(strings.Repeat(encode("GET", "big"), 30))
	go deafTx.write(strings.Repeat(encode("MULTI")+encode("GET", "big")+encode("EXEC"), 30) + encode("LOCK", "deaf", "60s"))
	start := time.Now()
	for range 40 { // a byte now and then
		if drip.write("P") != nil {
			break
		}
		pauseBetween(t, 100*time.Millisecond)
	}
	for name, host := range map[string]*client{"one byte now and then": drip, "a value never sent": value, "a LOCK never ended": own, "TLS": hello} {
		if text, closed, _ := host.rest(patience); !closed || text != "" {
			t.Errorf("%s: closed %v, got %.60q", name, closed, text)
		}
	}
	if took := time.Since(start); took > 3*limit*slack {
		t.Errorf("the slow ones lived for %v, want little more than %v", took, limit)
	}
	waitFor(t, "clients gone that read nothing", patience, func() bool { return strings.Count(c.log.String(), "takes nothing") == 2 })
	if n := strings.Count(c.log.String(), "slow client disconnected"); n != 6 {
		t.Errorf("%d clients were disconnected, want 6", n)
	}
	idle.wantDo("+PONG\r\n", "PING")
	mute.wantDo(noAuth, "PING")
	desk.wantDo(":1\r\n", "PUBLISH", "news", "x")
	subscriber.want("*3\r\n" + bulk("message") + bulk("news") + bulk("x"))
	desk.wantDo(":1\r\n", "RPUSH", "queue", "y")
	blocked.want("*2\r\n" + bulk("queue") + bulk("y"))
	desk.unlock("held", held)
	if token := tokenOf(waiter.frame()); token == "" {
		t.Error("the waiter was not served")
	}
}

// TestSlowReadersAreSmall: 50 clients that read nothing, with much to read each, cost the proxy little, and the others nothing.
func TestSlowReadersAreSmall(t *testing.T) {
	c := startCluster(t, 3, "--master-timeout", "2s") // the masters share the processor with all this
	desk := dial(t, c.addr)
	desk.timeout = 2 * time.Minute // the upstream has gigabytes of replies to make
	desk.wantDo("+OK\r\n", "SET", "big", strings.Repeat("x", 1<<20))
	desk.unlock("job", desk.lock("job", "60s"))
	before := c.memory(t, "VmRSS")
	const readers = 50
	var all []*client
	pending := long(5, 100)
	for i := range readers {
		host := dial(t, c.addr)
		switch i % 3 {
		case 0:
			host.send(strings.Repeat(encode("GET", "big"), pending))
		case 1:
			host.send(strings.Repeat(encode("MULTI")+encode("GET", "big")+encode("EXEC"), pending) + strings.Repeat(encode("MULTI")+encode("EXEC"), 20_000))
		case 2:
			host.send(strings.Repeat(encode("GET", "big"), pending) + encode("LOCK", fmt.Sprint("slow-", i), "60s") + strings.Repeat(encode("AUTH", rand.Text(), "x"), 200))
		}
		all = append(all, host)
	}
	var slowest time.Duration
	for i := range 200 {
		start := time.Now()
		key := fmt.Sprint("job-", i)
		desk.unlock(key, desk.lock(key, "60s"))
		desk.wantDo("+PONG\r\n", "PING")
		slowest = max(slowest, time.Since(start))
	}
	after := c.memory(t, "VmRSS")
	t.Logf("%d MB with %d slow readers, %d MB without: %.2f MB each; the slowest of 200 turns of others took %v", after, readers, before, float64(after-before)/readers, slowest)
	if each := (after - before) / readers; each >= 4 {
		t.Errorf("%d MB for each slow reader, want under 4", each)
	}
	for i, host := range all { // and nothing is lost for them either
		host.timeout = 2 * time.Minute
		for j := range pending {
			if i%3 == 1 {
				host.want("+OK\r\n+QUEUED\r\n*1\r\n")
			}
			if got := host.frame(); len(got) != 1<<20+12 {
				t.Fatalf("client %d, reply %d: %d bytes, %.40q", i, j, len(got), got)
			}
		}
		switch i % 3 {
		case 1:
			host.want(strings.Repeat("+OK\r\n*0\r\n", 20_000))
			host.unlock(fmt.Sprint("tx-", i), host.lock(fmt.Sprint("tx-", i), "60s"))
		case 2:
			token := tokenOf(host.frame())
			for range 200 {
				if got := host.frame(); !strings.HasPrefix(got, "-WRONGPASS") {
					t.Fatalf("client %d: %.100q", i, got)
				}
			}
			host.unlock(fmt.Sprint("slow-", i), token)
		}
		host.Close()
	}
	wantNoStray(t, c.masters, c.proxy)
}

// TestIdleConnectionsAreSmall: what a connection costs that has been used and rests.
func TestIdleConnectionsAreSmall(t *testing.T) {
	n := long(1000, 9_000)
	c := startCluster(t, 3, "--max-clients", fmt.Sprint(n+100))
	c.upstream.do(t, "CONFIG", "SET", "maxclients", fmt.Sprint(n+100))
	desk := dial(t, c.addr)
	desk.unlock("job", desk.lock("job", "60s"))
	before := c.memory(t, "VmRSS")
	all := make([]*client, n)
	for i := range all {
		all[i] = dial(t, c.addr)
		all[i].br.Reset(strings.NewReader("")) // its buffer is the test's memory, not the proxy's
		all[i].send(encode("PING"))
	}
	for i, host := range all {
		var one [7]byte
		host.SetReadDeadline(time.Now().Add(patience))
		if n, err := host.TCPConn.Read(one[:]); string(one[:n]) != "+PONG\r\n" {
			t.Fatalf("connection %d: %q, %v", i, one[:n], err)
		}
	}
	after := c.memory(t, "VmRSS")
	each := float64(after-before) * 1024 / float64(n)
	t.Logf("%d idle connections: %d MB, %.1f KB each", n, after-before, each)
	if bound := 64 * map[bool]float64{false: 1, true: 3}[raceEnabled]; each >= bound {
		t.Errorf("%.1f KB for each idle connection, want under %.0f", each, bound)
	}
	desk.unlock("job", desk.lock("job", "60s"))
}
