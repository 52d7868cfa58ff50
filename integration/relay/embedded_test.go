package relay

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The embedded default: no settings, all servers in one process.

// The session that a newcomer types works.
func TestEmbeddedSessionWorks(t *testing.T) {
	t.Parallel()
	p := lab.StartEmbedded(t)
	for _, host := range []*lab.Client{lab.Dial(t, p.Addr), lab.Dial3(t, p.Addr)} {
		null := map[bool]string{true: lab.Null2, false: lab.Null3}[host.Do("GET", "none") == lab.Null2]
		host.WantDo("+PONG\r\n", "PING")
		host.WantDo("+OK\r\n", "SET", "greeting", "hello")
		host.WantDo(lab.Bulk("hello"), "GET", "greeting")
		token := host.Lock("job", "60s")
		host.WantDo(null, "LOCK", "job", "5000")
		host.Unlock("job", token)
		host.WantDo(":0\r\n", "UNLOCK", "job", token)
		later := host.Lock("job", "60s")
		if later <= token {
			t.Errorf("got token %s after %s, want a greater one", later, token)
		}
		host.Unlock("job", later)
		host.WantDo("-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s\r\n", "LOCK", "job", "soon")

		start, short := time.Now(), "short-"+null
		host.Lock(short, "1s")
		lab.WaitFor(t, "expiry in real time", lab.Patience, func() bool {
			return lab.TokenOf(host.Do("LOCK", short, "5s")) != ""
		})
		if took := time.Since(start); took < 990*time.Millisecond { // a busy machine can only add to it
			t.Errorf("a lock of 1s was free again after %v, want at least 990ms", took)
		}
		play(host, []step{{lab.Encode("SET", "a", "1") + lab.Encode("LOCK", "piped", "60s") + lab.Encode("GET", "a"),
			"+OK\r\n"}}, host.Send)
		piped := lab.TokenOf(host.Frame())
		host.Want(lab.Bulk("1"))
		host.Unlock("piped", piped)
	}
	if !p.Says("LOCK") {
		t.Errorf("the first lines of the log do not mention LOCK:\n%.1000s", p.Log.String())
	}
}

// Transactions, subscriptions and blocking commands work on the embedded upstream.
func TestEmbeddedConnectionStatesWork(t *testing.T) {
	t.Parallel()
	p := lab.StartEmbedded(t)
	host, other := lab.Dial(t, p.Addr), lab.Dial(t, p.Addr)
	play(host, []step{{lab.Encode("MULTI"), "+OK\r\n"}, {lab.Encode("SET", "a", "1"), "+QUEUED\r\n"},
		{lab.Encode("LOCK", "job", "5s"), inMulti},
		{lab.Encode("EXEC"), execAbort}, {lab.Encode("GET", "a"), lab.Null2}}, host.Send)
	host.WantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	host.WantDo(subscribedError("lock"), "LOCK", "job", "5s")
	other.WantDo(":1\r\n", "PUBLISH", "news", "x")
	host.Want("*3\r\n" + lab.Bulk("message") + lab.Bulk("news") + lab.Bulk("x"))
	host.WantDo(subscription("unsubscribe", "news", 0), "UNSUBSCRIBE", "news")
	host.Unlock("job", host.Lock("job", "5s"))
	host.Send(lab.Encode("BLPOP", "queue", "0") + lab.Encode("LOCK", "job", "5s"))
	other.WantDo(":1\r\n", "RPUSH", "queue", "x")
	host.Want("*2\r\n" + lab.Bulk("queue") + lab.Bulk("x"))
	host.Unlock("job", lab.TokenOf(host.Frame()))
	other.WantDo(":0\r\n", "LLEN", "queue")
}
