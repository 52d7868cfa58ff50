package lab_test

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// These tests try each fault of the laboratory on redis-server alone.

// TestRestartKeepsTheChosenState: after each kind of restart a server has the state of that kind.
func TestRestartKeepsTheChosenState(t *testing.T) {
	t.Parallel()
	s := lab.StartRedis(t)
	s.Must(t, "SET", "a", "old")
	dump, run := s.SaveRDB(t), s.RunID(t)
	s.Must(t, "SET", "a", "new")
	for _, step := range []struct {
		name  string
		start func()
		want  string
	}{
		{"empty", func() { s.RestartEmpty(t) }, lab.Null2},
		{"with the old dump", func() { s.RestartWithRDB(t, dump) }, lab.Bulk("old")},
		{"empty again", func() { s.RestartEmpty(t) }, lab.Null2},
		{"with AOF", func() { s.RestartKept(t, lab.AOFAlways()...); s.Must(t, "SET", "a", "kept"); s.RestartKept(t) },
			lab.Bulk("kept")},
		{"AOF, but empty", func() { s.RestartEmpty(t) }, lab.Null2},
	} {
		step.start()
		if got := s.Do(t, "GET", "a"); got != step.want {
			t.Errorf("%s: GET: got %q, want %q", step.name, got, step.want)
		}
		if now := s.RunID(t); now == run {
			t.Errorf("%s: run_id: got %s as before the restart, want another", step.name, run)
		} else {
			run = now
		}
	}
}

// TestRefusalsBeginAndEnd: a server refuses writes until the fault ends.
func TestRefusalsBeginAndEnd(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*lab.Redis, testing.TB) func(){
		"-OOM ": (*lab.Redis).OutOfMemory, "-READONLY ": (*lab.Redis).ReadOnly, "-MISCONF ": (*lab.Redis).Misconfigured,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := lab.StartRedis(t)
			for range 2 {
				s.Must(t, "SET", "a", "1")
				end := begin(s, t)
				for _, write := range [][]string{{"SET", "a", "2"}, {"EVAL", "return redis.call('SET', KEYS[1], '2')", "1", "a"}} {
					if got := s.Do(t, write...); !strings.HasPrefix(got, name) && !strings.Contains(got, "-"+name[1:]) {
						t.Errorf("%s: got %q, want %q", write[0], got, name)
					}
				}
				end()
			}
		})
	}
	t.Run("-LOADING ", func(t *testing.T) {
		t.Parallel()
		s := lab.StartRedis(t)
		start := time.Now()
		s.Loading(t, 600)
		lab.WaitFor(t, "the end of loading", lab.Patience, func() bool { return s.Do(t, "GET", "a") == lab.Null2 })
		if took := time.Since(start); took < 500*time.Millisecond {
			t.Errorf("loading of 600 keys: got %v, want 1ms for each", took)
		}
		s.RestartEmpty(t)
		s.Must(t, "SET", "a", "1")
	})
}

// TestServerFollowsItsClock: TIME and the expiry of keys follow the clock of a server.
func TestServerFollowsItsClock(t *testing.T) {
	t.Parallel()
	clock := lab.NewClock(t)
	s := lab.StartRedisWithClock(t, clock)
	lead := func() (least, most time.Duration) { // of the server's clock; between these, since the reply takes time
		start := time.Now()
		parts := lab.Fields(s.Do(t, "TIME"))
		end := time.Now()
		now := time.Unix(int64(lab.Number(t, parts[0])), int64(lab.Number(t, parts[1]))*1000)
		return now.Sub(end), now.Sub(start)
	}
	near := func(what string, want time.Duration) {
		t.Helper()
		if least, most := lead(); most < want-time.Second || least > want+time.Second {
			t.Errorf("%s: lead of the clock: got %v to %v, want %v", what, least, most, want)
		}
	}
	left := func(key string) time.Duration {
		return time.Duration(lab.Number(t, lab.Scalar(s.Do(t, "PTTL", key)))) * time.Millisecond
	}
	near("at first", 0)
	s.Must(t, "SET", "long", "1", "PX", "3600000")
	s.Must(t, "SET", "short", "1", "PX", "50000")
	clock.Step(time.Minute)
	near("a minute on", time.Minute)
	if got := left("short"); got > 0 {
		t.Errorf("rest of a key of 50s after a step of a minute: got %v, want none", got)
	}
	clock.Step(-time.Hour)
	near("an hour back", -59*time.Minute)
	if got := left("long"); got < 118*time.Minute || got > 119*time.Minute {
		t.Errorf("rest of a key of an hour after a step of an hour back: got %v, want 1h59m", got)
	}
	clock.Reset()
	near("reset", 0)
	clock.Rate(2)
	outer := time.Now()
	least0, most0 := lead()
	inner := time.Now()
	lab.Pass(t, 400*time.Millisecond)
	shortest := time.Since(inner)
	least1, most1 := lead()
	longest := time.Since(outer)
	if most1-least0 < shortest || least1-most0 > longest { // at twice the speed it gains as much as time passes
		t.Errorf("gain at twice the speed: got %v to %v, want %v to %v", least1-most0, most1-least0, shortest, longest)
	}
	clock.Rate(1)
	before, _ := lead()
	lab.Pass(t, 200*time.Millisecond)
	near("at normal speed again", before)
	clock.Step(time.Hour)
	s.RestartEmpty(t)
	near("after a restart", before+time.Hour)
}

// TestRelayStopsAtChosenCommand: a relay holds one command among many on one connection, or cuts
// the connection there. It also leads connections to another server, and freezes commands only.
func TestRelayStopsAtChosenCommand(t *testing.T) {
	t.Parallel()
	s := lab.StartRedis(t)
	r := lab.StartRelay(t, s.Addr)
	c, other := lab.Dial(t, r.Addr), lab.Dial(t, r.Addr)
	set := func(i int) string { return lab.Encode("SET", "key"+strconv.Itoa(i), strings.Repeat("v", 3000)) }
	var pipeline strings.Builder
	for i := range 40 {
		pipeline.WriteString(set(i % 4))
	}
	held := r.Hold("key2", 5) // the 19th of all
	c.Send(pipeline.String())
	lab.WantHeld(t, held)
	for range 18 {
		c.Want("+OK\r\n")
	}
	if got, _, _ := c.Rest(50 * time.Millisecond); got != "" {
		t.Errorf("reply to a held command: got %q, want none", got)
	}
	other.WantDo("+PONG\r\n", "PING")
	r.Thaw()
	for range 22 {
		c.Want("+OK\r\n")
	}

	s.Must(t, "FLUSHALL")
	cut := r.CutAt("key3", 1)
	c.Send(set(0) + set(1) + set(3) + set(2))
	lab.WantHeld(t, cut)
	if _, closed, _ := c.Rest(lab.Patience); !closed {
		t.Error("connection after the cut: got it open, want it closed")
	}
	lab.WaitFor(t, "the commands before the cut", lab.Patience,
		func() bool { return s.Do(t, "EXISTS", "key0", "key1") == ":2\r\n" })
	if got := s.Do(t, "EXISTS", "key2", "key3"); got != ":0\r\n" {
		t.Errorf("keys of commands after the cut: got %q, want none", got)
	}
	other.WantDo("+PONG\r\n", "PING")
	wantSwitched(t, r, other)
}

// wantSwitched leads the relay to another server, isolates it and freezes commands. old is a
// connection through the relay.
func wantSwitched(t *testing.T, r *lab.Relay, old *lab.Client) {
	t.Helper()
	two := lab.StartRedis(t)
	two.Must(t, "SET", "who", "two")
	r.Switch(two.Addr)
	old.WantClosed()
	lab.Dial(t, r.Addr).WantDo(lab.Bulk("two"), "GET", "who")
	r.Isolate()
	if conn, err := lab.Connect(r.Addr); err == nil {
		(&lab.Client{Conn: conn, T: t}).WantClosed()
	}
	r.Rejoin()
	c := lab.Dial(t, r.Addr)
	c.WantDo("+PONG\r\n", "PING")
	r.FreezeCommands()
	c.Send(lab.Encode("SET", "frozen", "1"))
	if got, _, _ := c.Rest(50 * time.Millisecond); got != "" || two.Do(t, "EXISTS", "frozen") != ":0\r\n" {
		t.Errorf("reply through a relay with frozen commands: got %q, want none, and no key", got)
	}
	r.Rejoin()
	c.Want("+OK\r\n")
}

// TestNetLosesPackets: a network loses packets in one direction, in both, or some of them. Bytes
// sent meanwhile arrive later.
func TestNetLosesPackets(t *testing.T) {
	t.Parallel()
	n := lab.NewNet(t)
	a, b := n.Node(t), n.Node(t)
	s := lab.StartRedisAt(t, b)
	direct := func() { // the test itself always reaches the server
		t.Helper()
		if got := s.Do(t, "PING"); got != "+PONG\r\n" {
			t.Fatalf("PING: got %q, want +PONG", got)
		}
	}
	direct()
	_, port, _ := net.SplitHostPort(s.Addr)
	cli := func(args ...string) *lab.Process {
		return lab.LaunchAt(t, a, "redis-cli", append([]string{"-h", b.IP, "-p", port}, args...)...)
	}
	within := func(p *lab.Process, d time.Duration) bool { return lab.Poll(d, func() bool { return !p.Running() }) }
	if p := cli("SET", "a", "1"); !within(p, lab.Patience) || p.Log.String() != "OK\n" {
		t.Fatalf("SET: got %q, want OK", p.Log)
	}
	n.Cut(t, a, b)
	lost := cli("SET", "a", "2")
	if within(lost, 300*time.Millisecond) {
		t.Errorf("reply through a cut: got %q, want none", lost.Log)
	}
	direct()
	n.Heal(t)
	if !within(lost, 2*lab.Patience) || s.Do(t, "GET", "a") != lab.Bulk("2") {
		t.Errorf("reply after the cut: got %q, want OK, and the value 2", lost.Log)
	}

	session := lab.LaunchAt(t, a, "redis-cli", "-h", b.IP, "-p", port, "-r", "-1", "-i", "0.01", "INCR",
		"n") // one connection
	count := func() int { return lab.Number(t, lab.Scalar(s.Do(t, "INCRBY", "n", "0"))) }
	lab.WaitFor(t, "INCRs", lab.Patience, func() bool { return count() > 3 })
	n.Drop(t, b, a, 100) // only replies; the command under way still arrives
	settled := count()
	lab.WaitFor(t, "the end of commands without replies", lab.Patience, func() bool {
		before := settled
		lab.Pass(t, 150*time.Millisecond)
		settled = count()
		return settled == before
	})
	n.Heal(t)
	lab.WaitFor(t, "more commands on that connection", 2*lab.Patience, func() bool { return count() > settled+3 })
	n.Drop(t, a, b, 30)
	begun := count()
	lab.WaitFor(t, "progress at a loss of 30 %", 3*lab.Patience, func() bool { return count() > begun+20 })
	session.Kill()
}

// TestClientVanishesInItsPhase: a client vanishes in the phase and the manner that the caller
// chose.
func TestClientVanishesInItsPhase(t *testing.T) {
	t.Parallel()
	s := lab.StartRedis(t)
	for _, phase := range lab.Phases {
		for _, manner := range lab.Manners {
			key := strconv.Itoa(int(phase)) + strconv.Itoa(int(manner))
			c, reply, err := lab.VanishIn(s.Addr, phase, manner, 20*time.Millisecond, "SET", key, "1")
			if err != nil || phase == lab.Holding != (reply == "+OK\r\n") {
				t.Fatalf("phase %d, manner %d: got %q, %v, want +OK only in the last phase", phase, manner, reply, err)
			}
			executed := slices.Contains([]lab.Phase{lab.Waiting, lab.Granted, lab.Holding}, phase)
			if phase == lab.Sent && manner == lab.Frozen {
				lab.WaitFor(t, "the execution of the command", lab.Patience,
					func() bool { return s.Do(t, "EXISTS", key) == ":1\r\n" })
			} else if got := s.Do(t, "EXISTS", key) == ":1\r\n"; phase != lab.Sent && got != executed {
				t.Errorf("phase %d, manner %d: got executed %v, want %v", phase, manner, got, executed)
			}
			want := 1 // the connection of CLIENT LIST
			if manner == lab.Frozen {
				want = 2
			}
			lab.WaitFor(t, "the end of the other connections", lab.Patience, func() bool {
				return strings.Count(lab.Scalar(s.Do(t, "CLIENT", "LIST")), "\n") == want
			})
			c.Close()
		}
	}
}
