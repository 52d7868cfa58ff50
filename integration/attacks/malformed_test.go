package attacks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// These attacks crash a process that passes them to redcon's parser, or keep it busy for ever, or
// smuggle a command past a proxy that finds other ends of requests than Redis.

// attack is the input of a hostile client.
type attack struct {
	name, text string
	chunk      int // bytes sent at a time; 0 sends all at once
}

func attacks() []attack {
	ping := lab.Encode("PING")
	list := []attack{
		{"nested arrays", strings.Repeat("*1\r\n", 100), 0},
		{"count, then drops", "*1000000000\r\n" + strings.Repeat("$1\r\na\r\n", 300), 7},
		{"largest count, then bytes", "*2147483647\r\n" + strings.Repeat("$1\r\na\r\n", 200), 1},
		{"million arguments, then chunks", "*1000000\r\n" + strings.Repeat("$1\r\na\r\n", 10000), 70},
		{"large bulk, then bytes", "*1\r\n$100000000\r\n" + strings.Repeat("x", 3000), 1},
		{"million arguments in LOCK", "*1000000\r\n$4\r\nLOCK\r\n" + strings.Repeat("$1\r\na\r\n", 10000), 0},
		{"largest bulk", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$536870912\r\nstart", 0},
		{"endless line", strings.Repeat("x", 65_600), 0},
		{"endless count", "*" + strings.Repeat("1", 65_600), 0},
		{"endless length", "*1\r\n$" + strings.Repeat("1", 65_600), 0},
		{"endless line of LOCK", "LOCK " + strings.Repeat("x", 65_600), 0},
		{"unbalanced quotes", "LOCK \"job 60s\r\n" + ping, 0},
		{"quote then letter", "PING \"a\"b\r\n" + ping, 0},
		{"http", "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n" + lab.Encode("LOCK", "http", "60s") +
			lab.Encode("SET", "http", "1"), 0},
		{"http host", "Host: localhost\r\nContent-Length: 100\r\n\r\n" + lab.Encode("LOCK", "http", "60s"), 0},
		{"post as array", lab.Encode("POST", "/") + lab.Encode("LOCK", "http", "60s") + lab.Encode("SET", "http", "1"), 0},
		{"host as array", lab.Encode("host:") + lab.Encode("LOCK", "http", "60s") + lab.Encode("SET", "http", "1"), 0},
		{"tls hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n" + ping, 0},
		{"zero bytes", "\x00\x00\x00\r\n" + ping, 0},
		{"empty name", "*1\r\n$0\r\n\r\n" + ping, 0},
		{"bare line feeds", "\n\n\nPING\nECHO a\n", 0},
		{"other byte after return", "*1\rX$4\rXPINGxx" + ping, 0},
		{"no return", "*1\n$4\nPING\n" + ping, 0},
		{"trailer unchecked", "*1\r\n$4\r\nPINGxx*2\r\n$4\r\nECHO\r\n$1\r\nazz" + ping, 0},
		{"crlf in a name", lab.Encode("LO\r\nCK") + ping, 0},
		{"LOCK within text", lab.Encode("ECHO", lab.Encode("LOCK", "smuggled", "60s")) + ping, 0},
		{"deep inline", "    \t PING   \"a\\x41\\n\"  \r\n" + ping, 0},
	}
	for _, count := range []string{"0", "-1", "-5", "+1", " 1", "01", "1 ", "", "-", "1x", "0x1", "1048577",
		"2147483647", "2147483648",
		"9223372036854775807", "9223372036854775808", "18446744073709551617", "-9223372036854775808",
		"-9223372036854775809"} {
		list = append(list, attack{"count " + count, "*" + count + "\r\n$4\r\nPING\r\n" + ping, 0})
	}
	for _, size := range []string{"-1", "-0", "+4", " 4", "04", "4 ", "", "4x", "536870913", "2000000000", "4294967300",
		"9223372036854775807", "9223372036854775808", "18446744073709551620", "18446744073709551619"} {
		list = append(list,
			attack{"length " + size, "*1\r\n$" + size + "\r\nPING\r\n" + ping, 0},
			attack{"length in LOCK " + size, "*3\r\n$4\r\nLOCK\r\n$" + size + "\r\njob1\r\n$3\r\n60s\r\n", 0})
	}
	for _, kind := range []string{"+", "-", ":", "%", ">", "_", "$", "4"} {
		list = append(list, attack{"element " + kind, "*2\r\n" + kind + "4\r\nPING\r\n" + ping, 0})
	}
	return list
}

// mount sends the attack on a fresh connection. It returns the reply and whether the connection
// was closed. Each time the server falls silent, complete decides whether the reply is all there.
func (a attack) mount(t testing.TB, addr string, complete func(lab.Heard) bool) lab.Heard {
	t.Helper()
	c, err := lab.Connect(addr)
	if err != nil {
		t.Fatalf("the server accepts no connection: %v", err)
	}
	defer c.Reset()
	chunk := a.chunk
	if chunk == 0 {
		chunk = len(a.text)
	}
	for rest := a.text; rest != ""; rest = rest[min(chunk, len(rest)):] {
		if c.Put(rest[:min(chunk, len(rest))]) != nil {
			break // the server has closed the connection, which some attacks deserve
		}
	}
	return lab.Hear(c, noSentinel, complete, 30*time.Millisecond)
}

// whenIdle returns a function for mount that takes a reply as complete once the server is idle.
func (attack) whenIdle(server *lab.Process) func(lab.Heard) bool {
	deadline := time.Now().Add(lab.Patience)
	return func(lab.Heard) bool { return lab.Idle(server) || time.Now().After(deadline) }
}

// whenEqual returns a function for mount that takes a reply as complete once it equals want.
func (attack) whenEqual(want lab.Heard) func(lab.Heard) bool {
	deadline := time.Now().Add(lab.Patience)
	return func(got lab.Heard) bool { return got == want || time.Now().After(deadline) }
}

// TestAttacksAreAnsweredAsByRedis: Redis and the proxy answer each attack alike, and the proxy
// stays small and spends little processor time.
func TestAttacksAreAnsweredAsByRedis(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	direct := lab.StartRedis(t)
	checkAttacks(t, c, direct, attacks())
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestAttacksBeforeAuthAreAnsweredAsByRedis: before AUTH, Redis takes at most 10 arguments of 16
// KB. A proxy that buffers whole commands would lift that limit.
func TestAttacksBeforeAuthAreAnsweredAsByRedis(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t)
	direct := lab.StartRedis(t, "--requirepass", "secret")
	checkAttacks(t, c, direct, append(attacks(),
		attack{"ten arguments", "*10\r\n$4\r\nPING\r\n", 0},
		attack{"eleven arguments", "*11\r\n$4\r\nPING\r\n", 0},
		attack{"eleven arguments in LOCK", "*11\r\n$4\r\nLOCK\r\n", 0},
		attack{"argument of 16 KB", "*2\r\n$4\r\nECHO\r\n$16384\r\nx", 0},
		attack{"argument over 16 KB", "*2\r\n$4\r\nECHO\r\n$16385\r\nx", 0},
		attack{"argument over 16 KB in LOCK", "*3\r\n$4\r\nLOCK\r\n$16385\r\nx", 0},
	))
}

func checkAttacks(t *testing.T, c *lab.Cluster, direct *lab.Redis, list []attack) {
	t.Helper()
	for _, a := range list {
		t.Run(a.name, func(t *testing.T) {
			before := c.CPU(t)
			want := a.mount(t, direct.Addr, a.whenIdle(direct.Process))
			got := a.mount(t, c.Addr, a.whenEqual(want))
			if got != want {
				t.Errorf("got %.200q, then %s, want Redis' %.200q, then %s", got.Text, got.State, want.Text, want.State)
			}
			wantCheap(t, c.Process, before)
		})
	}
	wantMemoryBound(t, c.Process)
}

// wantCheap fails if the process has used much processor time since it had used before.
func wantCheap(t testing.TB, p *lab.Process, before time.Duration) {
	t.Helper()
	if used, most := p.CPU(t)-before, 400*time.Millisecond*lab.Slack; used > most {
		t.Errorf("got %v of processor time for the attack, want at most %v", used, most)
	}
}

// wantMemoryBound fails if the process has ever used more memory than a proxy may use.
func wantMemoryBound(t testing.TB, p *lab.Process) {
	t.Helper()
	if peak := p.Memory(t, "VmHWM"); peak > lab.MemoryBound {
		t.Errorf("got a peak of %d MB of memory, want at most %d", peak, lab.MemoryBound)
	}
}

// TestHugeLockArgumentsAreRefused: a LOCK with very many or very long arguments gets an error and
// costs no memory. The proxy serves the commands that follow.
func TestHugeLockArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	const argument = "$20971520\r\n" // 20 MB, sent in blocks of one
	for name, request := range map[string]struct {
		head, block string
		blocks      int
		tail        string
	}{
		"arguments": {"*1000000\r\n$4\r\nLOCK\r\n", strings.Repeat("$10\r\n0123456789\r\n", 37_037), 27, ""},
		"key":       {"*3\r\n$4\r\nLOCK\r\n" + argument, strings.Repeat("k", 1<<20), 20, "\r\n$3\r\n60s\r\n"},
		"ttl":       {"*3\r\n$4\r\nLOCK\r\n$3\r\njob\r\n" + argument, strings.Repeat("1", 1<<20), 20, "\r\n"},
		"option":    {"*4\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$3\r\n60s\r\n" + argument, strings.Repeat("x", 1<<20), 20, "\r\n"},
		"token":     {"*3\r\n$6\r\nUNLOCK\r\n$3\r\njob\r\n" + argument, strings.Repeat("0", 1<<20), 20, "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			host := lab.Dial(t, c.Addr)
			host.Timeout = 2 * time.Minute
			host.Send(request.head)
			for range request.blocks {
				host.Send(request.block)
			}
			host.Send(request.tail)
			if got := host.Frame(); !strings.HasPrefix(got, "-ERR ") || strings.Contains(got, "unknown command") ||
				len(got) > 300 {
				t.Errorf("got %.300q, want a short -ERR about the arguments", got)
			}
			host.WantDo("+PONG\r\n", "PING")
		})
	}
	wantMemoryBound(t, c.Process)
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestManyAttackersDoNotStopLocks: hundreds of connections announce large requests and send
// little, or send lines without an end. Another client gets its locks, and the proxy stays small.
func TestManyAttackersDoNotStopLocks(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	var all []*lab.Client
	for i := range 300 {
		host := lab.Dial(t, c.Addr)
		host.Send([]string{"*1000000\r\n$4\r\nLOCK\r\n", "*1\r\n$500000000\r\n", strings.Repeat("x", 60_000)}[i%3])
		all = append(all, host)
	}
	host := lab.Dial(t, c.Addr)
	for i := range 20 {
		key := fmt.Sprintf("job-%d", i)
		host.Unlock(key, host.Lock(key, "60s"))
	}
	if now := c.Memory(t, "VmRSS"); now > lab.MemoryBound {
		t.Errorf("got %d MB with %d attackers, want at most %d", now, len(all), lab.MemoryBound)
	}
}
