package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Proxies have different settings, or an operator changes the settings of all.

// TestProxyWithOtherSettingsGetsNoVote: a proxy whose settings differ from the first one's gets no
// vote, names the setting, and does not disturb the first.
func TestProxyWithOtherSettingsGetsNoVote(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, 2*time.Second, lab.Config{})
	first := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, first)
	token := lab.LockSoon(t, first, "job", "2s")
	list := strings.Join(lab.Addrs(l.Masters), ",")
	other := lab.StartRedis(t)
	for _, row := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--max-ttl", "3s"}, "belongs to proxies with max-ttl 2000ms (here 3000ms)"},
		{[]string{"--fencing", "off"}, "belongs to proxies with fencing on (here off)"},
		{[]string{"--restart-guard", "off"}, "belongs to proxies with restart-guard on (here off)"},
		{[]string{"--masters", list + "," + other.Addr}, "belongs to proxies with another list of masters"},
		{[]string{"--masters", "a@" + strings.Replace(list, ",", ",b@", 1)},
			"belongs to proxies with another list of masters"},
		{[]string{"--max-ttl", "1s"}, "belongs to proxies with max-ttl 2000ms (here 1000ms)"},
		{[]string{"--masters", strings.Join(lab.Addrs(l.Masters[:2]), ",")},
			"belongs to proxies with another list of masters"},
	}[:lab.Long(5, 7)] {
		t.Run(fmt.Sprintf("%.60q", row.flags), func(t *testing.T) {
			p := l.StartProxy(t, row.flags...)
			host := lab.Dial(t, p.Addr)
			for i := range l.Masters[:2] { // a majority
				lab.WaitReason(t, host, i, row.says)
			}
			for start := time.Now(); time.Since(start) < 150*time.Millisecond; {
				reply := host.Do("LOCK", "other", "1s")
				if !strings.HasPrefix(reply, "-NOQUORUM 0 of ") || strings.Count(reply, row.says) < 2 {
					t.Fatalf("LOCK: got %q, want -NOQUORUM with %q twice", reply, row.says)
				}
				lab.Pass(t, 5*time.Millisecond)
			}
			host.Do("UNLOCK", "job", "0000000000000000:"+token[17:]) // a proxy with any settings sends releases
			if !p.Says(row.says) {
				t.Errorf("the log lacks %q", row.says)
			}
			p.Kill()
			lab.WaitAllVote(t, l, first)
			lab.WaitFor(t, "LOCK through the first proxy", lab.Patience, func() bool {
				return first.Do("LOCK", "free", "20ms") != lab.Null2
			})
		})
	}
	if n := lab.Holders(t, []*lab.Redis{other}, "other"); n != 0 {
		t.Errorf("locks on a new master that waits for the others: got %d, want none", n)
	}
}

// TestAdmitMovesMastersToNewSettings: after LOCKPROXY ADMIT no master votes for as long as the
// larger max-ttl. Then all vote for the new proxy, and none for the old one. ADMIT refuses an
// unknown name, and leaves a master alone that votes already.
func TestAdmitMovesMastersToNewSettings(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{})
	old := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, old)
	old.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", l.Masters[0].Addr)
	old.WantDo("-ERR no such master 'nobody:1': it is one of "+strings.Join(lab.Addrs(l.Masters), ", ")+"\r\n",
		"LOCKPROXY", "ADMIT", "nobody:1")
	old.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", "master", "3")
	lab.WaitAllVote(t, l, old)
	p := l.StartProxy(t, "--max-ttl", "500ms")
	host := lab.Dial(t, p.Addr)
	lab.WaitStates(t, host, lab.Patience, "refused", "refused", "refused")
	token := lab.LockSoon(t, old, "job", "2s")
	start := time.Now()
	for _, s := range l.Masters {
		host.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", s.Addr, "FORCE") // the old proxy runs on
	}
	old.Do("EXTEND", "job", token, "2s") // it must not succeed, even if the old proxy has not noticed
	lab.WaitReason(t, host, 0, "was moved by LOCKPROXY ADMIT ")
	lab.WaitStates(t, old, lab.Patience, "refused", "refused", "refused")
	next := ""
	for next == "" {
		reply := host.Do("LOCK", "other", "500ms") // a free key
		took := time.Since(start)
		next = lab.TokenOf(reply)
		if next == "" && !refusedNow(reply, took > maxTTL) && reply != lab.Null2 || took > maxTTL+time.Minute {
			t.Fatalf("LOCK %v after ADMIT: got %q, want a token after max-ttl, or a refusal", took, reply)
		}
		if reply := old.Do("LOCK", "free", "1s"); !strings.HasPrefix(reply, "-NOQUORUM ") {
			t.Fatalf("LOCK through the old proxy after ADMIT: got %q, want -NOQUORUM", reply)
		}
		lab.Pass(t, between(start.Add(maxTTL)))
	}
	if took := time.Since(start); took < maxTTL {
		t.Errorf("grant after ADMIT: got it after %v, want it after the larger max-ttl of %v", took, maxTTL)
	}
	if next = lab.LockSoon(t, host, "job", "500ms"); next <= token {
		t.Errorf("got token %s, want one above %s", next, token)
	}
}

// TestReplacedMasterVotesAfterMaxTTL: an empty server takes the place of a dead master, at the
// same address, or at another under the same name. It votes after max-ttl. It has the counters
// that keep fences rising after the others have gone.
func TestReplacedMasterVotesAfterMaxTTL(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	for name, move := range map[string]bool{"at the same address": false, "under the same name": true} {
		if !move && !lab.IsLong() {
			continue // TestWipedMasterGetsCounters replaces masters in this way
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.StartGuarded(t, maxTTL, lab.Config{Relays: true})
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			l.Link(0, 1).Isolate() // the highest numbers do not reach this master
			token := ""
			for range lab.Long(100, 300) {
				token = lab.LockSoon(t, host, "job")
				lab.UnlockSurely(t, host, "job", token)
			}
			l.Heal(t)
			clock := clockFence()
			l.Masters[2].Kill()
			start := time.Now()
			if move {
				l.Masters[2] = lab.StartRedis(t)
				p := l.StartProxy(t) // with relays of its own: other addresses, the same names
				l.Proxies[0].Kill()
				host = lab.Dial(t, p.Addr)
			} else {
				l.Masters[2].RestartEmpty(t)
			}
			lab.WaitStates(t, host, lab.Patience, "voting", "voting", "quarantined")
			lab.UnlockSurely(t, host, "other", lab.LockSoon(t, host, "other"))
			lab.WaitAllVote(t, l, host)
			if took := time.Since(start); took < maxTTL {
				t.Errorf("vote of the new master: got it after %v, want it after %v at least", took, maxTTL)
			}
			l.Masters[0].Pause(t) // it alone has had the highest numbers all the time
			next := lab.LockSoon(t, host, "job")
			if fence := fenceOf(t, next); next <= token || fence >= clock {
				t.Errorf("got token %s, want one above %s and below %d of the clock", next, token, clock)
			}
			l.Masters[0].Resume()
		})
	}
}

// TestThreeMastersGrowToFive: the steps of docs/operations.md lead from three masters to five. A
// held lock is not granted again before it expires, and fences rise.
func TestThreeMastersGrowToFive(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{Proxies: 2})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	lab.LockSoon(t, host, "job", "2s")
	token := lab.LockSoon(t, host, "held", "2s")
	lab.WantHolders(t, l.Masters, "held", 3)
	for _, p := range l.Proxies { // step 1
		p.Stop(t)
	}
	l.Masters = append(l.Masters, lab.StartMasters(t, 2)...)
	l.Proxies = nil
	one, two := lab.Dial(t, l.StartProxy(t).Addr), lab.Dial(t, l.StartProxy(t).Addr) // step 2
	for i := range 3 {
		lab.WaitReason(t, one, i, "belongs to proxies with another list of masters")
	}
	wait := maxTTL + 500*time.Millisecond // the new masters wait for as long as one belongs to other proxies
	lab.Poll(wait, func() bool {
		if reply := two.Do("LOCK", "other", "1s"); !strings.HasPrefix(reply, "-NOQUORUM 0 of 5 ") {
			t.Fatalf("LOCK before ADMIT: got %q, want -NOQUORUM 0 of 5", reply)
		}
		return false
	})
	lab.WaitReason(t, one, 3, "waits until no master belongs to proxies with other settings")
	start := time.Now()
	for _, s := range l.Masters[:3] { // step 3
		one.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", s.Addr)
	}
	next := ""
	for next == "" { // step 4
		reply := two.Do("LOCK", "fresh", "1s")
		took := time.Since(start)
		next = lab.TokenOf(reply)
		if next == "" && !refusedNow(reply, took > maxTTL) || took > maxTTL+time.Minute {
			t.Fatalf("LOCK %v after ADMIT: got %q, want a token after max-ttl, or a refusal", took, reply)
		}
		lab.Pass(t, between(start.Add(maxTTL)))
	}
	if took := time.Since(start); took < maxTTL {
		t.Errorf("grant after ADMIT: got it after %v, want it after %v at least", took, maxTTL)
	}
	if next = lab.LockSoon(t, one, "held"); next <= token {
		t.Errorf("got token %s, want one above %s", next, token)
	}
	lab.WaitAllVote(t, l, one)
	lab.WaitAllVote(t, l, two)
	for i := range 20 {
		key := fmt.Sprint("job-", i)
		lab.UnlockSurely(t, one, key, lab.LockSoon(t, two, key))
	}
	for _, s := range l.Masters[:2] {
		s.Kill()
	}
	lab.LockSoon(t, one, "after-the-loss-of-two")
}
