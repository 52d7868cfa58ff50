package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// An old state of a master comes back. It has a valid record again, and lacks the locks that were
// granted meanwhile. The master must not vote before these have expired, and fences must not fall.

// comeback is a way in which an old state comes back in the same run of the server.
type comeback struct {
	name string
	// away replaces a master's state by an empty one; back undoes that.
	away func(t testing.TB, l *lab.Lab, master int) (back func())
}

func comebacks() []comeback {
	return []comeback{
		{"the address moves to another server and back", func(t testing.TB, l *lab.Lab, master int) func() {
			l.Readdress(master, lab.StartRedis(t).Addr)
			return func() { l.Readdress(master, l.Masters[master].Addr) }
		}},
		{"SWAPDB there and back", func(t testing.TB, l *lab.Lab, master int) func() {
			swap := func() { l.Masters[master].Must(t, "SWAPDB", "0", "1") }
			swap()
			return swap
		}},
		{"FLUSHALL, and an earlier dump loaded again", func(t testing.TB, l *lab.Lab, master int) func() {
			s := l.Masters[master]
			s.Must(t, "SAVE")
			s.Must(t, "FLUSHALL")
			return func() { s.Must(t, "DEBUG", "RELOAD", "NOSAVE") }
		}},
	}
}

// TestOldRecordsDoNotVote: two of three masters restart and are admitted. Then other states take
// their place, are admitted and grant a lock. When the first states come back, no other client
// gets that lock while it is held, and the next fence is greater.
func TestOldRecordsDoNotVote(t *testing.T) {
	t.Parallel()
	for _, w := range comebacks()[:lab.Long(2, 3)] { // the next test has the third
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			const maxTTL = time.Second
			l := lab.StartGuarded(t, maxTTL, lab.Config{Relays: true})
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			start := time.Now()
			for _, s := range l.Masters[:2] {
				s.RestartEmpty(t)
			}
			admittedAnew(t, l, host, start, 2)
			start = time.Now()
			backs := []func(){w.away(t, l, 0), w.away(t, l, 1)}
			admittedAnew(t, l, host, start, 2)
			token, until := hold(host, "job", maxTTL)
			for _, back := range backs {
				back()
			}
			wantNextHolder(t, host, "job", token, until, 2*maxTTL)
			lab.WaitAllVote(t, l, host)
		})
	}
}

// TestOldRecordDoesNotVoteForAnotherProxy: one of three masters gets another state, and the proxy
// that grants the lock is cut off from a second master. That proxy is killed, so that it tops no
// lock up, and the first state comes back. Another proxy then reaches a majority without the lock,
// and must not grant it.
func TestOldRecordDoesNotVoteForAnotherProxy(t *testing.T) {
	t.Parallel()
	for i, w := range comebacks() {
		for _, late := range []bool{false, true} {
			if (late != (i == 0) || i == 1) && !lab.IsLong() {
				continue // TestOldRecordsDoNotVote has SWAPDB
			}
			name := w.name
			if late {
				name += ", then the other proxy starts"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const maxTTL = 1500 * time.Millisecond
				l := lab.StartGuarded(t, maxTTL, lab.Config{Relays: true, Proxies: 2})
				one, two := lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[1].Addr)
				lab.WaitAllVote(t, l, one)
				start := time.Now()
				l.Masters[0].RestartEmpty(t)
				admittedAnew(t, l, one, start, 1)
				start = time.Now()
				back := w.away(t, l, 0)
				admittedAnew(t, l, one, start, 1)
				lab.WaitAllVote(t, l, two)
				l.Link(0, 2).Isolate()
				lab.WaitStates(t, one, lab.Patience, "voting", "voting", "down")
				token, until := hold(one, "job", maxTTL)
				l.Proxies[0].Kill()
				if late {
					l.Proxies[1].Kill()
				}
				back()
				if late {
					l.Proxies[1].Restart(t)
					two = lab.Dial(t, l.Proxies[1].Addr)
				}
				wantNextHolder(t, two, "job", token, until, 2*maxTTL)
			})
		}
	}
}

// TestOldDisksDoNotVote: two durable masters get the disks of an earlier run, and the proxy
// restarts. The marks on these disks claim that the masters have lost no write, and must not be
// believed.
func TestOldDisksDoNotVote(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{MasterArgs: lab.AOFAlways()})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	var disks []string
	for _, s := range l.Masters[:2] {
		waitDurable(t, s)
		disks = append(disks, s.SaveDisk(t))
	}
	for _, s := range l.Masters[:2] {
		s.RestartKept(t)
		waitDurable(t, s)
	}
	lab.WaitAllVote(t, l, host)
	token, until := hold(host, "job", maxTTL)
	l.Proxies[0].Kill()
	for i, s := range l.Masters[:2] {
		s.RestartWithDisk(t, disks[i])
	}
	l.Proxies[0].Restart(t)
	wantNextHolder(t, lab.Dial(t, l.Proxies[0].Addr), "job", token, until, 2*maxTTL)
}

// admittedAnew waits until n masters have lost their vote after start, and all vote again.
func admittedAnew(t testing.TB, l *lab.Lab, c *lab.Client, start time.Time, n int) {
	t.Helper()
	waitOut(t, c, start, n)
	lab.WaitAllVote(t, l, c)
}

// waitOut waits until n masters are in quarantine, or vote again since a time after start. A
// quarantine may be so short that a busy test never sees it.
func waitOut(t testing.TB, c *lab.Client, start time.Time, n int) {
	t.Helper()
	reply := ""
	if !lab.Poll(lab.Patience, func() bool {
		out, asked := 0, time.Now()
		reply = c.Do("LOCKPROXY", "MASTERS")
		for _, element := range lab.Elements(reply) {
			m := lab.MapOf(element)
			since := time.Duration(lab.Number(t, m["since_ms"])+1) * time.Millisecond // it is rounded down
			if m["state"] == "quarantined" || m["state"] == "voting" && since < asked.Sub(start) {
				out++
			}
		}
		return out == n
	}) {
		t.Fatalf("LOCKPROXY MASTERS: got %q, want %d masters in quarantine", reply, n)
	}
}

// hold takes a lock for ttl. Its holder counts on it until the time returned.
func hold(c *lab.Client, key string, ttl time.Duration) (token string, until time.Time) {
	c.T.Helper()
	var sent time.Time
	var reply string
	lab.WaitFor(c.T, "LOCK by masters that answer", lab.Patience, func() bool {
		sent = time.Now()
		reply = c.Do("LOCK", key, fmt.Sprint(ttl.Milliseconds()), "FULL")
		return !refusedNow(reply, true)
	})
	parts := lab.Fields(reply)
	if len(parts) != 3 {
		c.T.Fatalf("LOCK %s FULL: got %q, want token, fence and validity", key, reply)
	}
	return parts[0], sent.Add(time.Duration(lab.Number(c.T, parts[2])) * time.Millisecond)
}

// wantNextHolder asks for a key until it is granted. That must not happen while the holder of
// token counts on it, and must happen within some time after that.
func wantNextHolder(t testing.TB, c *lab.Client, key, token string, until time.Time, within time.Duration) {
	t.Helper()
	next, reply := "", ""
	if !lab.Poll(time.Until(until)+within+lab.Patience/2, func() bool {
		reply = c.Do("LOCK", key, "1s")
		next = lab.TokenOf(reply)
		return next != ""
	}) {
		t.Fatalf("LOCK %s %v after the holder's time: got %q, want a token", key, time.Since(until), reply)
	}
	if early := time.Until(until); early > 0 {
		t.Errorf("LOCK %s %v before the end of the holder's time: got a token, want a refusal", key, early)
	}
	if next <= token {
		t.Errorf("%s: got token %s, want one above %s", key, next, token)
	}
}
