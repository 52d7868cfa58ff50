package attacks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Input made to break a server: each of these ends or pins a process that lets redcon's parser see
// it, or would smuggle a command past one that cuts requests elsewhere than Redis does.

// attack is what a hostile client sends; in chunks of the given size, or at once if that is 0.
type attack struct {
	name, text string
	chunk      int
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
		{"http", "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n" + lab.Encode("LOCK", "http", "60s") + lab.Encode("SET", "http", "1"), 0},
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
		{"text that says LOCK", lab.Encode("ECHO", lab.Encode("LOCK", "smuggled", "60s")) + ping, 0},
		{"deep inline", "    \t PING   \"a\\x41\\n\"  \r\n" + ping, 0},
	}
	for _, count := range []string{"0", "-1", "-5", "+1", " 1", "01", "1 ", "", "-", "1x", "0x1", "1048577", "2147483647", "2147483648",
		"9223372036854775807", "9223372036854775808", "18446744073709551617", "-9223372036854775808", "-9223372036854775809"} {
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

// mount sends the attack on a fresh connection and returns what came back and whether that ended
// the connection. An answer other than the expected one is waited for longer; without one to
// expect, a moment of silence is the end.
func (a attack) mount(t testing.TB, addr string, expected *lab.Heard) lab.Heard {
	t.Helper()
	c, err := lab.Connect(addr)
	if err != nil {
		t.Fatalf("%s: nobody accepts any more: %v", a.name, err)
	}
	defer c.Reset()
	chunk := a.chunk
	if chunk == 0 {
		chunk = len(a.text)
	}
	for rest := a.text; rest != ""; rest = rest[min(chunk, len(rest)):] {
		if c.Put(rest[:min(chunk, len(rest))]) != nil {
			break // it was hung up on, as it should be
		}
	}
	deadline := time.Now().Add(lab.Patience)
	if expected == nil {
		deadline = time.Now().Add(500 * time.Millisecond) // to say nothing at all takes a busy Redis longer
	}
	return lab.Hear(c, "no sentinel was sent", func(got lab.Heard) bool {
		return expected == nil && got.Text != "" || expected != nil && got == *expected || time.Now().After(deadline)
	}, 30*time.Millisecond)
}

// TestAttacks mounts every attack on Redis and on the proxy, which must answer alike and stay
// small and quick.
func TestAttacks(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	direct := lab.StartRedis(t)
	checkAttacks(t, c, direct, attacks())
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestAttacksUnauthenticated: before AUTH Redis takes no more than 10 arguments of 16 KB, which a
// proxy that buffers commands would undo.
func TestAttacksUnauthenticated(t *testing.T) {
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
		before := c.CPU(t)
		want := a.mount(t, direct.Addr, nil)
		got := a.mount(t, c.Addr, &want)
		if got != want {
			t.Errorf("%s: got %.200q and then %s; Redis answers %.200q and is %s", a.name, got.Text, got.State, want.Text, want.State)
		}
		if used := c.CPU(t) - before; used > 400*time.Millisecond*lab.Slack {
			t.Errorf("%s: cost %v of processor time", a.name, used)
		}
	}
	if peak := c.Memory(t, "VmHWM"); peak > lab.MemoryBound {
		t.Errorf("the proxy used up to %d MB, want under %d", peak, lab.MemoryBound)
	}
}

// TestAttackLockSizes: LOCK frames of many or huge arguments get an error, cost no memory, and
// what follows is served.
func TestAttackLockSizes(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	for name, text := range map[string]string{
		"arguments": "*1000000\r\n$4\r\nLOCK\r\n" + strings.Repeat("$10\r\n0123456789\r\n", 999_999),
		"key":       lab.Encode("LOCK", strings.Repeat("k", 20<<20), "60s"),
		"ttl":       lab.Encode("LOCK", "job", strings.Repeat("1", 20<<20)),
		"option":    lab.Encode("LOCK", "job", "60s", strings.Repeat("x", 20<<20)),
		"token":     lab.Encode("UNLOCK", "job", strings.Repeat("0", 20<<20)),
	} {
		host := lab.Dial(t, c.Addr)
		host.Timeout = 2 * time.Minute
		host.Send(text)
		if got := host.Frame(); !strings.HasPrefix(got, "-ERR ") || strings.Contains(got, "unknown command") || len(got) > 300 {
			t.Errorf("LOCK with a large %s: %.300q", name, got)
		}
		host.WantDo("+PONG\r\n", "PING")
	}
	if peak := c.Memory(t, "VmHWM"); peak > lab.MemoryBound {
		t.Errorf("the proxy used up to %d MB, want under %d", peak, lab.MemoryBound)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestAttacksSideBySide: hundreds of connections that announce much and send little, and others
// that send lines without end.
func TestAttacksSideBySide(t *testing.T) {
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
		t.Errorf("the proxy uses %d MB with %d such connections, want under %d", now, len(all), lab.MemoryBound)
	}
}
