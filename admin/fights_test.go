package admin

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"lockproxy/stat"
)

var someClient = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 7}

// lockEvent is a LOCK that was answered.
func lockEvent(key string, outcome stat.Outcome, took time.Duration) *stat.Event {
	return &stat.Event{Command: "lock", Key: key, Outcome: outcome, Took: took, Wait: took > 0,
		Owner: "me<b>", Client: someClient, Fence: 7}
}

// TestFightsCountRefusalsAndWaits: a contended key shows its refusals and waits, the longest and
// mean wait, and who held it before and since.
func TestFightsCountRefusalsAndWaits(t *testing.T) {
	f, now := newFights(), time.Unix(6000, 0)
	f.note(lockEvent("quiet", stat.OutcomeGranted, 0), now)
	f.note(lockEvent("quick", stat.OutcomeGranted, shortWait-1), now)
	f.note(lockEvent("faulty", stat.OutcomeNoQuorum, time.Second), now)
	first := lockEvent("job\xff", stat.OutcomeGranted, 0)
	first.Owner, first.Fence = "first", 6
	f.note(first, now)
	f.note(lockEvent("job\xff", stat.OutcomeTaken, 0), now.Add(time.Second))
	f.note(&stat.Event{Command: "unlock", Key: "job\xff", Outcome: stat.OutcomeReleased, Fence: 6,
		Held: 2 * time.Second}, now)
	f.note(lockEvent("job\xff", stat.OutcomeGranted, 4*time.Second), now.Add(3*time.Second))
	f.note(lockEvent("job\xff", stat.OutcomeTimeout, 8*time.Second), now.Add(4*time.Second))
	several := lockEvent("a", stat.OutcomeTaken, 0)
	several.Keys = []string{"b"}
	f.note(several, now)
	got := f.reports(now.Add(5 * time.Second))
	if len(got) != 3 {
		t.Fatalf("got %+v, want the key and the two of one LOCK", got)
	}
	if j := got[0]; j.Key != `job\xff` || j.Refused != 2 || j.Waited != 2 || j.Longest != 8000 ||
		j.Mean != 6000 {
		t.Errorf("got %+v", j)
	}
	h := got[0].Holders
	if len(h) != 2 || h[0].Owner != "me<b>" || h[0].Client != "10.0.0.9:7" || h[0].Ago != 2000 ||
		h[0].Held != nil ||
		h[1].Owner != "first" || h[1].Held == nil || *h[1].Held != 2000 {
		t.Errorf("held by %+v", h)
	}
	if got := f.reports(now.Add(fightMinutes * time.Minute)); len(got) != 0 {
		t.Errorf("after five minutes %+v", got)
	}
	for i := range f.shards {
		if n := len(f.shards[i].keys); n != 0 {
			t.Errorf("%d keys are kept", n)
		}
	}
}

// TestFightsAreBounded: however many keys there are, few are kept, and those with the most events
// stay.
func TestFightsAreBounded(t *testing.T) {
	f, now := newFights(), time.Unix(6000, 0)
	for i := range 20_000 {
		f.note(lockEvent(fmt.Sprint("key", i), stat.OutcomeTaken, 0), now)
		if i%10 == 0 {
			f.note(lockEvent("hot", stat.OutcomeTaken, 0), now)
		}
	}
	f.note(lockEvent("slow", stat.OutcomeGranted, time.Hour), now)
	kept := 0
	for i := range f.shards {
		kept += len(f.shards[i].keys)
	}
	if kept > fightShards*shardKeys {
		t.Errorf("%d keys are kept", kept)
	}
	got := f.reports(now)
	if len(got) != 2*shownFought || got[0].Key != "hot" || got[0].Refused < 1000 {
		t.Errorf("%d keys, first %+v", len(got), got[0])
	}
	if slow := got[shownFought]; slow.Key != "slow" {
		t.Errorf("the longest wait is not among them: %+v", slow)
	}
}

// TestFaultsAreCountedByKind: errors are counted by kind, since the start and for each second.
func TestFaultsAreCountedByKind(t *testing.T) {
	m, now := NewMeter(nil), time.Unix(6000, 0)
	s := newSampler(m, now)
	m.Note(&stat.Event{Command: "lock", Outcome: stat.OutcomeNoQuorum})
	m.Note(&stat.Event{Command: "extend", Outcome: stat.OutcomeNoQuorum})
	m.Note(&stat.Event{Command: "lock", Outcome: stat.OutcomeDenied})
	m.Note(&stat.Event{Command: "lock", Outcome: stat.OutcomeTaken})
	m.Note(&stat.Event{Command: "session", Outcome: stat.OutcomeLost})
	m.Dialled(time.Second, "tls")
	got := s.next(someState(), now.Add(time.Second)).Faults
	want := "map[master LOADING:2 master other:5 reply denied:1 reply noquorum:2 session lost:1 " +
		"upstream tls:1]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := s.next(someState(), now.Add(2*time.Second)).Faults; got != nil {
		t.Errorf("a second later %v", got)
	}
	want = "[{reply denied 1} {reply noquorum 2} {session lost 1} {upstream tls 1}]"
	if got := fmt.Sprint(faultReports(m.faults(nil))); got != want {
		t.Errorf("the report has %v", got)
	}
}

// BenchmarkContended measures the cost of recording a LOCK that met another holder.
func BenchmarkContended(b *testing.B) {
	m := NewMeter(nil)
	b.ReportAllocs()
	for b.Loop() {
		m.Note(lockEvent("job", stat.OutcomeTaken, 0))
	}
}

// BenchmarkManyContended is the same where every LOCK is of another key.
func BenchmarkManyContended(b *testing.B) {
	m, keys := NewMeter(nil), make([]string, 4096)
	for i := range keys {
		keys[i] = fmt.Sprint(strings.Repeat("k", 40), i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Note(lockEvent(keys[i%len(keys)], stat.OutcomeTaken, 0))
	}
}

// TestGrantedTTL: the ttl of an exclusive lock is that of its LOCK or last EXTEND, and not known
// of any other lock.
func TestGrantedTTL(t *testing.T) {
	f, now := newFights(), time.Now()
	event := func(command string, outcome stat.Outcome, fence uint64, ttl, held time.Duration) {
		f.note(&stat.Event{Command: command, Outcome: outcome, Key: "job", Fence: fence, TTL: ttl, Held: held}, now)
	}
	want := func(what string, l stat.Lock, ttl time.Duration) {
		t.Helper()
		if got := f.granted(&l); got != ttl {
			t.Errorf("%s: got %v, want %v", what, got, ttl)
		}
	}
	lock := stat.Lock{Key: "job", Mode: "exclusive", Fence: 7}
	want("never granted here", lock, 0)
	event("lock", stat.OutcomeGranted, 7, time.Minute, 0)
	want("granted", lock, time.Minute)
	event("extend", stat.OutcomeLost, 7, time.Second, 0)
	want("not extended", lock, time.Minute)
	event("extend", stat.OutcomeExtended, 7, time.Hour, 0)
	want("extended", lock, time.Hour)
	want("another fence", stat.Lock{Key: "job", Mode: "exclusive", Fence: 8}, 0)
	want("without a fence", stat.Lock{Key: "job", Mode: "exclusive"}, 0)
	want("several holders", stat.Lock{Key: "job", Mode: "shared", Fence: 7}, 0)
	event("unlock", stat.OutcomeReleased, 7, 0, time.Second)
	want("released", lock, 0)
}

// Two keys of one place are both remembered. A third one overwrites the oldest.
func TestTwoGrantsShareAPlace(t *testing.T) {
	var s fightShard
	start := time.Now()
	known := func(n uint64) bool { return s.grantLocked(n*fightShards*shardGrants+1).fence == n }
	for n := uint64(1); n <= 3; n++ {
		s.grantedLocked("", n*fightShards*shardGrants+1, holder{fence: n, at: start.Add(time.Duration(n) * time.Second)})
		if n == 2 && !known(1) {
			t.Error("the second overwrites the first")
		}
	}
	if known(1) || !known(2) || !known(3) {
		t.Errorf("got %v, %v, %v, want the last two", known(1), known(2), known(3))
	}
}
