package faults

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

const stateHash = "lockproxy:state:lock:"

// TestCounterAheadDoesNotSpread: a fencing counter of one master is set to a number near 2^53. The
// other two masters still grant its keys, alone and with KEYS, and fences rise as before. The
// number spreads to no other counter, and the master loses it when it is wiped. Earlier versions
// issued it as a fence, and then all masters refused these keys.
func TestCounterAheadDoesNotSpread(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, time.Second, lab.Config{Proxies: 2})
	hosts := []*lab.Client{lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[1].Addr)}
	for _, host := range hosts {
		lab.WaitAllVote(t, l, host)
	}
	before := countersOf(t, l.Masters[0])
	last := lab.LockSoon(t, hosts[0], "job")
	field := ""
	lab.WaitFor(t, "the counter of job", lab.Patience, func() bool {
		for name, n := range countersOf(t, l.Masters[0]) {
			if n != before[name] {
				field = name
			}
		}
		return field != ""
	})
	lab.UnlockSurely(t, hosts[0], "job", last)

	l.Masters[0].Do(t, "HSET", stateHash, field, "9007199254740990")
	last = wantRising(t, "one counter near 2^53", hosts, last)
	lab.Settle(t, l.Masters[1:], l.Proxies...)
	wantCounted(t, l.Masters[0], field)
	wantCounted(t, l.Masters[1], "")
	wantCounted(t, l.Masters[2], "")

	start := time.Now()
	l.Masters[0].RestartEmpty(t)
	admittedAnew(t, l, hosts[0], start, 1)
	lab.WaitAllVote(t, l, hosts[1])
	last = wantRising(t, "master wiped", hosts, last)
	for _, s := range l.Masters {
		wantCounted(t, s, "")
	}
	l.Masters[2].Kill() // a majority needs the wiped master
	wantRising(t, "master wiped, another dead", hosts, last)
}

// wantRising takes locks of all kinds on job, through both proxies in turn. Their tokens must rise
// above last, and their fences stay below the clock. It returns the last token.
func wantRising(t *testing.T, when string, hosts []*lab.Client, last string) string {
	t.Helper()
	for i := range 4 {
		host := hosts[i%2]
		for _, args := range [][]string{
			{"job", "1s"}, {"job", "1s", "KEYS", "2", "job-2", "job-3"}, {"job-2", "1s", "KEYS", "2", "job", "job-3"},
			{"job", "1s", "SHARED"}, {"job", "1s", "LIMIT", "3"},
		} {
			reply := ""
			if !lab.Poll(lab.Patience, func() bool {
				reply = host.Do(append([]string{"LOCK"}, args...)...)
				return lab.TokenOf(reply) != ""
			}) {
				t.Fatalf("%s: LOCK %q: got %q, want a token", when, args, reply)
			}
			token := lab.TokenOf(reply)
			if token <= last {
				t.Fatalf("%s: LOCK %q: got token %s, want one above %s", when, args, token, last)
			}
			if fence, clock := fenceOf(t, token), clockFence(); fence > clock {
				t.Errorf("%s: LOCK %q: got fence %d, want at most %d by the clock", when, args, fence, clock)
			}
			last = token
			lab.UnlockSurely(t, host, args[0], token)
			for _, further := range args[min(4, len(args)):] { // of KEYS
				lab.UnlockSurely(t, host, further, token)
			}
		}
	}
	return last
}

// countersOf returns the fencing counters of a master by field.
func countersOf(t testing.TB, s *lab.Redis) map[string]int {
	t.Helper()
	counters := map[string]int{}
	all := lab.Fields(s.Do(t, "HGETALL", stateHash))
	for i := 0; i+1 < len(all); i += 2 {
		if _, err := strconv.Atoi(all[i]); err == nil {
			counters[all[i]] = lab.Number(t, all[i+1])
		}
	}
	return counters
}

// wantCounted fails if a counter of a master exceeds the clock. The counter but, if any, must
// still have the number that the test wrote.
func wantCounted(t testing.TB, s *lab.Redis, but string) {
	t.Helper()
	counters, clock := countersOf(t, s), clockFence()
	if len(counters) == 0 {
		t.Errorf("counters of %s: got none, want some", s.Addr)
	}
	for field, n := range counters {
		if field != but && n > clock {
			t.Errorf("%s: got counter %s at %d, want at most %d by the clock", s.Addr, field, n, clock)
		}
	}
	if but != "" && fmt.Sprint(counters[but]) != "9007199254740990" {
		t.Errorf("%s: got counter %s at %d, want the test's own number", s.Addr, but, counters[but])
	}
}
