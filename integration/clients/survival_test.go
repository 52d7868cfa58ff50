package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/clients/withlock"
	"lockproxy/integration/lab"
)

// Two programs with each recipe run while proxies and masters are killed, frozen and started
// again. One adds to a counter that all share, under one lock: no addition is lost, and no
// program ends. The other keeps a lock through all of that. Then both proxies freeze: the lock is
// lost, and the program reports it in time, without an UNLOCK.
func TestRecipesSurviveTheirServers(t *testing.T) {
	t.Parallel()
	s := startSurvival(t)
	restarts := []*lab.Proxy{s.Proxies[0], s.Proxies[1], s.Proxies[0], s.Proxies[1], s.Proxies[1], s.Proxies[0]}
	for i, p := range restarts[:lab.Long(2, len(restarts))] {
		s.during(t, fmt.Sprintf("restart %d of a proxy", i+1), func() {
			if i%2 == 0 {
				p.Kill()
			} else {
				p.Stop(t)
			}
		}, func() { p.Restart(t); p.WaitVoting(t) })
	}
	p, m := s.Proxies[0], s.Masters[0]
	s.during(t, "a frozen proxy", func() { p.Pause(t) }, p.Resume)
	s.during(t, "a frozen master", func() { m.Pause(t) }, m.Resume)
	s.during(t, "a dead master", m.Kill, func() { m.RestartEmpty(t) })
	s.noMajority(t)
	s.wantCounted(t)
	s.wantHeldThenLost(t)
}

// survive is withlock while proxies and masters die, like python/survive.py. TestMain calls it in
// a process of its own.
func survive(role, folder string, addrs []string) error {
	proxies := withlock.Connect(redis.Options{}, addrs...)
	if role == "hold" {
		err := proxies.Do(context.Background(), "hold:go", ttlOfHold, 5*time.Second,
			func(ctx context.Context, fence int64) error {
				err := writeNumber(folder, "held.go", int(fence))
				<-ctx.Done()
				return err
			})
		if !errors.Is(err, withlock.ErrLost) || !strings.Contains(err.Error(), "hold:go") {
			return fmt.Errorf("hold: got %w, want ErrLost with the key", err)
		}
		return nil
	}
	for done := 0; readNumber(folder, "stop") == 0; time.Sleep(20 * time.Millisecond) {
		err := proxies.Do(context.Background(), "counter", 2*time.Second, 15*time.Second,
			func(ctx context.Context, _ int64) error {
				n := readNumber(folder, "counter")
				time.Sleep(5 * time.Millisecond)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				done++
				return errors.Join(writeNumber(folder, "counter", n+1), writeNumber(folder, "done.go", done))
			})
		if errors.Is(err, withlock.ErrTaken) || errors.Is(err, withlock.ErrLost) {
			fmt.Println(err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// survival is a deployment with two proxies, and the programs that use it.
type survival struct {
	*lab.Lab
	folder      string
	count, hold map[string]*lab.Process // by the name of the recipe
}

// ttlOfHold is the ttl of the locks that are kept.
const ttlOfHold = 20 * time.Second

func startSurvival(t *testing.T) *survival {
	t.Helper()
	s := &survival{Lab: lab.Start(t, lab.Config{Proxies: 2, Flags: []string{"--max-ttl", "21s"}}), folder: t.TempDir(),
		count: map[string]*lab.Process{}, hold: map[string]*lab.Process{}}
	if err := writeNumber(s.folder, "counter", 0); err != nil {
		t.Fatal(err)
	}
	addrs := []string{s.Proxies[0].Addr, s.Proxies[1].Addr}
	for name, command := range survivors(t) { // one after the other, because a start takes much of a processor
		slices.Reverse(addrs)
		args := append([]string{name, s.folder}, addrs...)
		if name != "leader" && name != "elect" { // which only hold
			s.count[name] = lab.Launch(t, name+" count", command[0], slices.Concat(command[1:], []string{"count"}, args)...)
		}
		s.hold[name] = lab.Launch(t, name+" hold", command[0], slices.Concat(command[1:], []string{"hold"}, args)...)
		lab.WaitFor(t, "the locks of "+name, lab.Patience, func() bool {
			s.wantRunning(t)
			return s.read("held."+name) != 0 && (s.count[name] == nil || s.read("done."+name) != 0)
		})
	}
	return s
}

// survivors returns the command of each recipe whose language is installed.
func survivors(t *testing.T) map[string][]string {
	t.Helper()
	python := redisPy(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	list := map[string][]string{
		"go":      {self},
		"python":  {python, "python/survive.py"},
		"leader":  {python, "python/survive.py"},
		"elect":   {python, "python/survive.py"},
		"python2": {python, "python/survive.py"}, // the fourth that counts, if only Python is installed
		"asyncio": {python, "python/survive_asyncio.py"},
	}
	if nodeMissing() == nil {
		list["ioredis"] = []string{"node", "node/survive.js"}
		list["nodeRedis"] = []string{"node", "node/survive.js"}
	}
	if missing("php", "-r", "exit(class_exists('Redis') ? 0 : 1);") == nil {
		list["php"] = []string{"php", "php/survive.php"}
	}
	if missing("ruby", "-e", "require 'redis'") == nil {
		list["ruby"] = []string{"ruby", "ruby/survive.rb"}
	}
	if missing("javac", "-version") == nil {
		list["java"] = []string{"java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", javaClasses(t), "Recipes"}
	}
	return list
}

// during makes a fault, waits until every program has counted on, and ends the fault.
func (s *survival) during(t *testing.T, fault string, begin, end func()) {
	t.Helper()
	begin()
	s.wantProgress(t, fault)
	end()
	s.wantProgress(t, "the end of "+fault)
}

func (s *survival) wantProgress(t *testing.T, what string) {
	t.Helper()
	before := map[string]int{}
	for name := range s.count {
		before[name] = s.read("done." + name)
	}
	lab.WaitFor(t, "every program to count after "+what, 2*lab.Patience, func() bool {
		s.wantRunning(t)
		maps.DeleteFunc(before, func(name string, n int) bool { return s.read("done."+name) > n+1 })
		return len(before) == 0
	})
}

func (s *survival) wantRunning(t *testing.T) {
	t.Helper()
	for _, list := range []map[string]*lab.Process{s.count, s.hold} {
		for name, p := range list {
			if !p.Running() {
				t.Fatalf("%s: got its end (%v), want it running\n%s", name, p.Err, p.Log)
			}
		}
	}
}

// noMajority freezes two of three masters until a LOCK fails.
func (s *survival) noMajority(t *testing.T) {
	t.Helper()
	c := lab.Dial(t, s.Proxies[0].Addr)
	for _, m := range s.Masters[:2] {
		m.Pause(t)
	}
	lab.WaitFor(t, "NOQUORUM", lab.Patience, func() bool {
		return strings.HasPrefix(c.Do("LOCK", "other", "1s"), "-NOQUORUM")
	})
	for _, m := range s.Masters[:2] {
		m.Resume()
	}
	s.wantProgress(t, "a moment without a majority")
}

// wantCounted stops the counting programs. The counter must be the sum of their counts.
func (s *survival) wantCounted(t *testing.T) {
	t.Helper()
	if err := writeNumber(s.folder, "stop", 1); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for name, p := range s.count {
		wantAllOK(t, name+" count", p)
		n := s.read("done." + name)
		t.Logf("%s counted %d\n%s", name, n, p.Log)
		sum += n
	}
	if got := s.read("counter"); got != sum {
		t.Errorf("counter: got %d, want %d", got, sum)
	}
}

// wantHeldThenLost checks that each lock has the fence of its first grant. Then it freezes both
// proxies, so that no renewal gets through: the programs must end in time.
func (s *survival) wantHeldThenLost(t *testing.T) {
	t.Helper()
	c := lab.Dial(t, s.Proxies[0].Addr)
	for name := range s.hold {
		info := lab.Fields(c.Do("LOCKINFO", "hold:"+name))
		if i := slices.Index(info, "fence"); i < 0 || info[i+1] != strconv.Itoa(s.read("held."+name)) {
			t.Errorf("%s: got the lock %q, want the fence %d", name, info, s.read("held."+name))
		}
	}
	before := s.lateUnlocks(t)
	for _, p := range s.Proxies {
		p.Pause(t)
	}
	s.wantLostInTime(t)
	for _, p := range s.Proxies {
		p.Resume()
		p.WaitVoting(t) // then it has answered all commands of the programs
	}
	if got := s.lateUnlocks(t); got != before {
		t.Errorf("got %d UNLOCKs of lost locks, want none", got-before)
	}
}

// wantLostInTime waits for the end of the programs whose locks run out. The last renewal was sent
// before this call, so the validity ends within one ttl.
func (s *survival) wantLostInTime(t *testing.T) {
	t.Helper()
	holds := func(p *lab.Process) bool { return !strings.Contains(p.Log.String(), "all ok") }
	running := func() bool { return slices.ContainsFunc(slices.Collect(maps.Values(s.hold)), holds) }
	lag, end := lab.Lag(t), time.Now().Add(ttlOfHold+500*time.Millisecond)
	for running() && time.Now().Before(end.Add(10*lag())) {
		time.Sleep(5 * time.Millisecond)
	}
	for name, p := range s.hold {
		if holds(p) {
			t.Errorf("%s: got no LockLost 0.5 s after the end of the validity (the machine is %v late)", name, lag())
		}
		wantAllOK(t, name+" hold", p)
	}
}

// lateUnlocks returns how many UNLOCKs the proxies have answered with 0.
func (s *survival) lateUnlocks(t *testing.T) (sum int) {
	t.Helper()
	for _, p := range s.Proxies {
		c := lab.Dial(t, p.Addr)
		sum += c.Counter("not_held")
		c.Close()
	}
	return sum
}

// wantAllOK waits for the end of a program, whose last line must be "all ok".
func wantAllOK(t *testing.T, name string, p *lab.Process) {
	t.Helper()
	lab.Poll(lab.Patience, func() bool { return !p.Running() })
	if text := p.Log.String(); p.Running() || p.Err != nil || !strings.HasSuffix(strings.TrimSpace(text), "all ok") {
		t.Errorf("%s: got %v, want all ok\n%s", name, p.Err, text)
	}
}

func writeNumber(folder, name string, n int) error {
	return os.WriteFile(filepath.Join(folder, name), []byte(strconv.Itoa(n)), 0o600)
}

// readNumber returns the number in a file; 0 before it is written.
func readNumber(folder, name string) int {
	text, _ := os.ReadFile(filepath.Join(folder, name))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

func (s *survival) read(name string) int { return readNumber(s.folder, name) }
