package relay

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// subscribedError returns Redis' error for a command that a RESP2 connection with subscriptions
// may not send.
func subscribedError(command string) string {
	return "-ERR Can't execute '" + command + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET " +
		"are allowed in this context\r\n"
}

func subscription(kind, channel string, n int) string {
	return "*3\r\n" + lab.Bulk(kind) + lab.Bulk(channel) + lab.Integer(n)
}

func TestLockIsRefusedWhileSubscribed(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host, other := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
	host.WantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	if got := host.Do("GET", "a"); got != subscribedError("get") {
		t.Fatalf("GET while subscribed: Redis answered %q, want %q", got, subscribedError("get"))
	}
	host.WantDo(subscribedError("lock"), "LOCK", "job", "60s")
	host.WantDo(subscribedError("unlock"), "UNLOCK", "job", "0000000000000001:"+strings.Repeat("0", 40))
	other.WantDo(":1\r\n", "PUBLISH", "news", "hello")
	host.Want("*3\r\n" + lab.Bulk("message") + lab.Bulk("news") + lab.Bulk("hello"))
	host.WantDo("*2\r\n"+lab.Bulk("pong")+lab.Bulk("x"), "PING", "x")
	host.WantDo(subscription("unsubscribe", "news", 0), "UNSUBSCRIBE", "news")
	host.Unlock("job", host.Lock("job", "60s"))

	for _, way := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"} {
		kind, end := strings.ToLower(way), strings.Replace(way, "SUB", "UNSUB", 1)
		key := "job-" + kind
		token := play(host, []step{
			{lab.Encode(way, "a", "b"), subscription(kind, "a", 1) + subscription(kind, "b", 2)},
			{lab.Encode("LOCK", key, "60s"), subscribedError("lock")},
			{lab.Encode(end, "a"), subscription(strings.ToLower(end), "a", 1)},
			{lab.Encode("LOCK", key, "60s"), subscribedError("lock")},
			{lab.Encode(end, "b", "none"), subscription(strings.ToLower(end), "b", 0) + subscription(strings.ToLower(end),
				"none", 0)},
			{lab.Encode("LOCK", key, "60s"), "token"},
			{lab.Encode("PING"), "+PONG\r\n"},
		}, host.Send)[0]
		host.Unlock(key, token)
	}
	host.WantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	host.WantDo("+RESET\r\n", "RESET")
	host.Unlock("job", host.Lock("job", "60s"))
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// Messages that arrive while the proxy writes its own replies neither split nor displace them.
func TestMessagesNeverSplitReplies(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host, other := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
	host.WantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
	stop, flooded := make(chan struct{}), make(chan error, 1)
	go func() { flooded <- flood(other.Conn, stop) }()
	for i := range 200 {
		host.Send(lab.Encode("LOCK", "job", "60s") + lab.Encode("PING", fmt.Sprint(i)))
		for _, want := range []string{subscribedError("lock"), "*2\r\n" + lab.Bulk("pong") + lab.Bulk(fmt.Sprint(i))} {
			got := host.Frame()
			for strings.HasPrefix(got, "*3\r\n"+lab.Bulk("message")) {
				got = host.Frame()
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
