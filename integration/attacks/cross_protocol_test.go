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

// TestCrossProtocol: what a browser or another stranger can be made to send runs nothing, and is
// hung up on; nobody else notices.
func TestCrossProtocol(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	desk := lab.Dial(t, c.Addr)
	token := desk.Lock("held", "60s")
	desk.WantDo("+OK\r\n", "SET", "a", "1")
	lanes := laneIDs(t, c)
	body := "LOCK stranger 60s\r\nSET stranger 1\r\n" + lab.Encode("LOCK", "stranger", "60s") + lab.Encode("SET", "stranger", "1") + "UNLOCK held " + token + "\r\n"
	for name, text := range map[string]string{
		"POST":                     "POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\nContent-Type: text/plain\r\n\r\n" + body,
		"post as an array":         lab.Encode("post", "/", "HTTP/1.1") + body,
		"Host as an array":         lab.Encode("HOST:", "x") + body,
		"GET, which is a command":  "GET / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\n" + body,
		"PUT, which is none":       "PUT / HTTP/1.1\r\nAccept: */*\r\nhost: 127.0.0.1:6380\r\n\r\n" + body,
		"Host first":               "Host: x\r\n" + body,
		"POST behind PING":         "PING\r\nPOST / HTTP/1.1\r\n" + body,
		"POST in pieces of a line": "PO" + "ST\t/\r\n" + body,
	} {
		for _, piece := range []int{0, 1} {
			host := lab.Dial(t, c.Addr)
			sendPieces(host, text, piece)
			if _, closed, _ := host.Rest(lab.Patience); !closed {
				t.Errorf("%s: the connection is open", name)
			}
		}
		desk.WantDo(":0\r\n", "EXISTS", "stranger")
		desk.WantDo(lab.Null2, "LOCKINFO", "stranger")
	}

	// A TLS client on a plain port. Redis waits for the end of a line there, and so it lives until
	// slow-client-timeout.
	for range 3 {
		nc, err := net.Dial("tcp", c.Addr)
		if err != nil {
			t.Fatal(err)
		}
		nc.SetDeadline(time.Now().Add(300 * time.Millisecond))
		if err := tls.Client(nc, &tls.Config{ServerName: "redis", NextProtos: []string{"LOCK stranger 60s\r\n"}}).Handshake(); err == nil {
			t.Error("a TLS handshake with a plain port came to an end")
		}
		nc.Close()
	}
	desk.WantDo(lab.Null2, "LOCKINFO", "stranger")
	desk.WantDo(lab.Bulk("1"), "GET", "a")
	desk.Unlock("held", token)
	if now := laneIDs(t, c); now != lanes {
		t.Errorf("connections to the masters were lost: %q, before %q", now, lanes)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// sendPieces sends text at once, or in pieces, as far as the other side takes it.
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

// laneIDs names the proxy's connections to the masters that carry its commands.
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
		t.Fatalf("found only %q", ids)
	}
	return strings.Join(ids, " ")
}

// TestSizesBeforeAuth: what announces much before it has authenticated is refused in Redis' words
// at once, also many times over, and costs nothing.
func TestSizesBeforeAuth(t *testing.T) {
	t.Parallel()
	o := &lab.Operators{T: t, Addr: lab.FreeAddr(t)}
	c := lab.StartProtected(t, "--admin-listen", o.Addr)
	direct := lab.StartRedis(t, "--requirepass", "secret")
	before := o.LiveHeap()
	for _, text := range []string{
		"*11\r\n", "*1048576\r\n", "*2147483647\r\n", "*2\r\n$4\r\nECHO\r\n$16385\r\n", "*1\r\n$536870912\r\n", "*1\r\n$2147483648\r\n",
		"*11\r\n$4\r\nLOCK\r\n", "*3\r\n$4\r\nLOCK\r\n$16385\r\n", "*3\r\n$6\r\nUNLOCK\r\n$536870912\r\n", "*11\r\n$8\r\nLOCKINFO\r\n",
		lab.Encode("PING") + "*11\r\n$4\r\nLOCK\r\n", lab.Encode("AUTH", "wrong") + lab.Encode("LOCK", "a", "60s", "x", "x", "x", "x", "x", "x", "x"),
		lab.Encode("AUTH", "secret") + lab.Encode("RESET") + "*11\r\n$4\r\nECHO\r\n",
	} {
		want := answerTo(t, direct.Addr, text, strings.Contains(text, "wrong"))
		for range 20 {
			got := answerTo(t, c.Addr, text, strings.Contains(text, "wrong"))
			if strings.HasSuffix(text, lab.Encode("x")[4:]) { // a whole LOCK: Redis does not know it
				if !strings.HasSuffix(got.Text, "-ERR syntax error\r\n") {
					t.Errorf("%q: %q", text, got.Text)
				}
				break
			}
			if got != want {
				t.Errorf("%.60q: got %.200q, %s; Redis answers %.200q, %s", text, got.Text, got.State, want.Text, want.State)
				break
			}
		}
	}
	if after := o.LiveHeap(); after > before+5 {
		t.Errorf("live heap: %.1f MB before, %.1f MB after", before, after)
	} else {
		t.Logf("live heap: %.1f MB before, %.1f MB after", before, after)
	}
}

// answerTo sends text on a fresh connection and returns what came until it was closed, or was
// silent for a while if it stays open.
func answerTo(t testing.TB, addr, text string, staysOpen bool) lab.Heard {
	t.Helper()
	host := lab.Dial(t, addr)
	defer host.Close()
	host.Send(text)
	silence := lab.Patience
	if staysOpen || strings.HasSuffix(text, "$16385\r\n") {
		silence = 300 * time.Millisecond
	}
	got, closed, _ := host.Rest(silence)
	return lab.Heard{Text: got, State: map[bool]string{true: "closed", false: "open"}[closed]}
}
