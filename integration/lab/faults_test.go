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

// The faults of the laboratory, each tried on redis-server alone.

// TestHarnessRestarts: what a server remembers after each kind of restart.
func TestHarnessRestarts(t *testing.T) {
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
		{"with AOF", func() { s.RestartKept(t, lab.AOFAlways()...); s.Must(t, "SET", "a", "kept"); s.RestartKept(t) }, lab.Bulk("kept")},
		{"AOF, but empty", func() { s.RestartEmpty(t) }, lab.Null2},
	} {
		step.start()
		if got := s.Do(t, "GET", "a"); got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
		if now := s.RunID(t); now == run {
			t.Errorf("%s: the run is still %s", step.name, run)
		} else {
			run = now
		}
	}
}

// TestHarnessRefusals: a server that answers and does nothing, and what ends that.
func TestHarnessRefusals(t *testing.T) {
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
						t.Errorf("%s: %q, want %q", write[0], got, name)
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
		lab.WaitFor(t, "loaded", lab.Patience, func() bool { return s.Do(t, "GET", "a") == lab.Null2 })
		if took := time.Since(start); took < 500*time.Millisecond {
			t.Errorf("600 keys were loaded within %v", took)
		}
		s.RestartEmpty(t)
		s.Must(t, "SET", "a", "1")
	})
}

// TestHarnessClock: a server goes by the clock it was given: TIME and the expiry of keys.
func TestHarnessClock(t *testing.T) {
	t.Parallel()
	clock := lab.NewClock(t)
	s := lab.StartRedisWithClock(t, clock)
	lead := func() time.Duration { // of the server's clock, in the middle of the question
		start := time.Now()
		parts := lab.Fields(s.Do(t, "TIME"))
		middle := start.Add(time.Since(start) / 2)
		return time.Unix(int64(lab.Number(t, parts[0])), int64(lab.Number(t, parts[1]))*1000).Sub(middle)
	}
	near := func(what string, want time.Duration) {
		t.Helper()
		if got := lead(); got < want-10*time.Second || got > want+10*time.Second { // a busy machine answers late
			t.Errorf("%s: the clock leads by %v, want %v", what, got, want)
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
		t.Errorf("a key of 50s lives on for %v when the clock was stepped by a minute", got)
	}
	clock.Step(-time.Hour)
	near("an hour back", -59*time.Minute)
	if got := left("long"); got < 118*time.Minute || got > 119*time.Minute {
		t.Errorf("a key of an hour has %v, want 1h59m", got)
	}
	clock.Reset()
	near("reset", 0)
	clock.Rate(2)
	before, start := lead(), time.Now()
	lab.Pass(t, 400*time.Millisecond)
	if gain, took := lead()-before, time.Since(start); gain < took*9/10 || gain > took*11/10 {
		t.Errorf("at twice the speed the clock gained %v in %v", gain, took)
	}
	clock.Rate(1)
	before = lead()
	lab.Pass(t, 200*time.Millisecond)
	near("at normal speed again", before)
	clock.Step(time.Hour)
	s.RestartEmpty(t)
	near("after a restart", before+time.Hour)
}

// TestHarnessHold: a relay holds one command among many sent at once, on one connection, and cuts
// at one.
func TestHarnessHold(t *testing.T) {
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
		t.Errorf("a held command was answered: %q", got)
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
		t.Error("the connection lives on after the cut")
	}
	lab.WaitFor(t, "what came before the cut", lab.Patience, func() bool { return s.Do(t, "EXISTS", "key0", "key1") == ":2\r\n" })
	if got := s.Do(t, "EXISTS", "key2", "key3"); got != ":0\r\n" {
		t.Errorf("commands behind the cut were executed: %q", got)
	}
	other.WantDo("+PONG\r\n", "PING")

	two := lab.StartRedis(t)
	two.Must(t, "SET", "who", "two")
	r.Switch(two.Addr)
	other.WantClosed()
	lab.Dial(t, r.Addr).WantDo(lab.Bulk("two"), "GET", "who")
	r.Isolate()
	if conn, err := lab.Connect(r.Addr); err == nil {
		(&lab.Client{Conn: conn, T: t}).WantClosed()
	}
	r.Rejoin()
	c = lab.Dial(t, r.Addr)
	c.WantDo("+PONG\r\n", "PING")
	r.FreezeCommands()
	c.Send(lab.Encode("SET", "frozen", "1"))
	if got, _, _ := c.Rest(50 * time.Millisecond); got != "" || two.Do(t, "EXISTS", "frozen") != ":0\r\n" {
		t.Errorf("a frozen way let a command through: %q", got)
	}
	r.Rejoin()
	c.Want("+OK\r\n")
}

// TestHarnessNet: packets of one way, of both ways, or some of them, get lost; what was sent
// meanwhile arrives later.
func TestHarnessNet(t *testing.T) {
	t.Parallel()
	n := lab.NewNet(t)
	a, b := n.Node(t), n.Node(t)
	s := lab.StartRedisAt(t, b)
	direct := func() { // the test itself is never cut off
		t.Helper()
		if got := s.Do(t, "PING"); got != "+PONG\r\n" {
			t.Fatalf("PING: %q", got)
		}
	}
	direct()
	_, port, _ := net.SplitHostPort(s.Addr)
	cli := func(args ...string) *lab.Process {
		return lab.LaunchAt(t, a, "redis-cli", append([]string{"-h", b.IP, "-p", port}, args...)...)
	}
	within := func(p *lab.Process, d time.Duration) bool { return lab.Poll(d, func() bool { return !p.Running() }) }
	if p := cli("SET", "a", "1"); !within(p, lab.Patience) || p.Log.String() != "OK\n" {
		t.Fatalf("SET: %q", p.Log)
	}
	n.Cut(t, a, b)
	lost := cli("SET", "a", "2")
	if within(lost, 300*time.Millisecond) {
		t.Errorf("through a cut came %q", lost.Log)
	}
	direct()
	n.Heal(t)
	if !within(lost, 2*lab.Patience) || s.Do(t, "GET", "a") != lab.Bulk("2") {
		t.Errorf("after the cut: %q", lost.Log)
	}

	session := lab.LaunchAt(t, a, "redis-cli", "-h", b.IP, "-p", port, "-r", "-1", "-i", "0.01", "INCR", "n") // one connection
	count := func() int { return lab.Number(t, lab.Scalar(s.Do(t, "INCRBY", "n", "0"))) }
	lab.WaitFor(t, "INCRs", lab.Patience, func() bool { return count() > 3 })
	n.Drop(t, b, a, 100) // answers only: the command that is under way still arrives
	settled := count()
	lab.WaitFor(t, "no answers, no further commands", lab.Patience, func() bool {
		before := settled
		lab.Pass(t, 150*time.Millisecond)
		settled = count()
		return settled == before
	})
	n.Heal(t)
	lab.WaitFor(t, "the connection to go on", 2*lab.Patience, func() bool { return count() > settled+3 })
	n.Drop(t, a, b, 30)
	start, begun := time.Now(), count()
	lab.WaitFor(t, "progress at a loss of 30 %", 3*lab.Patience, func() bool { return count() > begun+20 })
	t.Logf("20 commands at a loss of 30 %% took %v", time.Since(start))
	session.Kill()
}

// TestHarnessVanish: clients vanish at the place they were told to.
func TestHarnessVanish(t *testing.T) {
	t.Parallel()
	s := lab.StartRedis(t)
	for _, phase := range lab.Phases {
		for _, manner := range lab.Manners {
			key := strconv.Itoa(int(phase)) + strconv.Itoa(int(manner))
			c, reply, err := lab.VanishIn(s.Addr, phase, manner, 20*time.Millisecond, "SET", key, "1")
			if err != nil || phase == lab.Holding != (reply == "+OK\r\n") {
				t.Fatalf("%s: %q, %v", key, reply, err)
			}
			executed := slices.Contains([]lab.Phase{lab.Waiting, lab.Granted, lab.Holding}, phase)
			if phase == lab.Sent && manner == lab.Frozen {
				lab.WaitFor(t, "the command", lab.Patience, func() bool { return s.Do(t, "EXISTS", key) == ":1\r\n" })
			} else if got := s.Do(t, "EXISTS", key) == ":1\r\n"; phase != lab.Sent && got != executed {
				t.Errorf("phase %d, manner %d: executed %v, want %v", phase, manner, got, executed)
			}
			want := 1 // the connections of this test: what asks, and what is frozen
			if manner == lab.Frozen {
				want = 2
			}
			lab.WaitFor(t, "the other connections gone", lab.Patience, func() bool {
				return strings.Count(lab.Scalar(s.Do(t, "CLIENT", "LIST")), "\n") == want
			})
			c.Close()
		}
	}
}
