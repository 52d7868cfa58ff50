package lab_test

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// These tests try the tools of this package on redis-server alone. A harness that cannot fail
// gives no proof.

func TestServerPausesAndRestarts(t *testing.T) {
	t.Parallel()
	s := lab.StartRedis(t)
	c := lab.Dial(t, s.Addr)
	c.WantDo("+OK\r\n", "SET", "lock:a", "1", "PX", "60000")
	if got := lab.Census(t, []*lab.Redis{s}); len(got[s.Addr]) != 1 || got[s.Addr][0] != "a" {
		t.Errorf("census: got %v, want one key a", got)
	}
	before := lab.Calls(t, s)
	c.WantDo("$1\r\n1\r\n", "GET", "lock:a")
	if after := lab.Calls(t, s); after == before {
		t.Errorf("commandstats after GET: got %q as before, want one GET more", after)
	}
	s.Pause(t)
	c.Send(lab.Encode("PING"))
	if got, _, _ := c.Rest(30 * time.Millisecond); got != "" {
		t.Errorf("reply of a stopped server: got %q, want none", got)
	}
	s.Resume()
	c.Want("+PONG\r\n")
	s.RestartEmpty(t)
	c.WantClosed()
	if got := lab.Census(t, []*lab.Redis{s}); len(got) != 0 {
		t.Errorf("keys after an empty restart: got %v, want none", got)
	}
}

func TestReadFrameReturnsOneReply(t *testing.T) {
	t.Parallel()
	for _, frame := range []string{
		"+OK\r\n", "-ERR x\r\n", ":5\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "$2\r\n\r\n\r\n", "*0\r\n", "_\r\n", "#t\r\n",
		",1.5\r\n", "(123\r\n", "=6\r\ntxt:ab\r\n", "*2\r\n*1\r\n:1\r\n$1\r\na\r\n", "%1\r\n+a\r\n~2\r\n:1\r\n:2\r\n",
		"|1\r\n+ttl\r\n:1\r\n*1\r\n|1\r\n+k\r\n+v\r\n:7\r\n", ">2\r\n+a\r\n+b\r\n", "!5\r\nERR x\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(frame + "+next\r\n"))
		if got, err := lab.ReadFrame(r); got != frame || err != nil {
			t.Errorf("frame: got %q, %v, want %q", got, err, frame)
		}
		if next, _ := lab.ReadFrame(r); next != "+next\r\n" {
			t.Errorf("frame after %q: got %q, want +next", frame, next)
		}
	}
	token := "0000000000000007:" + strings.Repeat("9f", 20)
	for frame, want := range map[string]string{
		lab.Bulk(token): token, lab.Null2: "", lab.Bulk(strings.ToUpper(token)): "", lab.Bulk(token[1:]): "", "+" +
			token + "\r\n": "",
	} {
		if got := lab.TokenOf(frame); got != want {
			t.Errorf("token in %q: got %q, want %q", frame, got, want)
		}
	}
}

func TestRelayDelaysHoldsAndCuts(t *testing.T) {
	t.Parallel()
	s := lab.StartRedis(t)
	r := lab.StartRelay(t, s.Addr)
	old := lab.Dial(t, r.Addr)
	old.WantDo("+PONG\r\n", "PING")

	r.Slow(30 * time.Millisecond)
	start := time.Now()
	old.WantDo("+PONG\r\n", "PING")
	if took := time.Since(start); took < 60*time.Millisecond {
		t.Errorf("round trip: got %v, want 60ms at least", took)
	}
	r.Slow(0)

	r.Narrow(100_000)
	start = time.Now()
	old.WantDo("+OK\r\n", "SET", "long", strings.Repeat("x", 10_000))
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("10,000 bytes at 100,000 a second: got %v, want 100ms at least", took)
	}
	r.Narrow(0)

	held := r.Hold("late", 2)
	old.WantDo("+OK\r\n", "SET", "late", "1")
	old.Send(lab.Encode("SET", "late", "2"))
	lab.WantHeld(t, held)
	if got := s.Do(t, "GET", "late"); got != lab.Bulk("1") {
		t.Errorf("value after a held SET: got %q, want 1", got)
	}
	old.Reset()
	fresh := lab.Dial(t, r.Addr)
	fresh.WantDo(lab.Bulk("1"), "GET", "late")
	r.Thaw()
	lab.WaitFor(t, "the SET of a closed connection", lab.Patience, func() bool {
		return s.Do(t, "GET", "late") == lab.Bulk("2")
	})

	r.Freeze()
	fresh.Send(lab.Encode("SET", "lost", "1"))
	if got, _, _ := fresh.Rest(30 * time.Millisecond); got != "" {
		t.Errorf("reply through a frozen relay: got %q, want none", got)
	}
	r.CutAll()
	fresh.WantClosed()
	r.Thaw()
	lab.Dial(t, r.Addr).WantDo(":0\r\n", "EXISTS", "lost")
	r.Refuse(true)
	if c, err := lab.Connect(r.Addr); err == nil { // the reset may come so soon that connecting fails
		(&lab.Client{Conn: c, T: t}).WantClosed()
	}
}
