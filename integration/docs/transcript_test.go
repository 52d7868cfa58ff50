package docs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The transcripts of docs/reference/commands.md are true: the test sends their input and compares
// the replies. Each transcript starts with new connections and without locks.
func TestTranscripts(t *testing.T) {
	servers := lab.StartMasters(t, 6)
	list := make([]string, 5)
	for i, s := range servers[1:] {
		list[i] = fmt.Sprintf("m%d@%s", i+1, s.Addr)
	}
	p := lab.StartProxy(t, "--upstream", servers[0].Addr, "--masters", strings.Join(list, ","), "--admin-commands", "on")
	p.WaitVoting(t)
	count := 0
	for _, b := range blocks(t, "docs/reference/commands.md") {
		if b.kind != "transcript" {
			continue
		}
		count++
		t.Run(fmt.Sprintf("line=%d", b.line), func(t *testing.T) {
			for _, key := range []string{"job", "job2", "job3", "job4"} {
				lab.Dial(t, p.Addr).Do("LOCKPROXY", "RELEASE", key)
			}
			known := newTokens()
			known.real["m1@127.0.0.1:17001"] = list[0]
			replay(t, b, known, func() *lab.Client { return lab.Dial(t, p.Addr) })
		})
	}
	if count < 15 {
		t.Errorf("got only %d transcripts", count)
	}
}

// The transcripts of docs/relay.md are true for the proxy and for Redis itself.
func TestTranscriptsPassThrough(t *testing.T) {
	upstream := lab.StartRedis(t)
	p := lab.StartProxy(t, "--upstream", upstream.Addr)
	count := 0
	for _, b := range blocks(t, "docs/relay.md") {
		if b.kind != "transcript" {
			continue
		}
		count++
		for name, addr := range map[string]string{"redis": upstream.Addr, "lockproxy": p.Addr} {
			t.Run(fmt.Sprintf("%s/line=%d", name, b.line), func(t *testing.T) {
				replay(t, b, newTokens(), func() *lab.Client { return lab.Dial(t, addr) })
			})
		}
	}
	if count == 0 {
		t.Error("docs/relay.md: got no transcript")
	}
}

// replay plays one transcript. A line that starts with # names the client that sends next.
func replay(t *testing.T, b block, known tokens, dial func() *lab.Client) {
	t.Helper()
	first := dial()
	c, other := first, (*lab.Client)(nil)
	for i, line := range b.text {
		word, rest, _ := strings.Cut(line, " ")
		at := b.line + 1 + i
		switch word {
		case "#":
			switch rest {
			case "another client", "another client, RESP3":
				other = dial()
				if c = other; strings.HasSuffix(rest, "RESP3") {
					c.Do("HELLO", "3")
				}
			case "the other client":
				c = other
			case "the first client":
				c = first
			default:
				t.Fatalf("line %d: %q names no client", at, line)
			}
		case ">":
			c.Send(known.resolve(rest) + "\r\n")
		case "<":
			if rest == "..." && i+1 == len(b.text) {
				return
			}
			if rest == "..." && strings.HasPrefix(b.text[i+1], "#") {
				continue // the page does not show the rest of this client's replies
			}
			wantLine(c, at, known, rest)
		default:
			t.Fatalf("line %d: %q begins with none of # > <", at, line)
		}
	}
	if n := c.Reader.Buffered(); n != 0 {
		t.Errorf("got %d bytes more than the page shows", n)
	}
}

// wantLine reads a line of a reply and compares it with the one at a line of the page.
func wantLine(c *lab.Client, at int, known tokens, want string) {
	c.T.Helper()
	if err := c.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		c.T.Fatal(err)
	}
	got, err := c.Reader.ReadString('\n')
	if err != nil {
		c.T.Fatalf("line %d: %v", at, err)
	}
	if got = strings.TrimSuffix(got, "\r\n"); !known.matches(want, got) {
		c.T.Fatalf("line %d of the page: got\n%q, want\n%q", at, got, want)
	}
}
