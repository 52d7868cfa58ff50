package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Where the replies of lock commands stand among those of the upstream.

// step is a command with the reply it must get; "token" and "null" stand for what LOCK answers.
type step struct{ send, want string }

// passed are commands for the upstream, with replies of every kind, some of them empty or looking like requests.
func passed(i int) []step {
	key := fmt.Sprintf("k%d", i)
	return []step{
		{encode("SET", key, "*2\r\n$4\r\nLOCK\r\n"), "+OK\r\n"},
		{encode("GET", key), bulk("*2\r\n$4\r\nLOCK\r\n")},
		{"PING hello\r\n", bulk("hello")},
		{"\r\n", ""},
		{encode("INCR", key), "-ERR value is not an integer or out of range\r\n"},
		{"*0\r\n", ""},
		{encode("MGET", key, "none"), "*2\r\n" + bulk("*2\r\n$4\r\nLOCK\r\n") + null2},
		{encode("DEL", key), ":1\r\n"},
		{encode("NO-SUCH-COMMAND"), "-ERR unknown command 'NO-SUCH-COMMAND', with args beginning with: \r\n"},
	}
}

// play sends all steps, cut by the given function, and checks every reply. It returns the tokens granted.
func play(c *client, steps []step, sendAll func(text string)) []string {
	c.t.Helper()
	var text strings.Builder
	for _, s := range steps {
		text.WriteString(s.send)
	}
	sendAll(text.String())
	var tokens []string
	for i, s := range steps {
		switch s.want {
		case "token":
			got := c.frame()
			tokens = append(tokens, tokenOf(got))
			if tokenOf(got) == "" {
				c.t.Fatalf("step %d, %.40q: got %.100q, want a token", i, s.send, got)
			}
		default:
			c.want(s.want)
		}
	}
	return tokens
}

func TestPipelineEveryPosition(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	for _, resp3 := range []bool{false, true} {
		host, null := dial(t, c.addr), null2
		if resp3 {
			host, null = dial3(t, c.addr), null3
		}
		for position := range len(passed(0)) + 1 {
			key := fmt.Sprintf("job-%v-%d", resp3, position)
			steps := slices.Insert(passed(position), position,
				step{encode("LOCK", key, "60s"), "token"}, step{encode("lock", key, "60s"), null})
			for i := range steps {
				if resp3 {
					steps[i].want = strings.ReplaceAll(steps[i].want, null2, null3)
				}
			}
			token := play(host, steps, host.send)[0]
			unlock := []step{{encode("Unlock", key, token), ":1\r\n"}, {encode("UNLOCK", key, token), ":0\r\n"}}
			play(host, slices.Insert(passed(position)[:6], min(position, 6), unlock...), host.send)
		}
		host.wantDo("+PONG\r\n", "PING")
	}
	wantNoStray(t, c.masters, c.proxy)
}

// TestSplitEveryByte sends the same requests in two packets, cut at every byte, and then a byte at a time.
func TestSplitEveryByte(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host, other := dial(t, c.addr), dial(t, c.addr)
	between := func() { other.wantDo("+PONG\r\n", "PING") } // gives the proxy time to read what was sent
	script := func(key string) []step {
		return []step{
			{encode("SET", "a", "1"), "+OK\r\n"},
			{encode("LOCK", key, "60s"), "token"},
			{encode("GET", "a"), bulk("1")},
			{"LOCK " + key + "-inline 60s\r\n", "token"},
			{"PING\r\n", "+PONG\r\n"},
			{encode("UNLOCK", key, "0000000000000001:"+strings.Repeat("0", 40)), ":0\r\n"},
			{encode("ECHO", ""), bulk("")},
		}
	}
	size := 0
	for _, s := range script("job-000") {
		size += len(s.send)
	}
	for at := 1; at < size; at++ {
		key := fmt.Sprintf("job-%03d", at)
		tokens := play(host, script(key), func(text string) {
			host.send(text[:at])
			between()
			host.send(text[at:])
		})
		host.unlock(key, tokens[0])
		host.unlock(key+"-inline", tokens[1])
	}
	tokens := play(host, script("job-bytes"), func(text string) {
		for i := range len(text) {
			host.send(text[i : i+1])
			between()
		}
	})
	host.unlock("job-bytes", tokens[0])
	host.unlock("job-bytes-inline", tokens[1])
}

// TestOrderBefore: a LOCK runs only when everything before it was answered.
func TestOrderBefore(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host, other := dial(t, c.addr), dial(t, c.addr)
	host.send(encode("SET", "a", "1") + encode("LOCK", "direct", "60s") + encode("GET", "a"))
	host.want("+OK\r\n")
	if token := tokenOf(host.frame()); token == "" {
		t.Error("LOCK between SET and GET got no token")
	}
	host.want(bulk("1"))

	host.send(encode("BLPOP", "queue", "0") + encode("LOCK", "job", "60s") + encode("ECHO", "after"))
	waitFor(t, "blocked client", patience, func() bool { return c.upstream.info(t, "clients", "blocked_clients") == "1" })
	if poll(100*time.Millisecond, func() bool { return c.masters[0].do(t, "EXISTS", "lock:job") == ":1\r\n" }) {
		t.Error("LOCK was executed while the BLPOP before it still waits")
	}
	other.wantDo(":1\r\n", "RPUSH", "queue", "x")
	host.want("*2\r\n" + bulk("queue") + bulk("x"))
	if token := tokenOf(host.frame()); token == "" {
		t.Error("LOCK behind BLPOP got no token")
	}
	host.want(bulk("after"))
}

// TestOrderAfter: nothing behind a LOCK is forwarded before the LOCK is decided.
func TestOrderAfter(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--master-timeout", "3s")
	host := dial(t, c.addr)
	for _, s := range c.masters[:2] {
		s.pause(t)
	}
	host.send(encode("SET", "before", "1") + encode("LOCK", "job", "60s") + encode("SET", "after", "1"))
	host.want("+OK\r\n")
	if poll(200*time.Millisecond, func() bool { return c.upstream.do(t, "EXISTS", "after") == ":1\r\n" }) {
		t.Error("a command behind a LOCK ran before the LOCK was decided")
	}
	for _, s := range c.masters[:2] {
		s.resume()
	}
	if token := tokenOf(host.frame()); token == "" {
		t.Error("LOCK got no token although a majority answered within the master timeout")
	}
	host.want("+OK\r\n")
}
