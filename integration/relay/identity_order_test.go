package relay

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// lockproxy in front of upstreams that check authentication before they look a command up.

// tap forwards connections to target, and records the bytes sent there.
type tap struct {
	addr string
	mu   sync.Mutex
	text strings.Builder
}

func startTap(t *testing.T, target string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{addr: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			wg.Go(func() { p.carry(server, client, true); _ = server.(*net.TCPConn).CloseWrite() })
			wg.Go(func() { p.carry(client, server, false); client.Close(); server.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return p
}

func (p *tap) carry(to, from net.Conn, keep bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if keep {
			p.mu.Lock()
			p.text.Write(buf[:n])
			p.mu.Unlock()
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *tap) saw(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.text.String(), text)
}

// orderCluster starts a proxy with a tap between it and the upstream.
func orderCluster(t *testing.T, upstream authFirst) (*lab.Proxy, *tap) {
	t.Helper()
	tap := startTap(t, upstream.addr)
	p := lab.StartProxy(t, "--upstream", tap.addr, "--masters", lab.StartRedis(t).Addr, "--restart-guard", "off")
	host := lab.Dial(t, p.Addr)
	host.Do("AUTH", "secret")
	lab.WaitFor(t, "first lock", lab.Patience, func() bool { return lab.TokenOf(host.Do("LOCK", "warm-up", "1s")) != "" })
	return p, tap
}

func TestAuthFirstPacketsGetRepliesInOrder(t *testing.T) {
	t.Parallel()
	auth, ping, pong, ok := lab.Encode("AUTH", "secret"), lab.Encode("PING"), "+PONG\r\n", "+OK\r\n"
	lock := func(key string) string { return lab.Encode("LOCK", key, "60s") }
	token := "0000000000000001:" + strings.Repeat("0f", 20)
	for _, upstream := range authFirstUpstreams(t, "--requirepass", "secret") {
		p, _ := orderCluster(t, upstream)
		for name, steps := range map[string][]step{
			"a packet":     {{auth, ok}, {ping + lock("1") + ping, pong}, {"", "token"}, {"", pong}},
			"with AUTH":    {{auth + lock("2") + ping, ok}, {"", "token"}, {"", pong}},
			"before AUTH":  {{lock("x") + auth + lock("3") + ping, noAuth}, {"", ok}, {"", "token"}, {"", pong}},
			"a wrong AUTH": {{lab.Encode("AUTH", "no") + lock("x") + ping, "any"}, {"", noAuth}, {"", noAuth}},
			"none":         {{ping + lock("x") + ping, noAuth}, {"", noAuth}, {"", noAuth}},
			"MULTI": {{auth, ok}, {lab.Encode("MULTI") + lock("x") + lab.Encode("EXEC") + lock("4"), ok},
				{"", "-ERR LOCK is not allowed in transactions\r\n"}, {"", "any"}, {"", "token"}},
			"after EXEC": {{auth, ok}, {lab.Encode("MULTI") + ping + lab.Encode("EXEC") + lock("5"), ok},
				{"", "+QUEUED\r\n"}, {"", "*1\r\n+PONG\r\n"}, {"", "token"}},
			"UNSUBSCRIBE": {{auth, ok}, {lab.Encode("UNSUBSCRIBE") + lock("6") + ping, "any"}, {"", "token"},
				{"", pong}},
			"SUBSCRIBE": {{auth, ok}, {lab.Encode("SUBSCRIBE", "a") + lock("x"), "any"},
				{"", subscribedError("lock")}},
			"CLIENT REPLY ON": {{auth, ok}, {lab.Encode("CLIENT", "REPLY", "ON") + lock("7") + ping, ok}, {"", "token"},
				{"", pong}},
			"CLIENT REPLY SKIP": {{auth, ok}, {lab.Encode("CLIENT", "REPLY", "SKIP") + ping + lock("8") + ping, "token"},
				{"", pong}},
			"BLPOP": {{auth, ok}, {lab.Encode("BLPOP", "none", "0.05") + lock("9") + ping, "*-1\r\n"},
				{"", "token"}, {"", pong}},
			"HELLO 3": {{lab.Encode("HELLO", "3", "AUTH", "default", "secret") + lock("10") + ping, "any"},
				{"", "token"}, {"", pong}},
			"RESET": {{auth + lab.Encode("RESET") + lock("x") + auth + lock("11") + ping, ok},
				{"", "+RESET\r\n"}, {"", noAuth}, {"", ok}, {"", "token"}, {"", pong}},
			"UNLOCK of another": {{auth, ok}, {ping + lab.Encode("UNLOCK", "z", token) + ping, pong}, {"", ":0\r\n"},
				{"", pong}},
			"LOCKINFO": {{auth, ok}, {ping + lab.Encode("LOCKINFO", "z") + ping, pong}, {"", lab.Null2},
				{"", pong}},
			"unknown commands": {{lab.Encode("nope"), noAuth}, {auth, ok},
				{lab.Encode("nope") + lock("12") + lab.Encode("nope"), unknownNope}, {"", "token"}, {"", unknownNope}},
			"unknown, not in": {{lab.Encode("nope") + lock("x") + lab.Encode("GET"), noAuth}, {"", noAuth}, {"", noAuth}},
			"RESET by CLIENT SKIP": {{auth, ok}, {lab.Encode("CLIENT", "REPLY",
				"SKIP") + lab.Encode("RESET") + lock("x") + ping, noAuth}, {"", noAuth}},
		} {
			t.Run(upstream.name+", "+name, func(t *testing.T) {
				t.Parallel()
				host := lab.Dial(t, p.Addr)
				host.Timeout = lab.Patience
				converse(host, steps, false)
			})
		}
	}
}

// An UNLOCK among other commands in a packet releases the lock, and the upstream never gets a
// token.
func TestUpstreamNeverGetsToken(t *testing.T) {
	t.Parallel()
	for _, upstream := range authFirstUpstreams(t, "--requirepass", "secret") {
		t.Run(upstream.name, func(t *testing.T) {
			p, tap := orderCluster(t, upstream)
			host, other := lab.Dial(t, p.Addr), lab.Dial(t, p.Addr)
			for _, h := range []*lab.Client{host, other} {
				h.Timeout = lab.Patience
				h.WantDo("+OK\r\n", "AUTH", "secret")
			}
			for i := range 5 {
				key := fmt.Sprintf("job-%d", i)
				token := host.Lock(key, "60s")
				host.Send(lab.Encode("PING") + lab.Encode("UNLOCK", key, token) + lab.Encode("PING"))
				if got := []string{host.Frame(), host.Frame(), host.Frame()}; strings.Join(got, "") != "+PONG\r\n:1\r\n+PONG\r\n" {
					t.Errorf("UNLOCK in a packet: got %q, want PONG, 1, PONG", got)
				}
				if _, secret, _ := strings.Cut(token, ":"); tap.saw(secret) {
					t.Fatal("the proxy sent the token to the upstream")
				}
				if got := other.Do("LOCK", key, "60s"); lab.TokenOf(got) == "" {
					t.Errorf("LOCK after UNLOCK: got %q, want a token", got)
				}
			}
		})
	}
}

// A RESET of one client affects neither other connections nor new ones.
func TestResetAffectsNoOtherConnection(t *testing.T) {
	t.Parallel()
	for _, upstream := range authFirstUpstreams(t, "--requirepass", "secret") {
		t.Run(upstream.name, func(t *testing.T) {
			p, _ := orderCluster(t, upstream)
			locks := 0
			packet := func(h *lab.Client) {
				t.Helper()
				locks++
				h.Timeout = lab.Patience
				h.Send(lab.Encode("PING") + lab.Encode("LOCK", fmt.Sprintf("job-%d", locks), "60s") + lab.Encode("PING"))
				if got := []string{h.Frame(), h.Frame(), h.Frame()}; got[0] != "+PONG\r\n" || lab.TokenOf(got[1]) == "" ||
					got[2] != "+PONG\r\n" {
					t.Fatalf("packet %d: got %q, want PONG, a token, PONG", locks, got)
				}
			}
			enter := func() *lab.Client {
				h := lab.Dial(t, p.Addr)
				h.WantDo("+OK\r\n", "AUTH", "secret")
				return h
			}
			one, two := enter(), enter()
			packet(two)
			for range 5 {
				one.WantDo("+RESET\r\n", "RESET")
				one.WantDo(noAuth, "LOCK", "job", "60s")
				one.WantDo(noAuth, "nope")
				packet(two)
				packet(enter())
				lab.Pass(t, 300*time.Millisecond) // the proxy asks the upstream about itself from time to time
				packet(two)
				one.WantDo("+OK\r\n", "AUTH", "secret")
				packet(one)
			}
		})
	}
}

// A password set while connections are open blocks none of them for ever. Connections that the
// upstream let in before stay logged in.
func TestPasswordSetLaterKeepsOpenConnections(t *testing.T) {
	t.Parallel()
	for _, upstream := range authFirstUpstreams(t) {
		t.Run(upstream.name, func(t *testing.T) {
			p, _ := orderCluster(t, upstream)
			busy, silent, subscribed := lab.Dial(t, p.Addr), lab.Dial(t, p.Addr), lab.Dial3(t, p.Addr)
			busy.WantDo("+PONG\r\n", "PING")
			busy.Unlock("job", busy.Lock("job", "60s"))
			subscribed.Do("SUBSCRIBE", "a")
			upstream.server.Must(t, "CONFIG", "SET", "requirepass", "secret")
			for round := range 4 {
				key := fmt.Sprintf("job-%d-", round)
				wantLockAmongPings(busy, key+"open", true)
				wantLockAmongPings(subscribed, key+"subscribed", true)
				wantLockAmongPings(silent, key+"silent", false) // its first command
				wantLockAmongPings(lab.Dial(t, p.Addr), key+"new", false)
				lab.Pass(t, 400*time.Millisecond)
			}
			busy.WantDo("+RESET\r\n", "RESET")
			busy.WantDo(noAuth, "LOCK", "job", "60s")
			busy.WantDo("+OK\r\n", "AUTH", "secret")
			busy.Lock("job", "60s")
		})
	}
}

// wantLockAmongPings sends PING, LOCK and PING in one packet. All three must succeed if the
// connection is logged in, and be refused otherwise.
func wantLockAmongPings(host *lab.Client, key string, loggedIn bool) {
	host.T.Helper()
	host.Timeout = lab.Patience
	want := noAuth
	if loggedIn {
		want = "+PONG\r\n"
	}
	host.Send(lab.Encode("PING") + lab.Encode("LOCK", key, "60s") + lab.Encode("PING"))
	if got := host.Frame(); got != want {
		host.T.Errorf("%s: first PING: got %q, want %q", key, got, want)
	}
	if got := host.Frame(); (lab.TokenOf(got) != "") != loggedIn {
		host.T.Errorf("%s: LOCK: got %q, want a token: %v", key, got, loggedIn)
	}
	if got := host.Frame(); got != want {
		host.T.Errorf("%s: last PING: got %q, want %q", key, got, want)
	}
}
