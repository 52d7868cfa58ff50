package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Lock commands in the special states of a connection: MULTI, CLIENT REPLY, MONITOR, RESP3 pushes and attributes.

const (
	inMulti   = "-ERR LOCK is not allowed in transactions\r\n"
	execAbort = "-EXECABORT Transaction discarded because of previous errors.\r\n"
)

func TestMulti(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	for name, steps := range map[string][]step{
		"exec": {{encode("MULTI"), "+OK\r\n"}, {encode("SET", "a", "1"), "+QUEUED\r\n"}, {encode("LOCK", "job", "60s"), inMulti},
			{encode("EXEC"), execAbort}, {encode("EXISTS", "a"), ":0\r\n"}, {encode("LOCK", "job", "60s"), "token"}},
		"unlock": {{encode("MULTI"), "+OK\r\n"},
			{encode("UNLOCK", "job", "x"), "-ERR UNLOCK is not allowed in transactions\r\n"}, {encode("EXEC"), execAbort}},
		"bad arguments": {{encode("MULTI"), "+OK\r\n"}, {encode("LOCK"), inMulti}, {encode("LOCK", "job", "x"), inMulti},
			{encode("EXEC"), execAbort}},
		"discard": {{encode("MULTI"), "+OK\r\n"}, {encode("LOCK", "job", "60s"), inMulti}, {encode("DISCARD"), "+OK\r\n"},
			{encode("LOCK", "job", "60s"), "token"}},
		"reset": {{encode("MULTI"), "+OK\r\n"}, {encode("LOCK", "job", "60s"), inMulti}, {encode("RESET"), "+RESET\r\n"},
			{encode("LOCK", "job", "60s"), "token"}, {encode("EXEC"), "-ERR EXEC without MULTI\r\n"}},
		"nested": {{encode("MULTI"), "+OK\r\n"}, {encode("MULTI"), "-ERR MULTI calls can not be nested\r\n"},
			{encode("LOCK", "job", "60s"), inMulti}, {encode("EXEC"), execAbort}, {encode("LOCK", "job", "60s"), "token"}},
		"not begun": {{encode("MULTI", "x"), "-ERR wrong number of arguments for 'multi' command\r\n"},
			{encode("LOCK", "job", "60s"), "token"}},
		"ended wrongly": {{encode("MULTI"), "+OK\r\n"}, {encode("EXEC", "x"),
			"-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"},
			{encode("LOCK", "job", "60s"), "token"}, {encode("EXEC"), "-ERR EXEC without MULTI\r\n"}},
		"not discarded": {{encode("MULTI"), "+OK\r\n"}, {encode("DISCARD", "x"), "-ERR wrong number of arguments for 'discard' command\r\n"},
			{encode("LOCK", "job", "60s"), inMulti}, {encode("EXEC"), execAbort}},
		"empty": {{encode("MULTI"), "+OK\r\n"}, {encode("EXEC"), "*0\r\n"}, {encode("LOCK", "job", "60s"), "token"}},
		"watch": {{encode("WATCH", "a"), "+OK\r\n"}, {encode("LOCK", "job", "60s"), "token"}, {encode("MULTI"), "+OK\r\n"},
			{encode("PING"), "+QUEUED\r\n"}, {encode("EXEC"), "*1\r\n+PONG\r\n"}},
		"inline": {{"multi\r\n", "+OK\r\n"}, {"lock job 60s\r\n", inMulti}, {"exec\r\n", execAbort},
			{"lock job 60s\r\n", "token"}},
		"subscribe": {{encode("MULTI"), "+OK\r\n"}, {encode("SUBSCRIBE", "x", "y"), "+QUEUED\r\n"}, {encode("EXEC"),
			"*1\r\n*3\r\n" + bulk("subscribe") + bulk("x") + ":1\r\n*3\r\n" + bulk("subscribe") + bulk("y") + ":2\r\n"},
			{encode("LOCK", "job", "60s"), subscribedError("lock")}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pipelined := range []bool{true, false} {
				host := dial(t, c.addr)
				job := fmt.Sprintf("%s-%v", name, pipelined)
				var tokens []string
				rename := func(s step) step { // a key of its own for each run
					return step{strings.ReplaceAll(strings.ReplaceAll(s.send, "$3\r\njob", bulk(job)[:len(bulk(job))-2]), "lock job", "lock \""+job+"\""), s.want}
				}
				var all []step
				for _, s := range steps {
					if all = append(all, rename(s)); !pipelined {
						tokens = append(tokens, play(host, all[len(all)-1:], host.send)...)
					}
				}
				if pipelined {
					tokens = play(host, all, host.send)
				}
				for _, token := range tokens {
					dial(t, c.addr).unlock(job, token)
				}
			}
		})
	}
	wantNoStray(t, c.masters, c.proxy)
}

// TestClientReply: a client that does not want replies would never learn its token, so nothing is locked.
func TestClientReply(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host := dial(t, c.addr)
	host.send(encode("CLIENT", "REPLY", "OFF") + encode("LOCK", "off", "60s") + encode("SET", "a", "1"))
	host.send(encode("CLIENT", "REPLY", "ON") + encode("GET", "a"))
	host.want("+OK\r\n" + bulk("1"))
	host.send(encode("CLIENT", "REPLY", "SKIP") + encode("LOCK", "skip", "60s") + encode("PING") + encode("GET", "a"))
	host.want("+PONG\r\n" + bulk("1"))
	host.send(encode("CLIENT", "REPLY", "SKIP"))
	host.send(encode("LOCK", "skip", "60s"))
	host.wantDo("+PONG\r\n", "PING")
	wantNoStray(t, c.masters, c.proxy)
	host.unlock("on", host.lock("on", "60s"))

}

// TestClientReplyInTransaction: OFF queued in a transaction takes effect when it runs, in the middle of EXEC's reply.
func TestClientReplyInTransaction(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	for i, queued := range []string{encode("CLIENT", "REPLY", "OFF"), encode("CLIENT", "REPLY", "SKIP")} {
		for _, pipelined := range []bool{true, false} {
			host, direct := dial(t, c.addr), dial(t, c.upstream.addr)
			run := func(host *client, middle string) (all string) {
				begin, end := encode("MULTI")+queued, encode("EXEC")+middle+encode("CLIENT", "REPLY", "ON")+encode("PING")
				if pipelined {
					host.send(begin + end)
				} else {
					host.send(begin)
					all = host.frame() + host.frame()
					host.send(end)
				}
				for deadline := time.Now().Add(time.Second * slack); !strings.HasSuffix(all, "+PONG\r\n") && time.Now().Before(deadline); {
					part, _, _ := host.rest(20 * time.Millisecond)
					all += part
				}
				return all
			}
			want := run(direct, encode("NO-SUCH-COMMAND"))
			got := run(host, encode("LOCK", fmt.Sprintf("job-%d-%v", i, pipelined), "60s"))
			if got != want {
				t.Errorf("%q in a transaction (pipelined %v), then LOCK: %q, Redis gives %q", queued, pipelined, got, want)
			}
		}
	}
	wantNoStray(t, c.masters, c.proxy)
}

func TestMonitor(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host, other := dial(t, c.addr), dial(t, c.addr)
	host.wantDo("+OK\r\n", "MONITOR")
	for i := range 20 {
		key := fmt.Sprintf("job-%d", i)
		host.send(encode("LOCK", key, "60s"))
		other.wantDo("+OK\r\n", "SET", key, "seen by the monitor")
		token := ""
		for lines := 0; token == "" && lines < 10; lines++ {
			line := host.frame()
			if token = tokenOf(line); token == "" && !strings.HasPrefix(line, "+1") {
				t.Fatalf("a monitor got %q", line)
			}
			if strings.Contains(line, "\"LOCK\"") {
				t.Errorf("the upstream saw %q", line)
			}
		}
		other.unlock(key, token)
	}
}

// TestPushes: pushes stand between replies, never inside one, and a LOCK amid them is answered in its place.
func TestPushes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host, other := dial3(t, c.addr), dial(t, c.addr)
	host.wantDo(">3\r\n"+bulk("subscribe")+bulk("news")+":1\r\n", "SUBSCRIBE", "news")
	host.wantDo("+OK\r\n", "CLIENT", "TRACKING", "ON", "BCAST")
	stop, flooded := make(chan struct{}), make(chan error, 1)
	go func() { flooded <- flood(other.conn, stop) }()
	pushes := 0
	next := func() string {
		for {
			frame := host.frame()
			if !isPush(frame) {
				return frame
			}
			if pushes++; !strings.Contains(frame, "message") && !strings.Contains(frame, "invalidate") {
				t.Fatalf("a push of neither kind: %q", frame)
			}
		}
	}
	for i := range 100 {
		key, echo := fmt.Sprintf("job-%d", i), fmt.Sprintf("echo-%d", i)
		host.send(encode("ECHO", echo) + encode("LOCK", key, "60s") + encode("LOCK", key, "60s") + encode("ECHO", echo))
		if got := next(); got != bulk(echo) {
			t.Fatalf("got %q, want %q", got, echo)
		}
		token := tokenOf(next())
		if got := next(); token == "" || got != null3 {
			t.Fatalf("token %q, second LOCK %q", token, got)
		}
		if got := next(); got != bulk(echo) {
			t.Fatalf("got %q, want %q", got, echo)
		}
		host.send(encode("UNLOCK", key, token))
		if got := next(); got != ":1\r\n" {
			t.Fatalf("UNLOCK: %q", got)
		}
	}
	close(stop)
	if err := <-flooded; err != nil || pushes == 0 {
		t.Errorf("%d pushes came, %v", pushes, err)
	}
}

// flood publishes and writes, for messages and invalidations, until stop is closed.
func flood(c *conn, stop <-chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		text := strings.Repeat(fmt.Sprintf("$57\r\n%d", i), 1+i%50)
		if _, err := c.do("PUBLISH", "news", text); err != nil {
			return err
		}
		if _, err := c.do("SET", "news", text); err != nil {
			return err
		}
	}
}

// TestAttributes: an attribute belongs to the reply behind it and is no reply of its own.
func TestAttributes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	direct, host := dial3(t, c.upstream.addr), dial3(t, c.addr)
	for _, kind := range []string{"attrib", "push", "map", "set", "double", "bignum", "verbatim", "null", "true", "string", "array"} {
		direct.send(encode("DEBUG", "PROTOCOL", kind) + encode("ECHO", "end"))
		want := ""
		for !strings.HasSuffix(want, bulk("end")) {
			want += direct.frame()
		}
		host.send(encode("DEBUG", "PROTOCOL", kind) + encode("LOCK", kind, "60s") + encode("ECHO", "end"))
		host.want(strings.TrimSuffix(want, bulk("end")))
		token := tokenOf(host.frame())
		host.want(bulk("end"))
		host.unlock(kind, token)
	}
}
