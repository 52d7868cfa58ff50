package relay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// fidelityRig is two servers of the same kind, one of them with a proxy in front.
type fidelityRig struct {
	direct, upstream *lab.Redis
	proxy            string
	password         string
	desk             []*lab.Client // connections past the proxy, one to each server
	patience         time.Duration // to wait for a reply that differs from the direct one; 0: lab.Patience
}

// startFidelityRig starts the servers. They check their timers a hundred times a second, so that
// blocking commands take less time.
func startFidelityRig(t *testing.T, password string) *fidelityRig {
	t.Helper()
	args := []string{"--hz", "100"}
	if password != "" {
		args = append(args, "--requirepass", password)
	}
	rig := &fidelityRig{direct: lab.StartRedis(t, args...), upstream: lab.StartRedis(t, args...), password: password}
	proxy := lab.StartProxy(t, "--upstream", rig.upstream.Addr, "--masters", lab.StartRedis(t).Addr, "--restart-guard",
		"off")
	rig.proxy = proxy.Addr
	for _, s := range []*lab.Redis{rig.direct, rig.upstream} {
		desk := lab.Dial(t, s.Addr)
		if password != "" {
			desk.WantDo("+OK\r\n", "AUTH", password)
		}
		rig.desk = append(rig.desk, desk)
	}
	// otherwise chance decides when Redis closes an unauthenticated connection for its unread replies
	for _, d := range rig.desk {
		d.WantDo("+OK\r\n", "DEBUG", "REPLYBUFFER", "RESIZING", "0")
	}
	first := lab.Dial(t, proxy.Addr)
	if password != "" {
		first.WantDo("+OK\r\n", "AUTH", password)
	}
	lab.WaitFor(t, "first lock", lab.Patience, func() bool {
		return lab.TokenOf(first.Do("LOCK", "warm-up", "1s")) != ""
	})
	return rig
}

// fresh empties both servers.
func (r *fidelityRig) fresh() {
	commands := [][]string{{"CLIENT", "UNPAUSE"}, {"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"FUNCTION", "FLUSH"},
		{"ACL", "DELUSER", "alice", "bob", "carol"}}
	var b strings.Builder
	for _, c := range commands {
		b.WriteString(lab.Encode(c...))
	}
	for _, d := range r.desk {
		d.Send(b.String())
	}
	for _, d := range r.desk {
		for i := range commands {
			if reply := d.Frame(); strings.HasPrefix(reply, "-") {
				d.T.Fatalf("%q: %s", commands[i], reply)
			}
		}
	}
}

// play sends a script both ways, through the proxy in random pieces, and returns both answers:
// all bytes up to the end of the connection, which Redis or the test closed.
func (r *fidelityRig) play(t testing.TB, s *fidelityScript) (got, want lab.Heard) {
	t.Helper()
	r.fresh()
	sentinel := fmt.Sprintf("sentinel-%016x", s.Uint64())
	sent := s.text.String() + lab.Encode(sentinel)
	one := lab.Dial(t, r.direct.Addr)
	defer one.Close()
	_ = one.Put(sent) // Redis may have closed the connection after an error
	want = r.hearDirectly(one, sentinel)

	two := lab.Dial(t, r.proxy)
	defer two.Close()
	r.pieces(two, sent[:s.handshake], s.Rand)
	if s.handshake > 0 {
		if _, err := two.Reader.Peek(1); err != nil {
			t.Errorf("%q: got no reply: %v", sent[:s.handshake], err)
		}
	}
	r.pieces(two, sent[s.handshake:], s.Rand)
	deadline := time.Now().Add(cmp.Or(r.patience, lab.Patience))
	got = lab.Hear(two.Conn, sentinel, func(got lab.Heard) bool {
		what, _ := s.differs(got.Text, want.Text)
		return what == "" && want.State == "open" || time.Now().After(deadline)
	}, 5*time.Millisecond)
	for _, end := range []struct {
		c *lab.Client
		a *lab.Heard
	}{{one, &want}, {two, &got}} {
		if end.a.State != "closed" {
			end.a.State = "open"
			last := lab.HearEnd(end.c)
			end.a.Text, end.a.State = end.a.Text+last.Text, end.a.State+", "+last.State
		}
	}
	return got, want
}

// hearDirectly reads the direct answer. If the sentinel is not answered, it asks the server
// whether more is to come and whether it closed the connection, because silence may also mean a
// busy machine.
func (r *fidelityRig) hearDirectly(c *lab.Client, sentinel string) lab.Heard {
	got := lab.Hear(c.Conn, sentinel, func(lab.Heard) bool { return r.settled() }, 20*time.Millisecond)
	if got.State == "silent" && !strings.Contains(r.desk[0].Do("cLiEnT", "lIsT"), " addr="+c.LocalAddr().String()+" ") {
		rest, _, _ := c.Rest(lab.Patience)
		return lab.Heard{Text: got.Text + rest, State: "closed"}
	}
	if got.State != "closed" {
		got.State = "open"
	}
	return got
}

// settled returns when the direct server has processed all it can of the script: it has completed
// enough event loops to have read the script, and no connection waits in a command that will end
// by itself.
func (r *fidelityRig) settled() bool {
	lab.Poll(500*time.Millisecond, func() bool {
		return strings.Contains(r.desk[0].Do("INFO", "clients"), "\nblocked_clients:0\r")
	})
	for range 30 {
		r.desk[0].Do("PING", "harness")
	}
	return true
}

// pieces sends text in pieces of random sizes, from a byte to all of it.
func (r *fidelityRig) pieces(c *lab.Client, text string, chance *rand.Rand) {
	for rest := text; rest != ""; {
		n := min(1+chance.IntN(1<<chance.IntN(14)), len(rest))
		if c.Put(rest[:n]) != nil {
			return // the proxy closed the connection after an error, as Redis does
		}
		rest = rest[n:]
	}
}
