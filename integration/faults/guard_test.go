package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters that lose their grants must not vote before all of these have run out. The proxies here
// have a max-ttl of one or two seconds, so that a quarantine ends soon.

// margin returns by how much a quarantine must, and may, outlast max-ttl. The upper bound only
// keeps a test from hanging; the tests of quorum check the exact time.
func margin(maxTTL time.Duration) (least, most time.Duration) {
	return maxTTL / 100, time.Minute
}

// refusedNow reports whether an error reply to LOCK is one to be sent again: too few masters vote
// or, if a grant is possible by now, a majority granted and could not confirm the fence in time.
func refusedNow(reply string, possible bool) bool {
	return strings.HasPrefix(reply, "-NOQUORUM ") || possible && strings.HasPrefix(reply, "-TRYAGAIN ")
}

// loss is a way for masters to lose their memory.
type loss struct {
	name    string
	prepare func(t testing.TB, s *lab.Redis) (wiped func()) // called when the master votes and has no keys
	says    string                                          // in NOQUORUM, if a proxy had seen it before
}

func losses() []loss {
	return []loss{
		{"killed, started empty", func(t testing.TB, s *lab.Redis) func() { return func() { s.RestartEmpty(t) } }, "restarted"},
		{"FLUSHALL", func(t testing.TB, s *lab.Redis) func() { return func() { s.Must(t, "FLUSHALL") } }, "lost its memory"},
		{"started with an old dump", func(t testing.TB, s *lab.Redis) func() {
			dump := s.SaveRDB(t)
			return func() { s.RestartWithRDB(t, dump) }
		}, "restarted"},
		{"killed, started with an AOF of another day", func(t testing.TB, s *lab.Redis) func() {
			return func() { s.RestartKept(t, lab.AOFAlways()...) }
		}, "restarted"},
	}
}

// TestGuardWiped: a lock is held, and two of three masters lose it. No client gets the lock until
// max-ttl has passed; then the two vote again, and the fence is greater. The same for a proxy that
// was started only afterwards.
func TestGuardWiped(t *testing.T) {
	t.Parallel()
	for _, w := range losses() {
		for _, late := range []bool{false, true} {
			name := w.name
			if late {
				name += ", then the proxy"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const maxTTL = 2 * time.Second
				l := lab.StartGuarded(t, maxTTL, lab.Config{})
				host := lab.Dial(t, l.Proxies[0].Addr)
				lab.WaitAllVote(t, l, host)
				var wiped []func()
				for _, s := range l.Masters[:2] {
					wiped = append(wiped, w.prepare(t, s))
				}
				token := lab.LockSoon(t, host, "job", "2s")
				lab.WantHolders(t, l.Masters, "job", 3)
				if late {
					l.Proxies[0].Kill()
				}
				start := time.Now()
				for _, now := range wiped {
					now()
				}
				if late {
					l.Proxies[0].Restart(t)
					host = lab.Dial(t, l.Proxies[0].Addr)
				}
				wantOut(t, host, w, late)
				next := wantRefused(t, host, "job", start, maxTTL)
				if next <= token {
					t.Errorf("the token after the wipe is %s, before it was %s", next, token)
				}
				lab.WaitAllVote(t, l, host)
				host.WantDo(":0\r\n", "UNLOCK", "job", token)
				lab.UnlockSurely(t, host, "job", next)
			})
		}
	}
}

// wantOut checks what clients and operators see of two masters in quarantine.
func wantOut(t testing.TB, host *lab.Client, w loss, late bool) {
	t.Helper()
	lab.WaitStates(t, host, lab.Patience, "quarantined", "quarantined", "voting")
	reply := ""
	if !lab.Poll(time.Second, func() bool {
		reply = host.Do("LOCK", "other", "1s")
		return strings.HasPrefix(reply, "-NOQUORUM 1 of 3 masters can vote, 2 needed: ") && strings.Count(reply, "s ago, votes in ") == 2 &&
			(late || strings.Count(reply, w.says) == 2)
	}) {
		t.Errorf("LOCK with two masters in quarantine: %q, want it to say %q", reply, w.says)
	}
	for i, m := range lab.Elements(host.Do("LOCKPROXY", "MASTERS")) {
		m := lab.MapOf(m)
		if left := lab.Number(t, m["votes_in_ms"]); i < 2 && (left < 1 || left > 4072 || !strings.Contains(m["reason"], "votes in ")) || i == 2 && left != 0 {
			t.Errorf("LOCKPROXY MASTERS: %v, want how long it is out", m)
		}
	}
}

// wantRefused asks for key until it is granted, which must not happen within max-ttl of start, and
// must soon after it. The options are for LOCK.
func wantRefused(t testing.TB, host *lab.Client, key string, start time.Time, maxTTL time.Duration,
	options ...string) (token string) {
	t.Helper()
	least, most := margin(maxTTL)
	for {
		sent := time.Now()
		reply := host.Do(append([]string{"LOCK", key, "1s"}, options...)...)
		token = lab.TokenOf(reply)
		after, early := sent.Sub(start), time.Since(start) < maxTTL+least
		switch {
		case token != "" && early:
			t.Fatalf("%s was granted %v after masters lost their memory", key, time.Since(start))
		case token != "":
			t.Logf("granted %v after masters lost their memory, at a max-ttl of %v", after, maxTTL)
			return token
		case reply != lab.Null2 && !refusedNow(reply, !early):
			t.Fatalf("LOCK: %q, %v after masters lost their memory", reply, after)
		case after > maxTTL+most:
			t.Fatalf("LOCK: %q, %v after masters lost their memory, at a max-ttl of %v", reply, after, maxTTL)
		}
		lab.Pass(t, 5*time.Millisecond)
	}
}

// TestGuardWipedAgain: masters lose their memory again at the moment when they vote again. So one
// proxy may have seen both quarantines, but not the votes between them.
func TestGuardWipedAgain(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{Proxies: 2})
	one, two := lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[1].Addr)
	lab.WaitAllVote(t, l, one)
	flush := func() time.Time {
		start := time.Now()
		for _, s := range l.Masters[:2] {
			s.Must(t, "FLUSHALL")
		}
		return start
	}
	flush()
	for i := range 8 {
		for _, s := range l.Masters[:2] {
			lab.WaitFor(t, "admitted", lab.Patience, func() bool {
				return strings.HasPrefix(lab.Scalar(s.Do(t, "HGET", "lockproxy:state:lock:", "record")), "A ")
			})
		}
		key := fmt.Sprint("job-", i)
		lab.LockSoon(t, one, key)
		start := flush()
		if i%2 == 0 {
			one, two = two, one
		}
		wantRefused(t, two, key, start, maxTTL)
	}
}

// TestGuardCountdown: what NOQUORUM and LOCKPROXY MASTERS say of the time left counts down to the
// vote.
func TestGuardCountdown(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, 2900*time.Millisecond, lab.Config{})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	for _, s := range l.Masters[:2] {
		s.Must(t, "FLUSHALL")
	}
	lab.WaitStates(t, host, lab.Patience, "quarantined", "quarantined", "voting")
	seen, last := map[string]bool{}, 1<<30
	for {
		frame, now := host.Do("LOCKPROXY", "MASTERS"), time.Now()
		m := lab.MapOf(lab.Elements(frame)[0])
		left := lab.Number(t, m["votes_in_ms"])
		if m["state"] == "voting" {
			break
		}
		reply := host.Do("LOCK", "job", "1s")
		if _, text, ok := strings.Cut(reply, l.Masters[0].Addr+" "); ok {
			text, _, _ = strings.Cut(text, ";")
			seen[strings.TrimSpace(text)] = true
		}
		if left > last {
			t.Errorf("votes_in_ms rose from %d to %d", last, left)
		}
		last = left
		lab.WaitFor(t, "50ms more", lab.Patience, func() bool { return time.Since(now) > 50*time.Millisecond })
	}
	for _, want := range []string{"lost its memory 0s ago, votes in 5s", "lost its memory 1s ago, votes in 4s", "lost its memory 3s ago, votes in 2s"} {
		if !seen[want] {
			t.Errorf("NOQUORUM never said %q, but %v", want, seen)
		}
	}
}

// TestGuardDurable: masters that write everything to disk before they answer, and did so before
// the restart, vote at once and still show the lock.
func TestGuardDurable(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Minute
	l := lab.StartGuarded(t, maxTTL, lab.Config{MasterArgs: lab.AOFAlways()})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	for _, s := range l.Masters {
		waitDurable(t, s)
	}
	for round, restarted := range [][]*lab.Redis{l.Masters[:2], l.Masters} {
		key := fmt.Sprint("job-", round)
		token := host.Lock(key, "60s")
		lab.WantHolders(t, l.Masters, key, 3)
		for _, s := range restarted {
			s.RestartKept(t)
		}
		if round == 1 { // for a new proxy too
			l.Proxies[0].Restart(t)
			host = lab.Dial(t, l.Proxies[0].Addr)
		}
		lab.WaitAllVote(t, l, host)
		if info := lab.MapOf(host.Do("LOCKINFO", key)); info["held"] != "3" {
			t.Errorf("LOCKINFO: %v, want the lock on all three", info)
		}
		host.WantDo(lab.Null2, "LOCK", key, "1s")
		host.WantDo(":1\r\n", "EXTEND", key, token, "60s")
		host.Unlock(key, token)
		if next := lab.LockSoon(t, host, key); next <= token {
			t.Errorf("token %s after %s", next, token)
		}
	}
}

// waitDurable waits for the mark that a master keeps its memory in this run.
func waitDurable(t testing.TB, s *lab.Redis) {
	t.Helper()
	run := s.RunID(t)
	lab.WaitFor(t, "the durable mark", lab.Patience, func() bool { return s.Do(t, "HGET", "lockproxy:state:lock:", "durable") == lab.Bulk(run) })
}

// TestGuardNotDurable: a master that is durable only after its restart waits, although it kept all
// its files.
func TestGuardNotDurable(t *testing.T) {
	t.Parallel()
	everySecond := []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	for name, change := range map[string]func(testing.TB, *lab.Redis){
		"everysec": func(testing.TB, *lab.Redis) {},
		"always, then everysec": func(t testing.TB, s *lab.Redis) {
			s.Must(t, "CONFIG", "SET", "appendfsync", "always")
			waitDurable(t, s)
			s.Must(t, "CONFIG", "SET", "appendfsync", "everysec")
			lab.WaitFor(t, "the mark gone", lab.Patience, func() bool { return s.Do(t, "HGET", "lockproxy:state:lock:", "durable") == lab.Null2 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const maxTTL = 1500 * time.Millisecond
			l := lab.StartGuarded(t, maxTTL, lab.Config{MasterArgs: everySecond})
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			for _, s := range l.Masters[:2] {
				change(t, s)
			}
			lab.LockSoon(t, host, "job", "1500ms")
			start := time.Now()
			for _, s := range l.Masters[:2] {
				s.RestartKept(t, "--appendfsync", "always")
			}
			wantRefused(t, host, "job", start, maxTTL)
		})
	}
}
