package integration

import (
	"fmt"
	"strings"
	"testing"
)

// subscribedError is what Redis says to a command that a RESP2 connection with subscriptions may not send.
func subscribedError(command string) string {
	return "-ERR Can't execute '" + command + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET " +
		"are allowed in this context\r\n"
}

func subscription(kind, channel string, n int) string {
	return "*3\r\n" + bulk(kind) + bulk(channel) + integer(n)
}

func TestSubscribed(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host, other := dial(t, c.addr), dial(t, c.addr)
	host.wantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	if got := host.do("GET", "a"); got != subscribedError("get") {
		t.Fatalf("Redis itself says %q", got)
	}
	host.wantDo(subscribedError("lock"), "LOCK", "job", "60s")
	host.wantDo(subscribedError("unlock"), "UNLOCK", "job", "0000000000000001:"+strings.Repeat("0", 40))
	other.wantDo(":1\r\n", "PUBLISH", "news", "hello")
	host.want("*3\r\n" + bulk("message") + bulk("news") + bulk("hello"))
	host.wantDo("*2\r\n"+bulk("pong")+bulk("x"), "PING", "x")
	host.wantDo(subscription("unsubscribe", "news", 0), "UNSUBSCRIBE", "news")
	host.unlock("job", host.lock("job", "60s"))

	for _, way := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"} {
		kind, end := strings.ToLower(way), strings.Replace(way, "SUB", "UNSUB", 1)
		key := "job-" + kind
		token := play(host, []step{
			{encode(way, "a", "b"), subscription(kind, "a", 1) + subscription(kind, "b", 2)},
			{encode("LOCK", key, "60s"), subscribedError("lock")},
			{encode(end, "a"), subscription(strings.ToLower(end), "a", 1)},
			{encode("LOCK", key, "60s"), subscribedError("lock")},
			{encode(end, "b", "none"), subscription(strings.ToLower(end), "b", 0) + subscription(strings.ToLower(end), "none", 0)},
			{encode("LOCK", key, "60s"), "token"},
			{encode("PING"), "+PONG\r\n"},
		}, host.send)[0]
		host.unlock(key, token)
	}
	host.wantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	host.wantDo("+RESET\r\n", "RESET")
	host.unlock("job", host.lock("job", "60s"))
	wantNoStray(t, c.masters, c.proxy)
}

// TestSubscribedMessages: messages that arrive while replies of ours are written neither tear nor displace them.
func TestSubscribedMessages(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host, other := dial(t, c.addr), dial(t, c.addr)
	host.wantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	stop, flooded := make(chan struct{}), make(chan error, 1)
	go func() { flooded <- flood(other.conn, stop) }()
	for i := range 200 {
		host.send(encode("LOCK", "job", "60s") + encode("PING", fmt.Sprint(i)))
		for _, want := range []string{subscribedError("lock"), "*2\r\n" + bulk("pong") + bulk(fmt.Sprint(i))} {
			got := host.frame()
			for strings.HasPrefix(got, "*3\r\n"+bulk("message")) {
				got = host.frame()
			}
			if got != want {
				t.Fatalf("got %.200q, want %q", got, want)
			}
		}
	}
	close(stop)
	if err := <-flooded; err != nil {
		t.Error(err)
	}
}
