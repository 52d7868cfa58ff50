package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Lock commands in the special states of a connection: MULTI, CLIENT REPLY, MONITOR, RESP3 pushes
// and attributes.

const (
	inMulti   = "-ERR LOCK is not allowed in transactions\r\n"
	execAbort = "-EXECABORT Transaction discarded because of previous errors.\r\n"
)

func TestLockIsRefusedInTransactions(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	for name, steps := range map[string][]step{
		"exec": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("SET", "a", "1"), "+QUEUED\r\n"},
			{lab.Encode("LOCK", "job", "60s"), inMulti},
			{lab.Encode("EXEC"), execAbort}, {lab.Encode("EXISTS", "a"), ":0\r\n"},
			{lab.Encode("LOCK", "job", "60s"), "token"}},
		"unlock": {{lab.Encode("MULTI"), "+OK\r\n"},
			{lab.Encode("UNLOCK", "job", "x"), "-ERR UNLOCK is not allowed in transactions\r\n"},
			{lab.Encode("EXEC"), execAbort}},
		"bad arguments": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("LOCK"), inMulti},
			{lab.Encode("LOCK", "job", "x"), inMulti},
			{lab.Encode("EXEC"), execAbort}},
		"discard": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("LOCK", "job", "60s"), inMulti},
			{lab.Encode("DISCARD"), "+OK\r\n"},
			{lab.Encode("LOCK", "job", "60s"), "token"}},
		"reset": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("LOCK", "job", "60s"), inMulti},
			{lab.Encode("RESET"), "+RESET\r\n"},
			{lab.Encode("LOCK", "job", "60s"), "token"}, {lab.Encode("EXEC"), "-ERR EXEC without MULTI\r\n"}},
		"nested": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("MULTI"), "-ERR MULTI calls can not be nested\r\n"},
			{lab.Encode("LOCK", "job", "60s"), inMulti}, {lab.Encode("EXEC"), execAbort},
			{lab.Encode("LOCK", "job", "60s"), "token"}},
		"not begun": {{lab.Encode("MULTI", "x"), "-ERR wrong number of arguments for 'multi' command\r\n"},
			{lab.Encode("LOCK", "job", "60s"), "token"}},
		"ended wrongly": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("EXEC", "x"),
			"-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"},
			{lab.Encode("LOCK", "job", "60s"), "token"}, {lab.Encode("EXEC"), "-ERR EXEC without MULTI\r\n"}},
		"not discarded": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("DISCARD", "x"),
			"-ERR wrong number of arguments for 'discard' command\r\n"},
			{lab.Encode("LOCK", "job", "60s"), inMulti}, {lab.Encode("EXEC"), execAbort}},
		"empty": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("EXEC"), "*0\r\n"},
			{lab.Encode("LOCK", "job", "60s"), "token"}},
		"watch": {{lab.Encode("WATCH", "a"), "+OK\r\n"}, {lab.Encode("LOCK", "job", "60s"), "token"},
			{lab.Encode("MULTI"), "+OK\r\n"},
			{lab.Encode("PING"), "+QUEUED\r\n"}, {lab.Encode("EXEC"), "*1\r\n+PONG\r\n"}},
		"inline": {{"multi\r\n", "+OK\r\n"}, {"lock job 60s\r\n", inMulti}, {"exec\r\n", execAbort},
			{"lock job 60s\r\n", "token"}},
		"subscribe and leave": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("SUBSCRIBE", "x"), "+QUEUED\r\n"},
			{lab.Encode("UNSUBSCRIBE", "x"), "+QUEUED\r\n"},
			{lab.Encode("EXEC"), "*2\r\n" + subscription("subscribe", "x", 1) + subscription("unsubscribe", "x", 0)},
			{lab.Encode("LOCK", "job", "60s"), "token"}},
		"subscribe": {{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("SUBSCRIBE", "x", "y"), "+QUEUED\r\n"},
			{lab.Encode("EXEC"),
				"*1\r\n*3\r\n" + lab.Bulk("subscribe") + lab.Bulk("x") + ":1\r\n*3\r\n" + lab.Bulk("subscribe") + lab.Bulk("y") +
					":2\r\n"},
			{lab.Encode("LOCK", "job", "60s"), subscribedError("lock")}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pipelined := range []bool{true, false} {
				job := fmt.Sprintf("%s-%v", name, pipelined)
				for _, token := range playOn(lab.Dial(t, c.Addr), renamed(steps, job), pipelined) {
					lab.Dial(t, c.Addr).Unlock(job, token)
				}
			}
		})
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// renamed returns steps with the lock job renamed.
func renamed(steps []step, job string) (list []step) {
	bulk := strings.TrimSuffix(lab.Bulk(job), "\r\n")
	names := strings.NewReplacer("$3\r\njob", bulk, "lock job", "lock \""+job+"\"")
	for _, s := range steps {
		list = append(list, step{names.Replace(s.send), s.want})
	}
	return list
}

// playOn plays the steps in one packet or one by one, and returns the tokens granted.
func playOn(host *lab.Client, steps []step, pipelined bool) (tokens []string) {
	host.T.Helper()
	if pipelined {
		return play(host, steps, host.Send)
	}
	for i := range steps {
		tokens = append(tokens, play(host, steps[i:i+1], host.Send)...)
	}
	return tokens
}

// A client that turned replies off would never learn its token, so the proxy takes no lock for
// it.
func TestNoLockWithoutReplies(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	host.Send(lab.Encode("CLIENT", "REPLY", "OFF") + lab.Encode("LOCK", "off", "60s") + lab.Encode("SET", "a", "1"))
	host.Send(lab.Encode("CLIENT", "REPLY", "ON") + lab.Encode("GET", "a"))
	host.Want("+OK\r\n" + lab.Bulk("1"))
	host.Send(lab.Encode("CLIENT", "REPLY", "SKIP") + lab.Encode("LOCK", "skip",
		"60s") + lab.Encode("PING") + lab.Encode("GET", "a"))
	host.Want("+PONG\r\n" + lab.Bulk("1"))
	host.Send(lab.Encode("CLIENT", "REPLY", "SKIP"))
	host.Send(lab.Encode("LOCK", "skip", "60s"))
	host.WantDo("+PONG\r\n", "PING")
	lab.WantNoStray(t, c.Masters, c.Proxy)
	host.Unlock("on", host.Lock("on", "60s"))
	for i, empty := range []string{"*0\r\n", "*-1\r\n", "\r\n", " \t\n"} { // Redis ignores it, and yet it uses up SKIP
		for _, s := range []*lab.Client{lab.Dial(t, c.Upstream.Addr), host} {
			s.Send(lab.Encode("CLIENT", "REPLY", "SKIP") + empty + lab.Encode("PING"))
			s.Want("+PONG\r\n")
		}
		key := fmt.Sprint("empty-", i)
		host.Send(lab.Encode("CLIENT", "REPLY", "SKIP") + empty + lab.Encode("LOCK", key, "60s") + lab.Encode("PING"))
		token := lab.TokenOf(host.Frame())
		host.Want("+PONG\r\n")
		host.Unlock(key, token)
	}
}

// OFF queued in a transaction takes effect when it runs, in the middle of EXEC's reply.
func TestQueuedClientReplyTakesEffectInExec(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	for i, queued := range []string{lab.Encode("CLIENT", "REPLY", "OFF"), lab.Encode("CLIENT", "REPLY", "SKIP")} {
		for _, pipelined := range []bool{true, false} {
			host, direct := lab.Dial(t, c.Addr), lab.Dial(t, c.Upstream.Addr)
			run := func(host *lab.Client, middle string) (all string) {
				begin, end := lab.Encode("MULTI")+queued, lab.Encode("EXEC")+middle+lab.Encode("CLIENT", "REPLY",
					"ON")+lab.Encode("PING")
				if pipelined {
					host.Send(begin + end)
				} else {
					host.Send(begin)
					all = host.Frame() + host.Frame()
					host.Send(end)
				}
				// The proxy needs two seconds to find that replies are off, and more on a busy
				// machine.
				for deadline := time.Now().Add(time.Minute); !strings.HasSuffix(all, "+PONG\r\n") && time.Now().Before(deadline); {
					part, _, _ := host.Rest(20 * time.Millisecond)
					all += part
				}
				return all
			}
			want := run(direct, lab.Encode("NO-SUCH-COMMAND"))
			got := run(host, lab.Encode("LOCK", fmt.Sprintf("job-%d-%v", i, pipelined), "60s"))
			if got != want {
				t.Errorf("%q in a transaction (pipelined %v), then LOCK: %q, Redis gives %q", queued, pipelined, got, want)
			}
		}
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

func TestMonitorSeesNoLock(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host, other := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "MONITOR")
	for i := range 20 {
		key := fmt.Sprintf("job-%d", i)
		host.Send(lab.Encode("LOCK", key, "60s"))
		other.WantDo("+OK\r\n", "SET", key, "seen by the monitor")
		token := ""
		for lines := 0; token == "" && lines < 10; lines++ {
			line := host.Frame()
			if token = lab.TokenOf(line); token == "" && !strings.HasPrefix(line, "+1") {
				t.Fatalf("got %q, want a line of MONITOR or a token", line)
			}
			if strings.Contains(line, "\"LOCK\"") {
				t.Errorf("the upstream got the LOCK: %q", line)
			}
		}
		other.Unlock(key, token)
	}
}

// Pushes come between replies, never inside one, and a LOCK among them is answered in its place.
func TestPushesComeBetweenReplies(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host, other := lab.Dial3(t, c.Addr), lab.Dial(t, c.Addr)
	host.WantDo(">3\r\n"+lab.Bulk("subscribe")+lab.Bulk("news")+":1\r\n", "SUBSCRIBE", "news")
	host.WantDo("+OK\r\n", "CLIENT", "TRACKING", "ON", "BCAST")
	stop, flooded := make(chan struct{}), make(chan error, 1)
	go func() { flooded <- flood(other.Conn, stop) }()
	r := &replyReader{Client: host}
	for i := range 100 {
		key, echo := fmt.Sprintf("job-%d", i), fmt.Sprintf("echo-%d", i)
		host.Send(lab.Encode("ECHO", echo) + lab.Encode("LOCK", key, "60s") + lab.Encode("LOCK", key,
			"60s") + lab.Encode("ECHO", echo))
		r.wantReply(lab.Bulk(echo))
		token := lab.TokenOf(r.reply())
		if token == "" {
			t.Fatalf("LOCK %s: got no token", key)
		}
		r.wantReply(lab.Null3)
		r.wantReply(lab.Bulk(echo))
		host.Send(lab.Encode("UNLOCK", key, token))
		r.wantReply(":1\r\n")
	}
	close(stop)
	if err := <-flooded; err != nil || r.pushes == 0 {
		t.Errorf("got %d pushes, %v, want some and no error", r.pushes, err)
	}
}

// replyReader counts the pushes between replies.
type replyReader struct {
	*lab.Client
	pushes int
}

// reply returns the next reply. Pushes before it must be messages or invalidations.
func (r *replyReader) reply() string {
	r.T.Helper()
	for {
		frame := r.Frame()
		if !lab.IsPush(frame) {
			return frame
		}
		if r.pushes++; !strings.Contains(frame, "message") && !strings.Contains(frame, "invalidate") {
			r.T.Fatalf("got push %q, want a message or an invalidation", frame)
		}
	}
}

func (r *replyReader) wantReply(want string) {
	r.T.Helper()
	if got := r.reply(); got != want {
		r.T.Fatalf("got %q, want %q", got, want)
	}
}

// flood publishes and writes, for messages and invalidations, until stop is closed.
func flood(c *lab.Conn, stop <-chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		text := strings.Repeat(fmt.Sprintf("$57\r\n%d", i), 1+i%50)
		if _, err := c.Ask("PUBLISH", "news", text); err != nil {
			return err
		}
		if _, err := c.Ask("SET", "news", text); err != nil {
			return err
		}
	}
}

// An attribute belongs to the reply after it and is not a reply itself.
func TestAttributeBelongsToItsReply(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	direct, host := lab.Dial3(t, c.Upstream.Addr), lab.Dial3(t, c.Addr)
	for _, kind := range []string{"attrib", "push", "map", "set", "double", "bignum", "verbatim", "null", "true",
		"string", "array"} {
		direct.Send(lab.Encode("DEBUG", "PROTOCOL", kind) + lab.Encode("ECHO", "end"))
		want := ""
		for !strings.HasSuffix(want, lab.Bulk("end")) {
			want += direct.Frame()
		}
		host.Send(lab.Encode("DEBUG", "PROTOCOL", kind) + lab.Encode("LOCK", kind, "60s") + lab.Encode("ECHO", "end"))
		host.Want(strings.TrimSuffix(want, lab.Bulk("end")))
		token := lab.TokenOf(host.Frame())
		host.Want(lab.Bulk("end"))
		host.Unlock(kind, token)
	}
}
