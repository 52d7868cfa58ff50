package attacks

import (
	"crypto/rand"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestMaxClientsAsRedisSaysIt: too many connections are refused in Redis' words, and there is room
// again when some have left.
func TestMaxClientsAsRedisSaysIt(t *testing.T) {
	t.Parallel()
	c, direct := lab.StartCluster(t, 1, "--max-clients", "20"), lab.StartRedis(t, "--maxclients", "20")
	said := map[string]string{}
	for name, addr := range map[string]string{"proxy": c.Addr, "redis": direct.Addr} {
		var all []*lab.Client
		for range 19 {
			host := lab.Dial(t, addr)
			host.WantDo("+PONG\r\n", "PING")
			all = append(all, host)
		}
		lab.WaitFor(t, "refusal by "+name, lab.Patience, func() bool {
			host := lab.Dial(t, addr)
			all = append(all, host)
			text, closed, _ := host.Rest(100 * time.Millisecond)
			said[name] = text
			return closed
		})
		for _, host := range all {
			host.Close()
		}
		lab.WaitFor(t, "room again at "+name, lab.Patience, func() bool {
			host, err := lab.Connect(addr)
			if err != nil {
				return false
			}
			defer host.Close()
			reply, _ := host.Ask("PING")
			return reply == "+PONG\r\n"
		})
	}
	if said["proxy"] != said["redis"] || said["proxy"] == "" {
		t.Errorf("the proxy says %q, Redis %q", said["proxy"], said["redis"])
	}
}

// TestSlowClientsAreClosed: clients that take no reply or finish no request are closed, and no
// others.
func TestSlowClientsAreClosed(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t, "--slow-client-timeout", "2s")
	login := func() *lab.Client {
		host := lab.Dial(t, c.Addr)
		host.WantDo("+OK\r\n", "AUTH", "secret")
		return host
	}
	desk := login()
	held := desk.Lock("held", "60s")
	desk.WantDo("+OK\r\n", "SET", "big", strings.Repeat("x", 1<<20))

	idle, mute, subscriber, blocked, waiter := login(), lab.Dial(t, c.Addr), login(), login(), login()
	subscriber.WantDo("*3\r\n"+lab.Bulk("subscribe")+lab.Bulk("news")+":1\r\n", "SUBSCRIBE", "news")
	blocked.Send(lab.Encode("BLPOP", "queue", "0"))
	waiter.Send(lab.Encode("LOCK", "held", "60s", "WAIT", "60s"))

	drip, value, own, deaf, deafTx, hello := lab.Dial(t, c.Addr), login(), login(), login(), login(), lab.Dial(t, c.Addr)
	hello.Send("\x16\x03\x01\x00\xf8\x01\x00\x00") // a TLS client on a plain port
	value.Send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100\r\nx")
	own.Send("*3\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$3\r\n6")
	deaf.Send(strings.Repeat(lab.Encode("GET", "big"), 30))
	go deafTx.Put(strings.Repeat(lab.Encode("MULTI")+lab.Encode("GET", "big")+lab.Encode("EXEC"), 30) + lab.Encode("LOCK", "deaf", "60s"))
	for range 40 { // a byte now and then
		if drip.Put("P") != nil {
			break
		}
		lab.Pass(t, 100*time.Millisecond)
	}
	for name, host := range map[string]*lab.Client{"one byte now and then": drip, "a value never sent": value, "a LOCK never ended": own, "TLS": hello} {
		if text, closed, _ := host.Rest(lab.Patience); !closed || text != "" {
			t.Errorf("%s: closed %v, got %.60q", name, closed, text)
		}
	}
	count := func(text string) int { return strings.Count(c.Log.String(), text) } // a line may come later than the end of its connection
	lab.WaitFor(t, "clients gone that read nothing", lab.Patience, func() bool { return count("takes nothing") == 2 })
	lab.WaitFor(t, "six slow clients in the log", lab.Patience, func() bool { return count("slow client disconnected") >= 6 })
	idle.WantDo("+PONG\r\n", "PING")
	mute.WantDo(lab.NoAuth, "PING")
	desk.WantDo(":1\r\n", "PUBLISH", "news", "x")
	subscriber.Want("*3\r\n" + lab.Bulk("message") + lab.Bulk("news") + lab.Bulk("x"))
	desk.WantDo(":1\r\n", "RPUSH", "queue", "y")
	blocked.Want("*2\r\n" + lab.Bulk("queue") + lab.Bulk("y"))
	desk.Unlock("held", held)
	if token := lab.TokenOf(waiter.Frame()); token == "" {
		t.Error("the waiter was not served")
	}
	if n := count("slow client disconnected"); n != 6 {
		t.Errorf("%d clients were disconnected, want 6", n)
	}
}

// TestSlowReadersAreSmall: 50 clients that do not read their large replies cost the proxy little
// memory, and do not slow the others.
func TestSlowReadersAreSmall(t *testing.T) {
	c := lab.StartCluster(t, 3, "--master-timeout", "2s") // the masters share the processor with all this
	desk := lab.Dial(t, c.Addr)
	desk.Timeout = 2 * time.Minute // the upstream has gigabytes of replies to make
	desk.WantDo("+OK\r\n", "SET", "big", strings.Repeat("x", 1<<20))
	desk.Unlock("job", desk.Lock("job", "60s"))
	before := c.Memory(t, "VmRSS")
	const readers = 50
	var all []*lab.Client
	pending := lab.Long(5, 100)
	for i := range readers {
		host := lab.Dial(t, c.Addr)
		switch i % 3 {
		case 0:
			host.Send(strings.Repeat(lab.Encode("GET", "big"), pending))
		case 1:
			host.Send(strings.Repeat(lab.Encode("MULTI")+lab.Encode("GET", "big")+lab.Encode("EXEC"), pending) + strings.Repeat(lab.Encode("MULTI")+lab.Encode("EXEC"), 20_000))
		case 2:
			host.Send(strings.Repeat(lab.Encode("GET", "big"), pending) + lab.Encode("LOCK", fmt.Sprint("slow-", i), "60s") + strings.Repeat(lab.Encode("AUTH", rand.Text(), "x"), 200))
		}
		all = append(all, host)
	}
	direct := lab.Dial(t, c.Upstream.Addr) // what Redis itself makes others wait, while it makes its replies, is not the proxy's doing
	direct.Timeout = desk.Timeout
	var slowest, slowestLock, slowestDirect time.Duration
	for i := range 200 {
		start := time.Now()
		key := fmt.Sprint("job-", i)
		desk.Unlock(key, desk.Lock(key, "60s"))
		slowestLock = max(slowestLock, time.Since(start))
		asked := time.Now()
		past := make(chan time.Duration, 1) // its own clock: read here it could not be faster than the other
		go func() {
			if reply, err := direct.Ask("PING"); reply != "+PONG\r\n" {
				t.Errorf("PING past the proxy: %q, %v", reply, err)
			}
			past <- time.Since(asked)
		}()
		desk.WantDo("+PONG\r\n", "PING")
		slowest = max(slowest, time.Since(asked))
		slowestDirect = max(slowestDirect, <-past)
	}
	after := c.Memory(t, "VmRSS")
	t.Logf("%d MB with %d slow readers, %d MB without: %.2f MB each; of 200 turns of others the slowest LOCK and UNLOCK took %v, PING %v, PING beside it past the proxy %v",
		after, readers, before, float64(after-before)/readers, slowestLock, slowest, slowestDirect)
	if each := (after - before) / readers; each >= 4 {
		t.Errorf("%d MB for each slow reader, want under 4", each)
	}
	for i, host := range all { // and they lose no reply either
		host.Timeout = 2 * time.Minute
		for j := range pending {
			if i%3 == 1 {
				host.Want("+OK\r\n+QUEUED\r\n*1\r\n")
			}
			if got := host.Frame(); len(got) != 1<<20+12 {
				t.Fatalf("client %d, reply %d: %d bytes, %.40q", i, j, len(got), got)
			}
		}
		switch i % 3 {
		case 1:
			host.Want(strings.Repeat("+OK\r\n*0\r\n", 20_000))
			host.Unlock(fmt.Sprint("tx-", i), host.Lock(fmt.Sprint("tx-", i), "60s"))
		case 2:
			token := lab.TokenOf(host.Frame())
			for range 200 {
				if got := host.Frame(); !strings.HasPrefix(got, "-WRONGPASS") {
					t.Fatalf("client %d: %.100q", i, got)
				}
			}
			host.Unlock(fmt.Sprint("slow-", i), token)
		}
		host.Close()
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestIdleConnectionsAreSmall: a connection that was used and is idle costs little. If the limit
// on open files leaves no room for as many connections to the upstream, the last ones have used
// lock commands only, which need none.
func TestIdleConnectionsAreSmall(t *testing.T) {
	n := lab.Long(1000, 10_000)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	talkers := min(n, int(min(files.Cur, 1<<20))-n-100)
	c := lab.StartCluster(t, 3, "--max-clients", fmt.Sprint(n+100))
	c.Upstream.Do(t, "CONFIG", "SET", "maxclients", fmt.Sprint(n+100))
	desk := lab.Dial(t, c.Addr)
	desk.Unlock("job", desk.Lock("job", "60s"))
	before := c.Memory(t, "VmRSS")
	all := make([]*lab.Client, n)
	for i := range all {
		all[i] = lab.Dial(t, c.Addr)
		all[i].Reader.Reset(strings.NewReader("")) // its buffer is the test's memory, not the proxy's
		if i < talkers {
			all[i].Send(lab.Encode("PING"))
		} else {
			all[i].Send(lab.Encode("LOCKINFO", "free"))
		}
	}
	for i, host := range all {
		var one [7]byte
		host.SetReadDeadline(time.Now().Add(lab.Patience))
		if n, err := host.TCPConn.Read(one[:]); string(one[:n]) != "+PONG\r\n" && (i < talkers || string(one[:n]) != lab.Null2) {
			t.Fatalf("connection %d: %q, %v", i, one[:n], err)
		}
	}
	after := c.Memory(t, "VmRSS")
	each := float64(after-before) * 1024 / float64(n)
	t.Logf("%d idle connections, %d of them also to the upstream: %d MB, %.1f KB each", n, talkers, after-before, each)
	if got := desk.Counter("connected_clients"); got != n+1 {
		t.Errorf("the proxy counts %d clients, want %d", got, n+1)
	}
	if bound := 64 * map[bool]float64{false: 1, true: 3}[lab.Race]; each >= bound {
		t.Errorf("%.1f KB for each idle connection, want under %.0f", each, bound)
	}
	desk.Unlock("job", desk.Lock("job", "60s"))
}
