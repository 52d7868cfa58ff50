package attacks

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestForeignProtocolsRunNothing: an HTTP request that a browser can be made to send, and a TLS
// handshake, run no command. The proxy closes the HTTP connection, and the connections to the
// masters and the locks of others stay.
func TestForeignProtocolsRunNothing(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	desk := lab.Dial(t, c.Addr)
	token := desk.Lock("held", "60s")
	desk.WantDo("+OK\r\n", "SET", "a", "1")
	lanes := laneIDs(t, c)
	body := "LOCK stranger 60s\r\nSET stranger 1\r\n" + lab.Encode("LOCK", "stranger", "60s") +
		lab.Encode("SET", "stranger", "1") + "UNLOCK held " + token + "\r\n"
	for name, text := range map[string]string{
		"POST":                     "POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\nContent-Type: text/plain\r\n\r\n" + body,
		"post as an array":         lab.Encode("post", "/", "HTTP/1.1") + body,
		"Host as an array":         lab.Encode("HOST:", "x") + body,
		"GET, which is a command":  "GET / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\n" + body,
		"PUT, which is none":       "PUT / HTTP/1.1\r\nAccept: */*\r\nhost: 127.0.0.1:6380\r\n\r\n" + body,
		"Host first":               "Host: x\r\n" + body,
		"POST after PING":          "PING\r\nPOST / HTTP/1.1\r\n" + body,
		"POST in pieces of a line": "PO" + "ST\t/\r\n" + body,
	} {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []int{0, 1} {
				host := lab.Dial(t, c.Addr)
				sendPieces(host, text, piece)
				if got, closed, _ := host.Rest(lab.Patience); !closed {
					t.Errorf("in pieces of %d bytes (0: whole): got %.60q and an open connection, want it closed", piece, got)
				}
			}
			desk.WantDo(":0\r\n", "EXISTS", "stranger")
			desk.WantDo(lab.Null2, "LOCKINFO", "stranger")
		})
	}
	t.Run("TLS", func(t *testing.T) {
		for range 3 {
			wantNoHandshake(t, c.Addr)
		}
		desk.WantDo(lab.Null2, "LOCKINFO", "stranger")
	})
	desk.WantDo(lab.Bulk("1"), "GET", "a")
	desk.Unlock("held", token)
	if now := laneIDs(t, c); now != lanes {
		t.Errorf("connections to the masters: got %q, want %q as before", now, lanes)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// wantNoHandshake begins a TLS handshake with a port that does not speak TLS. Like Redis, the
// proxy waits there for the end of a line, until slow-client-timeout; the client gives up before.
func wantNoHandshake(t *testing.T, addr string) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(300 * time.Millisecond))
	config := &tls.Config{ServerName: "redis", NextProtos: []string{"LOCK stranger 60s\r\n"}}
	if err := tls.Client(nc, config).Handshake(); err == nil {
		t.Error("a TLS handshake with a plain port succeeded")
	}
}

// sendPieces sends text whole if size is 0, or else in pieces of size bytes, until the other side
// takes no more.
func sendPieces(c *lab.Client, text string, size int) {
	if size == 0 {
		size = len(text)
	}
	for ; text != ""; text = text[min(size, len(text)):] {
		if _, err := io.WriteString(c.TCPConn, text[:min(size, len(text))]); err != nil {
			return
		}
	}
}

// laneIDs returns the ids of the proxy's connections that carry its commands to the masters.
func laneIDs(t testing.TB, c *lab.Cluster) string {
	t.Helper()
	var ids []string
	for _, s := range c.Masters {
		for line := range strings.Lines(lab.Scalar(s.Do(t, "CLIENT", "LIST"))) {
			if strings.Contains(line, "name=lockproxy") && !strings.Contains(line, "sub=1") {
				id, _, _ := strings.Cut(line, " ")
				ids = append(ids, id)
			}
		}
	}
	if len(ids) < len(c.Masters) {
		t.Fatalf("got lanes %q, want one to each of %d masters", ids, len(c.Masters))
	}
	return strings.Join(ids, " ")
}

// TestHugeSizesBeforeAuthAreRefused: a client that has not authenticated and announces a large
// request gets Redis' error at once. Twenty such clients leave no memory in use.
func TestHugeSizesBeforeAuthAreRefused(t *testing.T) {
	t.Parallel()
	o := &lab.Operators{T: t, Addr: lab.FreeAddr(t)}
	c := lab.StartProtected(t, "--admin-listen", o.Addr)
	direct := lab.StartRedis(t, "--requirepass", "secret")
	before := o.LiveHeap()
	for _, text := range []string{
		"*11\r\n", "*1048576\r\n", "*2147483647\r\n", "*2\r\n$4\r\nECHO\r\n$16385\r\n", "*1\r\n$536870912\r\n",
		"*1\r\n$2147483648\r\n",
		"*11\r\n$4\r\nLOCK\r\n", "*3\r\n$4\r\nLOCK\r\n$16385\r\n", "*3\r\n$6\r\nUNLOCK\r\n$536870912\r\n",
		"*11\r\n$8\r\nLOCKINFO\r\n",
		lab.Encode("PING") + "*11\r\n$4\r\nLOCK\r\n",
		lab.Encode("AUTH", "secret") + lab.Encode("RESET") + "*11\r\n$4\r\nECHO\r\n",
	} {
		t.Run(text, func(t *testing.T) {
			want := answerTo(t, direct.Addr, text, direct.Process)
			for range 20 {
				if got := answerTo(t, c.Addr, text, c.Process, c.Upstream.Process); got != want {
					t.Fatalf("got %.200q and %s, want Redis' %.200q and %s", got.Text, got.State, want.Text, want.State)
				}
			}
		})
	}
	t.Run("LOCK with many arguments after a wrong password", func(t *testing.T) {
		lock := lab.Encode("LOCK", "a", "60s", "x", "x", "x", "x", "x", "x", "x")
		got := answerTo(t, c.Addr, lab.Encode("AUTH", "wrong")+lock, c.Process, c.Upstream.Process)
		want := "-ERR syntax error near 'x': LOCK takes KEYS, SHARED, LIMIT, WAIT, SESSION, OWNER and FULL\r\n"
		if !strings.HasSuffix(got.Text, want) {
			t.Errorf("got %q, want %q in the end", got.Text, want)
		}
	})
	after := o.LiveHeap()
	t.Logf("live heap: %.1f MB before, %.1f MB after", before, after)
	if after > before+5 {
		t.Errorf("live heap: got %.1f MB, want %.1f MB as before, and 5 at most", after, before)
	}
}

// answerTo sends text on a fresh connection and returns the reply and whether the connection was
// closed. The reply is complete once the processes that take part in it are idle.
func answerTo(t testing.TB, addr, text string, processes ...*lab.Process) lab.Heard {
	t.Helper()
	host := lab.Dial(t, addr)
	defer host.Close()
	host.Send(text)
	deadline := time.Now().Add(lab.Patience)
	return lab.Hear(host.Conn, noSentinel, func(lab.Heard) bool {
		return lab.Idle(processes...) || time.Now().After(deadline)
	}, 20*time.Millisecond)
}

// noSentinel is passed to lab.Hear if no sentinel was sent.
const noSentinel = "no sentinel was sent"
