package integration

import (
	"bufio"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The tools of this package, tried on redis-server alone: a harness that cannot fail proves nothing.

func TestHarnessServer(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := dial(t, s.addr)
	c.wantDo("+OK\r\n", "SET", "lock:a", "1", "PX", "60000")
	if got := census(t, []*redisServer{s}); len(got[s.addr]) != 1 || got[s.addr][0] != "a" {
		t.Errorf("census found %v, want one key a", got)
	}
	before := calls(t, s)
	c.wantDo("$1\r\n1\r\n", "GET", "lock:a")
	if after := calls(t, s); after == before {
		t.Errorf("commandstats stayed %q although GET ran", after)
	}
	s.pause(t)
	c.send(encode("PING"))
	if got, _, _ := c.rest(30 * time.Millisecond); got != "" {
		t.Errorf("a stopped server answered %q", got)
	}
	s.resume()
	c.want("+PONG\r\n")
	s.restart(t)
	c.wantClosed()
	if got := census(t, []*redisServer{s}); len(got) != 0 {
		t.Errorf("a restarted server kept %v", got)
	}
}

func TestHarnessFrames(t *testing.T) {
	t.Parallel()
	for _, frame := range []string{
		"+OK\r\n", "-ERR x\r\n", ":5\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "$2\r\n\r\n\r\n", "*0\r\n", "_\r\n", "#t\r\n",
		",1.5\r\n", "(123\r\n", "=6\r\ntxt:ab\r\n", "*2\r\n*1\r\n:1\r\n$1\r\na\r\n", "%1\r\n+a\r\n~2\r\n:1\r\n:2\r\n",
		"|1\r\n+ttl\r\n:1\r\n*1\r\n|1\r\n+k\r\n+v\r\n:7\r\n", ">2\r\n+a\r\n+b\r\n", "!5\r\nERR x\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(frame + "+next\r\n"))
		if got, err := readFrame(r); got != frame || err != nil {
			t.Errorf("%q: read %q, %v", frame, got, err)
		}
		if next, _ := readFrame(r); next != "+next\r\n" {
			t.Errorf("%q: then %q", frame, next)
		}
	}
	token := "0000000000000007:" + strings.Repeat("9f", 20)
	for frame, want := range map[string]string{
		bulk(token): token, null2: "", bulk(strings.ToUpper(token)): "", bulk(token[1:]): "", "+" + token + "\r\n": "",
	} {
		if got := tokenOf(frame); got != want {
			t.Errorf("token in %q: %q, want %q", frame, got, want)
		}
	}
}

func TestHarnessRelay(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	r := startRelay(t, s.addr)
	old := dial(t, r.addr)
	old.wantDo("+PONG\r\n", "PING")

	r.slow(30 * time.Millisecond)
	start := time.Now()
	old.wantDo("+PONG\r\n", "PING")
	if took := time.Since(start); took < 60*time.Millisecond {
		t.Errorf("a round trip took %v, want 30ms each way", took)
	}
	r.slow(0)

	held := r.hold("late", 2)
	old.wantDo("+OK\r\n", "SET", "late", "1")
	old.send(encode("SET", "late", "2"))
	wantHeld(t, held)
	if got := s.do(t, "GET", "late"); got != bulk("1") {
		t.Errorf("a held SET was executed: %q", got)
	}
	old.reset()
	fresh := dial(t, r.addr)
	fresh.wantDo(bulk("1"), "GET", "late")
	r.thaw()
	waitFor(t, "the late SET landing after its sender has gone", patience, func() bool {
		return s.do(t, "GET", "late") == bulk("2")
	})

	r.freeze()
	fresh.send(encode("SET", "lost", "1"))
	if got, _, _ := fresh.rest(30 * time.Millisecond); got != "" {
		t.Errorf("through a frozen relay came %q", got)
	}
	r.cutAll()
	fresh.wantClosed()
	r.thaw()
	dial(t, r.addr).wantDo(":0\r\n", "EXISTS", "lost")
	r.refuse(true)
	if c, err := connect(r.addr); err == nil { // the reset may come so soon that connecting fails
		(&client{conn: c, t: t}).wantClosed()
	}
}

// TestHarnessDifferential: through a plain TCP relay nothing may differ, or the random scripts are not repeatable.
func TestHarnessDifferential(t *testing.T) {
	t.Parallel()
	seed := seedOf(t, uint64(time.Now().UnixNano()))
	servers := startMasters(t, 2)
	r := startRelay(t, servers[0].addr)
	for i := range uint64(100) {
		run := differential{script{rand.New(rand.NewPCG(seed, i))}, servers[0], servers[1], r.addr, i%2 == 1, 0}
		if !run.same(t) {
			t.Fatalf("script %d", i)
		}
	}
	r.spoil(true)
	found := 0
	for i := range uint64(10) {
		run := differential{script{rand.New(rand.NewPCG(seed, i))}, servers[0], servers[1], r.addr, false, 100 * time.Millisecond}
		if _, got, want := run.play(t); got != want {
			found++
		}
	}
	if found < 8 {
		t.Errorf("of 10 scripts with a changed reply %d were noticed", found)
	}
}
