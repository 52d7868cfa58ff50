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

// TestMaxClientsRefusesInRedisWords: a proxy refuses more than max-clients connections in Redis'
// words, and accepts new ones once some have closed.
func TestMaxClientsRefusesInRedisWords(t *testing.T) {
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
		lab.WaitFor(t, "room for a new connection at "+name, lab.Patience, func() bool {
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
		t.Errorf("got %q from the proxy, want %q as from Redis", said["proxy"], said["redis"])
	}
}

// TestSlowClientsAreClosed: the proxy disconnects clients that take no reply or finish no request,
// and keeps clients that are idle, subscribed, blocked or waiting for a lock.
//
// All requests of the clients that must stay fit into one packet. So they finish at once however
// late the proxy gets a processor to read them.
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
	if got := lab.AskAs(t, c.Upstream, "secret", "SET", "big", strings.Repeat("x", 1<<20)); got != "+OK\r\n" {
		t.Fatalf("SET past the proxy: got %q, want +OK", got)
	}

	idle, mute, subscriber, blocked, waiter := login(), lab.Dial(t, c.Addr), login(), login(), login()
	subscriber.WantDo("*3\r\n"+lab.Bulk("subscribe")+lab.Bulk("news")+":1\r\n", "SUBSCRIBE", "news")
	blocked.Send(lab.Encode("BLPOP", "queue", "0"))
	waiter.Send(lab.Encode("LOCK", "held", "60s", "WAIT", "60s"))

	drip, value, own, deaf, deafTx, hello := lab.Dial(t, c.Addr), login(), login(), login(), login(), lab.Dial(t, c.Addr)
	hello.Send("\x16\x03\x01\x00\xf8\x01\x00\x00") // a TLS client on a plain port
	value.Send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100\r\nx")
	own.Send("*3\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$3\r\n6")
	deaf.Send(strings.Repeat(lab.Encode("GET", "big"), 30))
	go deafTx.Put(strings.Repeat(lab.Encode("MULTI")+lab.Encode("GET", "big")+lab.Encode("EXEC"), 30) +
		lab.Encode("LOCK", "deaf", "60s"))
	for range 40 { // a byte now and then
		if drip.Put("P") != nil {
			break
		}
		lab.Pass(t, 100*time.Millisecond)
	}
	for name, host := range map[string]*lab.Client{
		"one byte now and then": drip, "value without an end": value, "LOCK without an end": own, "TLS": hello,
	} {
		t.Run(name, func(t *testing.T) {
			if text, closed, _ := host.Rest(lab.Patience); !closed || text != "" {
				t.Errorf("got %.60q and closed %v, want no reply and the connection closed", text, closed)
			}
		})
	}
	count := func(text string) int { return strings.Count(c.Log.String(), text) } // the log may lag
	lab.WaitFor(t, "two clients that read nothing in the log", lab.Patience,
		func() bool { return count("takes nothing") == 2 })
	lab.WaitFor(t, "six slow clients in the log", lab.Patience,
		func() bool { return count("slow client disconnected") >= 6 })
	idle.WantDo("+PONG\r\n", "PING")
	mute.WantDo(lab.NoAuth, "PING")
	desk.WantDo(":1\r\n", "PUBLISH", "news", "x")
	subscriber.Want("*3\r\n" + lab.Bulk("message") + lab.Bulk("news") + lab.Bulk("x"))
	desk.WantDo(":1\r\n", "RPUSH", "queue", "y")
	blocked.Want("*2\r\n" + lab.Bulk("queue") + lab.Bulk("y"))
	desk.Unlock("held", held)
	if reply := waiter.Frame(); lab.TokenOf(reply) == "" {
		t.Errorf("LOCK of the waiter: got %q, want a token", reply)
	}
	if n := count("slow client disconnected"); n != 6 {
		t.Errorf("got %d clients disconnected, want 6", n)
	}
}

// TestSlowReadersCostLittleMemory: dozens of clients that do not read their large replies cost
// the proxy little memory. Meanwhile another client locks and unlocks. No reply is lost.
func TestSlowReadersCostLittleMemory(t *testing.T) {
	c := lab.StartCluster(t, 3, "--master-timeout", "2s") // the replies take processor time from the masters
	desk := lab.Dial(t, c.Addr)
	desk.Timeout = 2 * time.Minute // the upstream makes gigabytes of replies
	desk.WantDo("+OK\r\n", "SET", "big", strings.Repeat("x", 1<<20))
	desk.Unlock("job", desk.Lock("job", "60s"))
	before := c.Memory(t, "VmRSS")
	readers, pending := lab.Long(24, 50), lab.Long(8, 100) // replies of a megabyte each
	var all []*slowReader
	for i := range readers {
		all = append(all, startSlowReader(t, c.Addr, i, pending))
	}
	for i := range 200 {
		key := fmt.Sprint("job-", i)
		desk.Unlock(key, desk.Lock(key, "60s"))
		desk.WantDo("+PONG\r\n", "PING")
	}
	after := c.Memory(t, "VmRSS")
	each := (after - before) / readers
	t.Logf("%d MB with %d slow readers, %d MB before", after, readers, before)
	if each >= 4 {
		t.Errorf("got %d MB for each slow reader, want under 4", each)
	}
	for _, r := range all {
		r.wantReplies()
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// slowReader is a client that asks for the value of big many times and reads the replies late.
type slowReader struct {
	*lab.Client
	i       int
	pending int // replies of a megabyte
}

// startSlowReader connects one of three kinds of slow readers, by i: one that only reads big, one
// that reads it in transactions, and one that also locks and sends wrong passwords.
func startSlowReader(t testing.TB, addr string, i, pending int) *slowReader {
	t.Helper()
	r := &slowReader{lab.Dial(t, addr), i, pending}
	r.Timeout = 2 * time.Minute
	get := lab.Encode("GET", "big")
	switch i % 3 {
	case 0:
		r.Send(strings.Repeat(get, pending))
	case 1:
		multi, exec := lab.Encode("MULTI"), lab.Encode("EXEC")
		r.Send(strings.Repeat(multi+get+exec, pending) + strings.Repeat(multi+exec, 20_000))
	case 2:
		r.Send(strings.Repeat(get, pending) + lab.Encode("LOCK", r.key(), "60s") +
			strings.Repeat(lab.Encode("AUTH", rand.Text(), "x"), 200))
	}
	return r
}

func (r *slowReader) key() string { return fmt.Sprint("slow-", r.i) }

// wantReplies reads all replies.
func (r *slowReader) wantReplies() {
	r.T.Helper()
	for j := range r.pending {
		if r.i%3 == 1 {
			r.Want("+OK\r\n+QUEUED\r\n*1\r\n")
		}
		if got, want := r.Frame(), 1<<20+12; len(got) != want {
			r.T.Fatalf("client %d, reply %d: got %d bytes, %.40q, want %d bytes", r.i, j, len(got), got, want)
		}
	}
	switch r.i % 3 {
	case 1:
		r.Want(strings.Repeat("+OK\r\n*0\r\n", 20_000))
		r.Unlock(r.key(), r.Lock(r.key(), "60s"))
	case 2:
		token := lab.TokenOf(r.Frame())
		for range 200 {
			if got := r.Frame(); !strings.HasPrefix(got, "-WRONGPASS") {
				r.T.Fatalf("client %d: got %.100q, want -WRONGPASS", r.i, got)
			}
		}
		r.Unlock(r.key(), token)
	}
	r.Close()
}

// TestIdleConnectionsCostLittleMemory: an idle connection costs under 64 KB. If the limit on open
// files leaves too little room for connections to the upstream, the last clients send only lock
// commands, which need no such connection.
func TestIdleConnectionsCostLittleMemory(t *testing.T) {
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
		all[i].Reader.Reset(strings.NewReader("")) // this client reads past its buffer
		if i < talkers {
			all[i].Send(lab.Encode("PING"))
		} else {
			all[i].Send(lab.Encode("LOCKINFO", "free"))
		}
	}
	for i, host := range all {
		var one [7]byte
		host.SetReadDeadline(time.Now().Add(lab.Patience))
		if n, err := host.TCPConn.Read(one[:]); string(one[:n]) != "+PONG\r\n" &&
			(i < talkers || string(one[:n]) != lab.Null2) {
			t.Fatalf("connection %d: got %q, %v, want +PONG or null", i, one[:n], err)
		}
	}
	after := c.Memory(t, "VmRSS")
	each := float64(after-before) * 1024 / float64(n)
	t.Logf("%d idle connections, %d of them also to the upstream: %d MB, %.1f KB each", n, talkers, after-before, each)
	if got := desk.Counter("connected_clients"); got != n+1 {
		t.Errorf("connected_clients: got %d, want %d", got, n+1)
	}
	if bound := 64 * map[bool]float64{false: 1, true: 3}[lab.Race]; each >= bound {
		t.Errorf("got %.1f KB for each idle connection, want under %.0f", each, bound)
	}
	desk.Unlock("job", desk.Lock("job", "60s"))
}
