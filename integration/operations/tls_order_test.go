package operations

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Over TLS, each connection has goroutines of its own. A client that has seen the effect of
// another's command still comes after it: the reply to a write, or a blocked client in CLIENT
// LIST. Only commands that two clients send without any such sign may change places.
func TestOrderBetweenTLSConnections(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue("server", net.IPv4(127, 0, 0, 1))
	c := lab.StartCluster(t, 3, "--listen", "127.0.0.1:0,rediss://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	addr := listening(t, c.Proxy)[1]
	var clients [2]*overTLS
	for i := range clients {
		var err error
		if clients[i], err = dialTLS(t, addr, a.client("", "")); err != nil {
			t.Fatal(err)
		}
		clients[i].wantDo(t, "+PONG\r\n", "PING")
	}

	t.Run("after a reply", func(t *testing.T) {
		for i := range 500 {
			one, two := clients[i%2], clients[1-i%2]
			one.wantDo(t, "+OK\r\n", "SET", "x", strconv.Itoa(i))
			two.wantDo(t, lab.Bulk(strconv.Itoa(i)), "GET", "x")
		}
	})

	t.Run("after a blocked client was seen", func(t *testing.T) {
		for range 50 {
			if turn(t, c.Upstream, clients) {
				t.Fatal("elements of a list: got the first for the second client, want it for the one that blocked before")
			}
		}
	})
}

// turn lets both clients wait for an element of a list, the second when the upstream has the
// first, and reports whether the second was served first.
func turn(t *testing.T, upstream *lab.Redis, clients [2]*overTLS) (reversed bool) {
	t.Helper()
	for i, c := range clients {
		if err := c.SetDeadline(time.Now().Add(2 * lab.Patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, lab.Encode("BLPOP", "line", "0")); err != nil {
			t.Fatal(err)
		}
		lab.WaitFor(t, "clients that wait", lab.Patience, func() bool {
			return upstream.Info(t, "clients", "blocked_clients") == strconv.Itoa(i+1)
		})
	}
	upstream.Do(t, "RPUSH", "line", "first", "second")
	var got [2]string
	for i, c := range clients {
		var err error
		if got[i], err = lab.ReadFrame(c.br); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(got[0], "first") == strings.Contains(got[1], "first") {
		t.Fatalf("replies: got %q, want first and second", got)
	}
	return strings.Contains(got[1], "first")
}
