package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters that lose their grants must not vote before all of these have expired. The proxies here
// have a max-ttl of one or two seconds, so that a quarantine ends soon.

// margin returns by how much a quarantine must outlast max-ttl, and by how much it may. The upper
// bound keeps a test from hanging; the tests of package quorum check the exact time.
func margin(maxTTL time.Duration) (least, most time.Duration) {
	return maxTTL / 100, time.Minute
}

// refusedNow reports whether a test should repeat a LOCK after this error: too few masters vote
// or, if a grant is possible, a majority granted but did not confirm the fence in time.
func refusedNow(reply string, possible bool) bool {
	return strings.HasPrefix(reply, "-NOQUORUM ") || possible && strings.HasPrefix(reply, "-TRYAGAIN ")
}

// loss is a way for masters to lose their memory.
type loss struct {
	name    string
	prepare func(t testing.TB, s *lab.Redis) (wiped func()) // called when the master votes and has no keys
	says    string                                          // in NOQUORUM, if the proxy knows the master
}

func losses() []loss {
	return []loss{
		{"killed, started empty", func(t testing.TB, s *lab.Redis) func() { return func() { s.RestartEmpty(t) } },
			"restarted"},
		{"FLUSHALL", func(t testing.TB, s *lab.Redis) func() { return func() { s.Must(t, "FLUSHALL") } }, "lost its memory"},
		{"started with an old dump", func(t testing.TB, s *lab.Redis) func() {
			dump := s.SaveRDB(t)
			return func() { s.RestartWithRDB(t, dump) }
		}, "restarted"},
		{"killed, started with an empty AOF", func(t testing.TB, s *lab.Redis) func() {
			return func() { s.RestartKept(t, lab.AOFAlways()...) }
		}, "restarted"},
	}
}

// TestWipedMastersWaitForMaxTTL: two of three masters lose a held lock. No client gets the lock
// until max-ttl has passed. Then the two vote again, and the fence is greater. The same holds for
// a proxy that starts afterwards.
func TestWipedMastersWaitForMaxTTL(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"masters": false, "masters, then the proxy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.StartGuarded(t, maxTTLOfWipe, lab.Config{})
			for i, w := range losses() {
				if late == (i >= 2) || lab.IsLong() { // a new proxy sees only the rest
					t.Logf("%s: %s", name, w.name)
					wipeTwo(t, l, w, late)
				}
			}
		})
	}
}

const maxTTLOfWipe = 2 * time.Second

// wipeTwo makes two of three masters lose a held lock. The proxy starts afterwards if late is set.
func wipeTwo(t *testing.T, l *lab.Lab, w loss, late bool) {
	const maxTTL = maxTTLOfWipe
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
		t.Errorf("token after the wipe: got %s, want one above %s", next, token)
	}
	lab.WaitAllVote(t, l, host)
	host.WantDo(":0\r\n", "UNLOCK", "job", token)
	lab.UnlockSurely(t, host, "job", next)
}

// wantOut compares the replies to LOCK and LOCKPROXY MASTERS while two masters are in quarantine.
func wantOut(t testing.TB, host *lab.Client, w loss, late bool) {
	t.Helper()
	lab.WaitStates(t, host, lab.Patience, "quarantined", "quarantined", "voting")
	reply := ""
	if !lab.Poll(time.Second, func() bool {
		reply = host.Do("LOCK", "other", "1s")
		return strings.HasPrefix(reply, "-NOQUORUM 1 of 3 masters can vote, 2 needed: ") &&
			strings.Count(reply, "s ago, votes in ") == 2 &&
			(late || strings.Count(reply, w.says) == 2)
	}) {
		t.Errorf("LOCK with two masters in quarantine: got %q, want -NOQUORUM with %q twice", reply, w.says)
	}
	for i, m := range lab.Elements(host.Do("LOCKPROXY", "MASTERS")) {
		m := lab.MapOf(m)
		if left := lab.Number(t, m["votes_in_ms"]); i < 2 &&
			(left < 1 || left > 4606 || !strings.Contains(m["reason"], "votes in ")) || i == 2 && left != 0 {
			t.Errorf("LOCKPROXY MASTERS: got %v, want the time until the vote of masters in quarantine only", m)
		}
	}
}

// wantRefused asks for key until it is granted, which must not happen within max-ttl of start and
// must happen soon after it. The options are for LOCK.
func wantRefused(t testing.TB, host *lab.Client, key string, start time.Time, maxTTL time.Duration,
	options ...string) (token string) {
	t.Helper()
	return wantAllRefused(t, host, []ask{{key, options}}, start, maxTTL)[0]
}

// ask is a LOCK.
type ask struct {
	key     string
	options []string
}

// wantAllRefused is wantRefused for several locks, which it asks for in turn.
func wantAllRefused(t testing.TB, host *lab.Client, asks []ask, start time.Time, maxTTL time.Duration) []string {
	t.Helper()
	least, _ := margin(maxTTL)
	tokens := make([]string, len(asks))
	for slices.Contains(tokens, "") {
		for i, a := range asks {
			if tokens[i] == "" {
				tokens[i] = a.wantNotEarly(t, host, start, maxTTL)
			}
		}
		if slices.Contains(tokens, "") {
			lab.Pass(t, between(start.Add(maxTTL+least)))
		}
	}
	return tokens
}

// wantNotEarly sends the LOCK once, after masters lost their memory at start. It returns the
// token, if any.
func (a ask) wantNotEarly(t testing.TB, host *lab.Client, start time.Time, maxTTL time.Duration) string {
	t.Helper()
	least, most := margin(maxTTL)
	sent := time.Now()
	reply := host.Do(append([]string{"LOCK", a.key, "1s"}, a.options...)...)
	token := lab.TokenOf(reply)
	after, early := sent.Sub(start), time.Since(start) < maxTTL+least
	switch {
	case token != "" && early:
		t.Fatalf("LOCK %s %v after masters lost their memory: got a token, want none before %v", a.key,
			time.Since(start), maxTTL+least)
	case token != "":
		t.Logf("granted %v after masters lost their memory, at a max-ttl of %v", after, maxTTL)
	case reply != lab.Null2 && !refusedNow(reply, !early):
		t.Fatalf("LOCK %v after masters lost their memory: got %q, want a refusal", after, reply)
	case after > maxTTL+most:
		t.Fatalf("LOCK %v after masters lost their memory: got %q, want a token after max-ttl of %v", after, reply, maxTTL)
	}
	return token
}

// between returns the pause between two LOCKs that must be refused until a certain time. It is
// shorter when a grant could come a little too soon.
func between(until time.Time) time.Duration {
	if left := time.Until(until); left > -100*time.Millisecond && left < 200*time.Millisecond {
		return 5 * time.Millisecond
	}
	return 25 * time.Millisecond
}

// TestMastersWipedAtTheirVoteWaitAgain: masters lose their memory again at the moment when they
// vote again. So a proxy may see two quarantines and not the votes between them.
func TestMastersWipedAtTheirVoteWaitAgain(t *testing.T) {
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
	for i := range lab.Long(3, 8) {
		for _, s := range l.Masters[:2] {
			lab.WaitFor(t, "the admission of "+s.Addr, lab.Patience, func() bool { return admitted(t, s) })
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

// countdown matches the reason of a master in quarantine.
var countdown = regexp.MustCompile(`^lost its memory ([0-9]+)s ago, votes in ([0-9]+)s$`)

// countdownCheck checks what NOQUORUM says of one quarantine, whose wait is a little under 6 s.
// The wait begins when enough masters know of the quarantine, and anew if that turns out to be
// later.
type countdownCheck struct {
	seen      bool
	in        int // the rest in the last reason
	low, high int // of the sums of both numbers since the wait began
}

func (c *countdownCheck) note(t *testing.T, text string) {
	t.Helper()
	numbers := countdown.FindStringSubmatch(text)
	if numbers == nil {
		return
	}
	ago, in := lab.Number(t, numbers[1]), lab.Number(t, numbers[2])
	sum := ago + in
	if !c.seen || in == 6 { // the wait may have begun just now
		c.low, c.high = sum, sum
	}
	if c.seen && in > c.in && in < 6 || in > 6 || sum < 5 {
		t.Errorf("NOQUORUM: got %q after a rest of %ds, want a lower rest, 6s at most, and a sum of at least 5s", text, c.in)
	}
	c.seen, c.in = true, in
	if in == 0 { // the vote may come late
		return
	}
	c.low, c.high = min(c.low, sum), max(c.high, sum)
	if c.high-c.low > 1 { // both numbers are rounded
		t.Errorf("NOQUORUM: got %q, a sum of %ds, after sums from %ds to %ds", text, sum, c.low, c.high)
	}
}

// TestQuarantineCountsDown: NOQUORUM and LOCKPROXY MASTERS count down the time until the vote.
func TestQuarantineCountsDown(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, 3080*time.Millisecond, lab.Config{})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	for _, s := range l.Masters[:2] {
		s.Must(t, "FLUSHALL")
	}
	lab.WaitStates(t, host, lab.Patience, "quarantined", "quarantined", "voting")
	// The wait begins anew when the proxy learns that the other master has lost its memory as
	// well.
	const full = 5981 // ms
	var check countdownCheck
	seen, last := map[string]bool{}, 1<<30
	for {
		frame := host.Do("LOCKPROXY", "MASTERS")
		m := lab.MapOf(lab.Elements(frame)[0])
		left := lab.Number(t, m["votes_in_ms"])
		if m["state"] == "voting" {
			break
		}
		reply := host.Do("LOCK", "job", "1s")
		if _, text, ok := strings.Cut(reply, l.Masters[0].Addr+" "); ok {
			text, _, _ = strings.Cut(text, ";")
			text = strings.TrimSpace(text)
			seen[text] = true
			check.note(t, text)
		}
		if left > last && left < full-1000 { // a busy machine may show a new wait late
			t.Errorf("votes_in_ms: got %d after %d, want it to fall, or a new wait of %d", left, last, full)
		}
		last = left
		lab.Pass(t, 50*time.Millisecond)
	}
	if !check.seen {
		t.Errorf("NOQUORUM: got reasons %v, want the time until the vote in one at least", seen)
	}
}

// TestDurableMastersVoteAtOnce: masters that write everything to disk before they reply, and did
// so before the restart, vote without a quarantine and still have the lock.
func TestDurableMastersVoteAtOnce(t *testing.T) {
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
			t.Errorf("LOCKINFO: got %v, want the lock on all three", info)
		}
		host.WantDo(lab.Null2, "LOCK", key, "60s")
		host.WantDo(":1\r\n", "EXTEND", key, token, "60s")
		host.Unlock(key, token)
		if next := lab.LockSoon(t, host, key); next <= token {
			t.Errorf("got token %s, want one above %s", next, token)
		}
	}
}

// waitDurable waits for the mark on a master that it has been durable in this run.
func waitDurable(t testing.TB, s *lab.Redis) {
	t.Helper()
	run := s.RunID(t)
	lab.WaitFor(t, "the durable mark", lab.Patience,
		func() bool { return s.Do(t, "HGET", "lockproxy:state:lock:", "durable") == lab.Bulk(run) })
}

// TestMastersDurableOnlyAfterRestartWait: a master that becomes durable at its restart waits for
// max-ttl, although it has kept all its files.
func TestMastersDurableOnlyAfterRestartWait(t *testing.T) {
	t.Parallel()
	everySecond := []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	for name, change := range map[string]func(testing.TB, *lab.Redis){
		"everysec": func(testing.TB, *lab.Redis) {},
		"always, then everysec": func(t testing.TB, s *lab.Redis) {
			s.Must(t, "CONFIG", "SET", "appendfsync", "always")
			waitDurable(t, s)
			s.Must(t, "CONFIG", "SET", "appendfsync", "everysec")
			lab.WaitFor(t, "the end of the durable mark", lab.Patience,
				func() bool { return s.Do(t, "HGET", "lockproxy:state:lock:", "durable") == lab.Null2 })
		},
	} {
		if name == "everysec" && !lab.IsLong() {
			continue // the other row leads to the same state
		}
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
