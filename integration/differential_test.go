package integration

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestDifferential sends the same random bytes to a Redis directly and, in random fragments, through the proxy to
// another one: the answers must be the same bytes, and the connection must be open or closed alike.
func TestDifferential(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	for worker := range uint64(2) {
		t.Run(fmt.Sprintf("worker %d", worker), func(t *testing.T) {
			t.Parallel()
			c, direct := startCluster(t, 1), lab.StartRedis(t)
			for i := range uint64(300) {
				run := differential{script{rand.New(rand.NewPCG(seed, worker<<32|i))}, c.upstream, direct, c.Addr, i%2 == 1, 0}
				if !run.same(t) {
					t.Errorf("script %d of worker %d", i, worker)
					return
				}
			}
		})
	}
}

type differential struct {
	script
	upstream, direct *lab.Redis
	proxy            string
	resp3            bool
	patience         time.Duration // for an answer that differs from the direct one; 0 means the usual
}

// same runs one script both ways, compares, and shows what differs.
func (d differential) same(t *testing.T) bool {
	t.Helper()
	sent, got, want := d.play(t)
	if got == want || strings.Contains(want.text, "\r\nid\r\n") { // a mutation made a HELLO: its reply has a connection number
		return true
	}
	_ = os.WriteFile(filepath.Join(t.ArtifactDir(), "script"), []byte(sent), 0o600)
	at := 0
	for at < len(got.text) && at < len(want.text) && got.text[at] == want.text[at] {
		at++
	}
	t.Errorf("RESP3 %v: replies differ at byte %d of %d\nthrough the proxy, %s: ...%.300q\ndirectly, %s: ...%.300q\nsent: %.3000q",
		d.resp3, at, len(want.text), got.state, got.text[at:], want.state, want.text[at:], sent)
	return false
}

// play runs one script both ways and returns what was sent and the two answers.
func (d differential) play(t *testing.T) (sent string, got, want answer) {
	t.Helper()
	for _, s := range []*lab.Redis{d.upstream, d.direct} {
		s.Do(t, "FLUSHALL")
		lab.WaitFor(t, "subscribers of the script before gone", lab.Patience, func() bool {
			return s.Do(t, "CLIENT", "LIST", "TYPE", "pubsub") == lab.Bulk("")
		})
	}
	text := d.bytes(1 + d.IntN(60))
	sentinel := fmt.Sprintf("sentinel-%016x", d.Uint64())
	sent = text + lab.Encode(sentinel)
	dialer := lab.Dial
	if d.resp3 {
		dialer = lab.Dial3
	}

	one := dialer(t, d.direct.Addr)
	defer one.Close()
	one.Send(sent)
	want = hear(one.Conn, sentinel, func(answer) bool { // Redis has read all that was sent when it has turned often enough
		for range 30 {
			d.direct.Do(t, "PING")
		}
		return true
	}, 50*time.Millisecond)

	two := dialer(t, d.proxy)
	defer two.Close()
	for rest := sent; rest != ""; {
		n := min(1+d.IntN(1<<d.IntN(14)), len(rest))
		if two.Put(rest[:n]) != nil {
			break // closed after an error, as Redis does
		}
		rest = rest[n:]
	}
	deadline := time.Now().Add(cmp.Or(d.patience, lab.Patience))
	got = hear(two.Conn, sentinel, func(got answer) bool { return got == want || time.Now().After(deadline) }, 50*time.Millisecond)
	if got == want && got.state != "closed" {
		got, want = hearEnd(two), hearEnd(one)
	}
	return sent, got, want
}

// answer is what a connection gave, and how it stands: the sentinel was answered, it was closed, or it is silent.
type answer struct{ text, state string }

// hear reads until the sentinel is answered, the connection is closed, or nothing more comes: when nothing came for a
// while, enough decides whether that is all, and what comes until then still counts.
func hear(c *lab.Conn, sentinel string, enough func(answer) bool, silence time.Duration) answer {
	end := "'" + sentinel + "', with args beginning with: \r\n"
	var b strings.Builder
	buf := make([]byte, 64<<10)
	over := false
	for {
		if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return answer{b.String(), err.Error()}
		}
		n, err := c.Reader.Read(buf)
		b.Write(buf[:n])
		switch {
		case strings.HasSuffix(b.String(), end):
			return answer{b.String(), "answered"}
		case os.IsTimeout(err) && over:
			return answer{b.String(), "silent"}
		case os.IsTimeout(err):
			over = enough(answer{b.String(), "silent"})
		case err != nil:
			return answer{b.String(), "closed"}
		}
	}
}

// hearEnd half-closes the connection and reads what still comes.
func hearEnd(c *lab.Client) answer {
	if err := c.CloseWrite(); err != nil {
		return answer{"", "closed"}
	}
	text, closed, _ := c.Rest(lab.Patience)
	return answer{text, fmt.Sprintf("closed after our end: %v", closed)}
}
