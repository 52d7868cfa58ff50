package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func newTestServer(t *testing.T) (*Redis, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.ErrorLevel)
	m, err := newServer("memory", zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m, logs
}

// rawClient talks to a Redis in bytes.
type rawClient struct {
	*bufConn
	*bufio.Reader
	t *testing.T
}

func (c rawClient) Read(b []byte) (int, error) { return c.Reader.Read(b) }

func (m *Redis) dialTest(t *testing.T) rawClient {
	t.Helper()
	conn, err := m.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return rawClient{conn.(*bufConn), bufio.NewReader(conn), t}
}

func (c rawClient) send(args ...string) {
	c.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	io.WriteString(c.bufConn, b.String())
}

// expect reads as many bytes as want has, with \n for CRLF.
func (c rawClient) expect(want string) {
	c.t.Helper()
	want = strings.ReplaceAll(want, "\n", "\r\n")
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.Reader, got)
	if string(got[:n]) != want {
		c.t.Errorf("got %q %v, want %q", got[:n], err, want)
	}
}

func (c rawClient) call(want string, args ...string) {
	c.t.Helper()
	c.send(args...)
	c.expect(want)
}

func TestEmbeddedServesAnOrdinaryClient(t *testing.T) {
	m, logs := newTestServer(t)
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Dialer: m.Dial, Protocol: protocol, ClientName: "app", DB: 1})
		defer client.Close()
		ctx := t.Context()
		if err := client.Set(ctx, "k", "v", 30*time.Millisecond).Err(); err != nil {
			t.Fatal(err)
		}
		if v, err := client.Get(ctx, "k").Result(); v != "v" || err != nil {
			t.Errorf("got %q %v", v, err)
		}
		waitExpired(t, client, "k")
		wantTransactionAndMessage(t, client)
		if info, err := client.InfoMap(ctx, "server", "replication").Result(); err != nil ||
			len(info["Server"]["run_id"]) != 40 ||
			info["Replication"]["role"] != "master" || info["Stats"] != nil {
			t.Errorf("INFO: %v %v", info, err)
		}
		if err := client.Do(ctx, "NOSUCH", "x").Err(); err == nil ||
			!strings.HasPrefix(err.Error(), "ERR unknown command `NOSUCH`") {
			t.Errorf("unknown command: %v", err)
		}
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// waitExpired waits until a key with a short ttl has expired.
func waitExpired(t *testing.T, client *redis.Client, key string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); client.Exists(t.Context(), key).Val() != 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("expiry does not run in real time")
		}
	}
}

// wantTransactionAndMessage: a transaction counts to an even number, and a subscriber gets what is
// published.
func wantTransactionAndMessage(t *testing.T, client *redis.Client) {
	t.Helper()
	ctx := t.Context()
	results, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "n")
		p.Incr(ctx, "n")
		return nil
	})
	if err != nil || results[1].(*redis.IntCmd).Val()%2 != 0 {
		t.Errorf("transaction: %v %v", results, err)
	}
	sub := client.Subscribe(ctx, "news")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	client.Publish(ctx, "news", "hello")
	if message := <-sub.Channel(); message.Payload != "hello" {
		t.Errorf("got %v", message)
	}
}

func TestEmbeddedAnswersWhatMiniredisLacks(t *testing.T) {
	m, _ := newTestServer(t)
	c := m.dialTest(t)
	c.call(":1\n", "CLIENT", "ID")
	c.call("+OK\n", "client", "setinfo", "lib-name", "x")
	c.call("-ERR wrong number of arguments for 'client|setinfo' command\n", "CLIENT", "SETINFO", "x")
	c.call("+OK\n", "CLIENT", "SETNAME", "me")
	c.call("$2\nme\n", "CLIENT", "GETNAME")
	c.call("*3\n$6\nmaster\n:0\n*0\n", "ROLE")
	c.call("*2\n$16\nmaxmemory-policy\n$10\nnoeviction\n", "CONFIG", "GET", "MAXMEMORY-*")
	c.call("-ERR the embedded server has no settings", "CONFIG", "SET", "maxmemory", "1")
	c.Reader.ReadString('\n')
	c.call("$7\ndefault\n", "ACL", "WHOAMI")
	c.call("*0\n", "COMMAND", "DOCS", "get")
	c.call("-ERR DB index is out of range\n", "SELECT", "16")
	c.call("+OK\n", "SELECT", "15")
	c.call("+OK\n", "SET", "k", "in 15")
	c.call("+OK\n", "MULTI")
	c.call("+RESET\n", "RESET")
	c.call("$-1\n", "GET", "k")
	c.call("$-1\n", "CLIENT", "GETNAME")
	c.send("HELLO", "3", "SETNAME", "three")
	c.expect("%7\n")
	for line := ""; line != "*0\r\n"; line, _ = c.Reader.ReadString('\n') {
	}
	c.call("$5\nthree\n", "CLIENT", "GETNAME")
	c.call("%1\n$4\nsave\n$0\n\n", "CONFIG", "GET", "save")
	c.call("+RESET\n", "RESET")
	c.call("*2\n$4\nsave\n$0\n\n", "CONFIG", "GET", "save")
	c.call("+OK\n", "QUIT")
	if _, err := c.Reader.ReadByte(); err != io.EOF {
		t.Errorf("after QUIT: %v", err)
	}
}

// TestEmbeddedDescribesConnectionsLikeRedis: a bare HELLO, HELLO with a wrong option and ACL
// WHOAMI answer as Redis does, wherever the connection is.
func TestEmbeddedDescribesConnectionsLikeRedis(t *testing.T) {
	m, _ := newTestServer(t)
	c := m.dialTest(t)
	const modules = "$7\nmodules\n*1\n"
	const map2 = "*14\n$6\nserver\n$9\nminiredis\n$7\nversion\n$5\n8.4.0\n$5\nproto\n:2\n" +
		"$2\nid\n:42\n$4\nmode\n$10\nstandalone\n$4\nrole\n$6\nmaster\n" +
		modules + "*8\n$4\nname\n$9\nvectorset\n$3\nver\n:1\n$4\npath\n$0\n\n$4\nargs\n*0\n"
	const map3 = "%7\n$6\nserver\n$9\nminiredis\n$7\nversion\n$5\n8.4.0\n$5\nproto\n:3\n" +
		"$2\nid\n:42\n$4\nmode\n$10\nstandalone\n$4\nrole\n$6\nmaster\n" +
		modules + "%4\n$4\nname\n$9\nvectorset\n$3\nver\n:1\n$4\npath\n$0\n\n$4\nargs\n*0\n"
	const wrong = "-ERR Syntax error in HELLO option 'word'\n"
	c.call(map2, "HELLO")
	c.call(wrong, "HELLO", "3", "word")
	c.call(map2, "HELLO") // the refused HELLO had no effect
	c.call("+OK\n", "MULTI")
	c.call("+QUEUED\n", "HELLO")
	c.call("+QUEUED\n", "SET", "k", "v")
	c.call("+QUEUED\n", "HELLO", "3", "word")
	c.call("+QUEUED\n", "ACL", "WHOAMI")
	c.call("+QUEUED\n", "GET", "k")
	c.call("*5\n"+map2+"+OK\n"+wrong+"$7\ndefault\n$1\nv\n", "EXEC")
	c.call("+OK\n", "MULTI")
	c.call("+QUEUED\n", "HELLO")
	c.call("+OK\n", "DISCARD")
	c.call("+OK\n", "MULTI")
	c.call("+QUEUED\n", "HELLO", "3")
	c.call("-ERR unknown command `x`, with args beginning with: \n", "x")
	c.call("-EXECABORT Transaction discarded because of previous errors.\n", "EXEC")
	c.call(map2, "HELLO")
	c.call("+OK\n", "MULTI")
	c.call("+QUEUED\n", "HELLO", "3")
	c.call("*1\n"+map3, "EXEC")
	c.call(map3, "HELLO")
	c.call("+RESET\n", "RESET")
	c.call("*3\n$9\nsubscribe\n$4\nnews\n:1\n", "SUBSCRIBE", "news")
	const only = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\n"
	c.call("-ERR Can't execute 'hello': "+only, "HELLO")
	c.call("-ERR Can't execute 'hello': "+only, "hello", "3", "word")
	c.call("-ERR Can't execute 'acl': "+only, "ACL", "WHOAMI")
	m.dialTest(t).call(":1\n", "PUBLISH", "news", "x")
	c.expect("*3\n$7\nmessage\n$4\nnews\n$1\nx\n")
	c.call("*3\n$11\nunsubscribe\n$4\nnews\n:0\n", "UNSUBSCRIBE", "news")
	c.call(map2, "HELLO")
}

func TestEmbeddedResetEndsSubscriptions(t *testing.T) {
	m, _ := newTestServer(t)
	c, other := m.dialTest(t), m.dialTest(t)
	c.call("*3\n$9\nsubscribe\n$4\nnews\n:1\n", "SUBSCRIBE", "news")
	other.call(":1\n", "PUBLISH", "news", "x")
	c.expect("*3\n$7\nmessage\n$4\nnews\n$1\nx\n")
	c.call("+RESET\n", "RESET")
	other.call(":0\n", "PUBLISH", "news", "x")
	c.call("+PONG\n", "PING")
}

func TestEmbeddedAbortsMultiLikeRedis(t *testing.T) {
	m, _ := newTestServer(t)
	for name, bad := range map[string][]string{
		"unknown": {"4711"}, "arity": {"GET"}, "of ours": {"CLIENT", "ID"}, "guarded": {"SETRANGE", "k", "9999999999", "x"},
		"role": {"ROLE"},
	} {
		t.Run(name, func(t *testing.T) {
			c := m.dialTest(t)
			c.call("+OK\n", "MULTI")
			c.call("+QUEUED\n", "SET", "k", "v")
			c.call("-ERR", bad...)
			c.Reader.ReadString('\n')
			c.call("-EXECABORT Transaction discarded because of previous errors.\n", "EXEC")
			c.call("$-1\n", "GET", "k")
			c.call("-ERR unknown command `x`, with args beginning with: \n", "x")
			c.call("+OK\n", "MULTI")
			c.call("+QUEUED\n", "PING")
			c.call("*1\n+PONG\n", "EXEC")
		})
	}
}

func TestEmbeddedKill(t *testing.T) {
	m, _ := newTestServer(t)
	c := m.dialTest(t)
	victim := m.dialTest(t)
	victim.call(":2\n", "CLIENT", "ID")
	victim.send("BLPOP", "l", "0")
	c.call(":0\n", "CLIENT", "KILL", "ID", "99")
	c.call(":0\n", "CLIENT", "KILL", "ID", "1")
	c.call(":1\n", "CLIENT", "KILL", "ID", "2", "SKIPME", "yes")
	if _, err := victim.Reader.ReadByte(); err != io.EOF {
		t.Errorf("the other connection lives on: %v", err)
	}
	c.call(":1\n", "RPUSH", "l", "x")
	c.call(":1\n", "LLEN", "l") // the element is still there
	c.call("-ERR the embedded server knows CLIENT KILL ID", "CLIENT", "KILL", "TYPE", "normal")
	c.Reader.ReadString('\n')
	c.call(":1\n", "CLIENT", "KILL", "ID", "1", "SKIPME", "no")
	if _, err := c.Reader.ReadByte(); err != io.EOF {
		t.Errorf("a connection that killed itself lives on: %v", err)
	}
}

// waitFor polls until condition holds.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func TestEmbeddedClientThatLeavesWhileBlocked(t *testing.T) {
	m, _ := newTestServer(t)
	watcher := m.dialTest(t)
	watcher.call("+PONG\n", "PING")
	before := runtime.NumGoroutine()
	for name, leave := range map[string]func(*bufConn){
		"close": func(c *bufConn) { c.Close() },
		"half":  func(c *bufConn) { c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				c := m.dialTest(t)
				c.send("BLPOP", "l", "0")
				c.send("PING") // the next command waits for it
				leave(c.bufConn)
			}
			waitFor(t, name+": the sessions end", func() bool { open, _ := m.connections(); return open == 1 })
			watcher.call(":1\n", "RPUSH", "l", "x")
			watcher.call("$1\nx\n", "LPOP", "l") // the disconnected client popped no element
		})
	}
	waitFor(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestEmbeddedHalfCloseStillAnswers(t *testing.T) {
	m, _ := newTestServer(t)
	for range 300 {
		c := m.dialTest(t)
		c.send("RPUSH", "l", "a")
		c.send("BLPOP", "l", "0")
		c.send("PING")
		c.CloseWrite()
		if got, err := io.ReadAll(c.Reader); err != nil || string(got) != ":1\r\n*2\r\n$1\r\nl\r\n$1\r\na\r\n+PONG\r\n" {
			t.Fatalf("got %q %v", got, err)
		}
	}
}

// TestEmbeddedHalfCloseLooksOnce: however late a blocking command begins after the half-close, it
// looks at its keys.
func TestEmbeddedHalfCloseLooksOnce(t *testing.T) {
	m, _ := newTestServer(t)
	c := m.dialTest(t)
	c.call(":2\n", "RPUSH", "l", "a", "b")
	c.call(":1\n", "ZADD", "z", "1", "m")
	c.call("$3\n1-1\n", "XADD", "x", "1-1", "f", "v")
	c.call("+OK\n", "XGROUP", "CREATE", "x", "block", "0")
	for _, test := range []struct{ command, want string }{
		{"BLPOP none l 0", "*2\n$1\nl\n$1\na\n"},
		{"BLMOVE l other LEFT LEFT 0", "$1\nb\n"},
		{"BZMPOP 0 1 z MIN", "*2\n$1\nz\n*1\n*2\n$1\nm\n$1\n1\n"},
		{"XREAD BLOCK 0 STREAMS x 0", "*1\n*2\n$1\nx\n*1\n*2\n$3\n1-1\n*2\n$1\nf\n$1\nv\n"},
		{"XREADGROUP GROUP block c BLOCK 0 STREAMS x >", "*1\n*2\n$1\nx\n*1\n*2\n$3\n1-1\n*2\n$1\nf\n$1\nv\n"},
		{"BLPOP none 0", ""},
		{"BLMOVE none other LEFT LEFT 0", ""},
		{"BZMPOP 0 1 none MIN", ""},
		{"XREAD BLOCK 0 STREAMS x $", ""},
	} {
		t.Run(test.command, func(t *testing.T) {
			c := m.dialTest(t)
			before := m.srv.TotalCommands()
			m.mini.Lock() // the command waits for this before it looks at its keys
			c.send(strings.Fields(test.command)...)
			c.send("PING")
			c.CloseWrite()
			waitFor(t, "the command is ended",
				func() bool { return m.srv.TotalCommands() == before+2 }) // itself, and what wakes it
			m.mini.Unlock()
			want := strings.ReplaceAll(test.want, "\n", "\r\n")
			if want != "" {
				want += "+PONG\r\n"
			}
			if got, err := io.ReadAll(c.Reader); err != nil || string(got) != want {
				t.Errorf("%s: got %q %v, want %q", test.command, got, err, want)
			}
		})
	}
}

func TestEmbeddedCloseEndsConnections(t *testing.T) {
	before := runtime.NumGoroutine()
	e, err := New(zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	runIDs := map[string]bool{}
	for _, m := range append(e.Masters(), e.Upstream) {
		runIDs[m.runID] = true
		c := m.dialTest(t)
		c.send("SUBSCRIBE", "x")
		c.send("BLPOP", "x", "0")
		m.dialTest(t).send("BLPOP", "x", "0")
	}
	if len(e.Masters()) != 5 || len(runIDs) != 6 {
		t.Errorf("%d masters, %d run ids", len(e.Masters()), len(runIDs))
	}
	e.Close()
	if _, err := e.Upstream.Dial(context.Background(), "", ""); !errors.Is(err, errServerClosed) {
		t.Errorf("dial after Close: %v", err)
	}
	waitFor(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	(*Servers)(nil).Close()
}

// TestNoticeFitsScreen: the notice names the servers, the next commands and the page, and fits one
// screen together with the line before it.
func TestNoticeFitsScreen(t *testing.T) {
	for page, lines := range map[string]int{"": 15, "http://127.0.0.1:54321/": 17} {
		t.Run(page, func(t *testing.T) {
			var b bytes.Buffer
			WriteNotice(&b, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 54321}, page)
			text := b.String()
			for _, want := range []string{"for trying out", "gone when it ends", "redis-cli -p 54321 LOCK job 30s ",
				"--masters", "--help", page} {
				if !strings.Contains(text, want) {
					t.Errorf("the notice lacks %q:\n%s", want, text)
				}
			}
			if n := strings.Count(text, "\n"); n != lines {
				t.Errorf("%d lines, want %d:\n%s", n, lines, text)
			}
			for line := range strings.SplitSeq(text, "\n") {
				if len(line) > 79 {
					t.Errorf("%d columns: %s", len(line), line)
				}
			}
		})
	}
	var b bytes.Buffer
	WriteNotice(&b, &net.UnixAddr{Name: "/run/x", Net: "unix"}, "")
	if !strings.Contains(b.String(), "redis-cli -s /run/x LOCK job 30s") {
		t.Errorf("the notice for a Unix socket:\n%s", b.String())
	}
}
