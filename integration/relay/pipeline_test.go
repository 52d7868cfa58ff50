package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The position of lock replies among the upstream's replies.

// step is a command with its wanted reply; "token" and "null" are the two replies of LOCK.
type step struct{ send, want string }

// passed returns commands for the upstream, with replies of every kind, some of them empty or
// shaped like requests.
func passed(i int) []step {
	key := fmt.Sprintf("k%d", i)
	return []step{
		{lab.Encode("SET", key, "*2\r\n$4\r\nLOCK\r\n"), "+OK\r\n"},
		{lab.Encode("GET", key), lab.Bulk("*2\r\n$4\r\nLOCK\r\n")},
		{"PING hello\r\n", lab.Bulk("hello")},
		{"\r\n", ""},
		{lab.Encode("INCR", key), "-ERR value is not an integer or out of range\r\n"},
		{"*0\r\n", ""},
		{lab.Encode("MGET", key, "none"), "*2\r\n" + lab.Bulk("*2\r\n$4\r\nLOCK\r\n") + lab.Null2},
		{lab.Encode("DEL", key), ":1\r\n"},
		{lab.Encode("NO-SUCH-COMMAND"), "-ERR unknown command 'NO-SUCH-COMMAND', with args beginning with: \r\n"},
	}
}

// play sends all steps, cut by the given function, and checks every reply. It returns the tokens.
func play(c *lab.Client, steps []step, sendAll func(text string)) []string {
	c.T.Helper()
	var text strings.Builder
	for _, s := range steps {
		text.WriteString(s.send)
	}
	sendAll(text.String())
	var tokens []string
	for i, s := range steps {
		switch s.want {
		case "token":
			got := c.Frame()
			tokens = append(tokens, lab.TokenOf(got))
			if lab.TokenOf(got) == "" {
				c.T.Fatalf("step %d, %.40q: got %.100q, want a token", i, s.send, got)
			}
		default:
			c.Want(s.want)
		}
	}
	return tokens
}

func TestLockWorksAtEveryPositionOfPipeline(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	for _, resp3 := range []bool{false, true} {
		host, null := lab.Dial(t, c.Addr), lab.Null2
		if resp3 {
			host, null = lab.Dial3(t, c.Addr), lab.Null3
		}
		for position := range len(passed(0)) + 1 {
			key := fmt.Sprintf("job-%v-%d", resp3, position)
			steps := slices.Insert(passed(position), position,
				step{lab.Encode("LOCK", key, "60s"), "token"}, step{lab.Encode("lock", key, "60s"), null})
			for i := range steps {
				if resp3 {
					steps[i].want = strings.ReplaceAll(steps[i].want, lab.Null2, lab.Null3)
				}
			}
			token := play(host, steps, host.Send)[0]
			unlock := []step{{lab.Encode("Unlock", key, token), ":1\r\n"}, {lab.Encode("UNLOCK", key, token), ":0\r\n"}}
			play(host, slices.Insert(passed(position)[:6], min(position, 6), unlock...), host.Send)
		}
		host.WantDo("+PONG\r\n", "PING")
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// The same requests get the same replies when they arrive in two packets, cut at every byte, and
// when they arrive byte by byte.
func TestRequestsMaySplitAtEveryByte(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host, other := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
	between := func() { other.WantDo("+PONG\r\n", "PING") } // gives the proxy time to read the first part
	script := func(key string) []step {
		return []step{
			{lab.Encode("SET", "a", "1"), "+OK\r\n"},
			{lab.Encode("LOCK", key, "60s"), "token"},
			{lab.Encode("GET", "a"), lab.Bulk("1")},
			{"LOCK " + key + "-inline 60s\r\n", "token"},
			{"PING\r\n", "+PONG\r\n"},
			{lab.Encode("UNLOCK", key, "0000000000000001:"+strings.Repeat("0", 40)), ":0\r\n"},
			{lab.Encode("ECHO", ""), lab.Bulk("")},
		}
	}
	size := 0
	for _, s := range script("job-000") {
		size += len(s.send)
	}
	for at := 1; at < size; at++ {
		key := fmt.Sprintf("job-%03d", at)
		tokens := play(host, script(key), func(text string) {
			host.Send(text[:at])
			between()
			host.Send(text[at:])
		})
		host.Unlock(key, tokens[0])
		host.Unlock(key+"-inline", tokens[1])
	}
	tokens := play(host, script("job-bytes"), func(text string) {
		for i := range len(text) {
			host.Send(text[i : i+1])
			between()
		}
	})
	host.Unlock("job-bytes", tokens[0])
	host.Unlock("job-bytes-inline", tokens[1])
}

// A LOCK runs only after everything before it was answered.
func TestLockWaitsForCommandsBeforeIt(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host, other := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
	host.Send(lab.Encode("SET", "a", "1") + lab.Encode("LOCK", "direct", "60s") + lab.Encode("GET", "a"))
	host.Want("+OK\r\n")
	if token := lab.TokenOf(host.Frame()); token == "" {
		t.Error("LOCK between SET and GET: got no token")
	}
	host.Want(lab.Bulk("1"))

	host.Send(lab.Encode("BLPOP", "queue", "0") + lab.Encode("LOCK", "job", "60s") + lab.Encode("ECHO", "after"))
	lab.WaitFor(t, "blocked client", lab.Patience, func() bool {
		return c.Upstream.Info(t, "clients", "blocked_clients") == "1"
	})
	if lab.Poll(100*time.Millisecond, func() bool { return c.Masters[0].Do(t, "EXISTS", "lock:job") == ":1\r\n" }) {
		t.Error("LOCK ran while the BLPOP before it was waiting")
	}
	other.WantDo(":1\r\n", "RPUSH", "queue", "x")
	host.Want("*2\r\n" + lab.Bulk("queue") + lab.Bulk("x"))
	if token := lab.TokenOf(host.Frame()); token == "" {
		t.Error("LOCK after BLPOP: got no token")
	}
	host.Want(lab.Bulk("after"))
}

// The proxy forwards no command after a LOCK before it has decided the LOCK.
func TestCommandsAfterLockWaitForItsDecision(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--master-timeout", "3s")
	host := lab.Dial(t, c.Addr)
	// An attempt lasts at most a second, so on a busy machine the masters may come back too late for
	// it. Then the next try shows whether a LOCK is granted once a majority answers.
	for try := 0; ; try++ {
		if lockAmongWrites(c, host, try) {
			return
		}
		if try == 20 {
			t.Fatal("LOCK got no token in 20 tries although a majority answered within the master timeout")
		}
	}
}

// lockAmongWrites sends SET, LOCK and SET while two of three masters are paused, and reports
// whether the LOCK was granted once they ran again.
func lockAmongWrites(c *lab.Cluster, host *lab.Client, try int) (granted bool) {
	t := host.T
	t.Helper()
	for _, s := range c.Masters[:2] {
		s.Pause(t)
	}
	after := fmt.Sprintf("after-%d", try)
	host.Send(lab.Encode("SET", "before", "1") + lab.Encode("LOCK", fmt.Sprintf("job-%d", try), "60s") + lab.Encode("SET",
		after, "1"))
	host.Want("+OK\r\n")
	forwarded := lab.Poll(200*time.Millisecond, func() bool { return c.Upstream.Do(t, "EXISTS", after) == ":1\r\n" })
	for _, s := range c.Masters[:2] {
		s.Resume()
	}
	if granted = lab.TokenOf(host.Frame()) != ""; granted && forwarded { // a token, so it was undecided until Resume
		t.Error("a command after a LOCK ran before the LOCK was decided")
	}
	host.Want("+OK\r\n")
	return granted
}
