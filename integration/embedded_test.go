package integration

import (
	"strings"
	"testing"
	"time"
)

// The embedded default: no settings, everything in one process.

// startEmbedded starts the proxy with nothing but an address to listen at.
func startEmbedded(t testing.TB) *proxy {
	t.Helper()
	p := startProxy(t)
	p.waitVoting(t)
	return p
}

// TestEmbedded: the session that a newcomer types.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	p := startEmbedded(t)
	for _, host := range []*client{dial(t, p.addr), dial3(t, p.addr)} {
		null := map[bool]string{true: null2, false: null3}[host.do("GET", "none") == null2]
		host.wantDo("+PONG\r\n", "PING")
		host.wantDo("+OK\r\n", "SET", "greeting", "hello")
		host.wantDo(bulk("hello"), "GET", "greeting")
		token := host.lock("job", "5s")
		host.wantDo(null, "LOCK", "job", "5000")
		host.unlock("job", token)
		host.wantDo(":0\r\n", "UNLOCK", "job", token)
		later := host.lock("job", "5s")
		if later <= token {
			t.Errorf("token %s after %s", later, token)
		}
		host.unlock("job", later)
		host.wantDo("-ERR invalid expire time in 'lock' command\r\n", "LOCK", "job", "soon")

		start, short := time.Now(), "short-"+null
		host.lock(short, "1s")
		host.wantDo(null, "LOCK", short, "1s")
		waitFor(t, "expiry in real time", patience, func() bool { return tokenOf(host.do("LOCK", short, "5s")) != "" })
		if took := time.Since(start); took < 990*time.Millisecond {
			t.Errorf("a lock of 1s was free again after %v", took)
		}
		play(host, []step{{encode("SET", "a", "1") + encode("LOCK", "piped", "5s") + encode("GET", "a"), "+OK\r\n"}}, host.send)
		piped := tokenOf(host.frame())
		host.want(bulk("1"))
		host.unlock("piped", piped)
	}
	if !strings.Contains(p.log.String(), "LOCK") {
		t.Errorf("the first lines do not tell what to type:\n%.1000s", p.log.String())
	}
}

// TestEmbeddedStates: transactions, subscriptions and blocking commands on the embedded upstream.
func TestEmbeddedStates(t *testing.T) {
	t.Parallel()
	p := startEmbedded(t)
	host, other := dial(t, p.addr), dial(t, p.addr)
	play(host, []step{{encode("MULTI"), "+OK\r\n"}, {encode("SET", "a", "1"), "+QUEUED\r\n"}, {encode("LOCK", "job", "5s"), inMulti},
		{encode("EXEC"), execAbort}, {encode("GET", "a"), null2}}, host.send)
	host.wantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	host.wantDo(subscribedError("lock"), "LOCK", "job", "5s")
	other.wantDo(":1\r\n", "PUBLISH", "news", "x")
	host.want("*3\r\n" + bulk("message") + bulk("news") + bulk("x"))
	host.wantDo(subscription("unsubscribe", "news", 0), "UNSUBSCRIBE", "news")
	host.unlock("job", host.lock("job", "5s"))
	host.send(encode("BLPOP", "queue", "0") + encode("LOCK", "job", "5s"))
	other.wantDo(":1\r\n", "RPUSH", "queue", "x")
	host.want("*2\r\n" + bulk("queue") + bulk("x"))
	host.unlock("job", tokenOf(host.frame()))
	other.wantDo(":0\r\n", "LLEN", "queue")
}

// TestEmbeddedAttacks: miniredis ends the process on bytes that Redis refuses, unless they never reach it.
func TestEmbeddedAttacks(t *testing.T) {
	t.Parallel()
	p := startEmbedded(t)
	for _, a := range attacks() {
		before := p.cpu(t)
		a.mount(t, p.addr, nil)
		if !p.running() {
			t.Fatalf("%s: the process is gone: %v\n%s", a.name, p.err, p.log.tail(3000))
		}
		if used := p.cpu(t) - before; used > 400*time.Millisecond*slack {
			t.Errorf("%s: cost %v of processor time", a.name, used)
		}
		host := dial(t, p.addr)
		host.wantDo("+PONG\r\n", "PING")
		host.unlock("job", host.lock("job", "5s"))
		host.Close()
	}
	if peak := p.memory(t, "VmHWM"); peak > memoryBound {
		t.Errorf("the process used up to %d MB, want under %d", peak, memoryBound)
	}
}
