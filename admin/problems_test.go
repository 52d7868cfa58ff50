package admin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"lockproxy/docs"
	"lockproxy/stat"
)

// well is a deployment without problems.
func well() Snapshot {
	m := func(name string) stat.Master { return stat.Master{Name: name, State: stat.StateVoting} }
	return Snapshot{Masters: []stat.Master{m("10.0.0.1:6379"), m("10.0.0.2:6379"), m("master 3")},
		Upstream: UpstreamStatus{Name: "10.0.0.9:6379", Up: true}, Load: stat.Load{Waiting: 5, Window: 64}}
}

// TestProblems: each problem has its text, what to do, and the alert that explains it, the worst
// first.
func TestProblems(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	away := func(s *Snapshot, i int, state stat.State, reason string, in time.Duration) {
		s.Masters[i].State, s.Masters[i].Reason, s.Masters[i].VotesIn = state, reason, in
	}
	for _, tt := range []struct {
		name   string
		change func(s *Snapshot)
		waits  []stat.Waiting
		want   []string // tone, text and alert; "|" and a part of what to do
	}{
		{name: "none", change: func(*Snapshot) {}, waits: []stat.Waiting{{Key: "k", Clients: 9, Longest: time.Minute}}},
		{name: "ending", change: func(s *Snapshot) { s.Draining = true },
			want: []string{"warn This proxy is ending: it takes no new clients. |another proxy"}},
		{name: "no upstream", change: func(s *Snapshot) { s.Upstream.Up, s.Upstream.Reason = false, "connection refused" },
			want: []string{"bad The upstream 10.0.0.9:6379 gives no answer: connection refused. " +
				"LockproxyUpstreamDown|failover"}},
		{name: "late", change: func(s *Snapshot) { s.Load.LateBy, s.Load.LateAt = 2*time.Second, now.Add(-12*time.Second) },
			want: []string{"warn This proxy was late by 2 s, 12 s ago. LockproxyLate|processor time"}},
		{name: "late long ago", change: func(s *Snapshot) {
			s.Load.LateBy, s.Load.LateAt = time.Second,
				now.Add(-time.Hour)
		}},
		{name: "overload", change: func(s *Snapshot) { s.Load.Waiting = 8123 },
			want: []string{"warn 8123 LOCKs wait until they can be sent to the masters. LockproxyOverload|fight over"}},
		{name: "one down", change: func(s *Snapshot) { away(s, 0, stat.StateDown, "refused the connection", 0) },
			want: []string{"warn If one more master fails, locks need a slow master or cannot be had. " +
				"LockproxyQuorumAtRisk|Put off",
				"warn Master 10.0.0.1:6379 refused the connection. LockproxyMasterDown|redis-cli PING"}},
		{name: "no quorum", change: func(s *Snapshot) {
			away(s, 0, stat.StateQuarantined, "restarted 17s ago, votes in 43s", 43*time.Second)
			away(s, 1, stat.StateRefused, "is a replica", 0)
			away(s, 2, stat.StateQuarantined, "waits for 1 more to be reached: start h:1", 0)
			s.Load.LateBy, s.Load.LateAt = time.Second, now
		}, want: []string{"bad No lock can be had: 0 of 3 masters can vote, 2 needed. LockproxyNoQuorum|network first",
			"bad Master 10.0.0.1:6379 restarted 17s ago, votes in 43s. LockproxyMasterQuarantined|by itself",
			"bad Master 10.0.0.2:6379 is a replica. LockproxyMasterDown|must not vote",
			"bad Master 3 waits for 1 more to be reached: start h:1. LockproxyMasterQuarantined|start the named server",
			"warn This proxy was late by 1 s, 0 s ago. LockproxyLate|processor time"}},
		{name: "slow", change: func(s *Snapshot) {
			s.Masters[1].Slow, s.Masters[2].Slow = time.Millisecond, 62*time.Millisecond
			s.Masters = append(s.Masters, s.Masters[0], s.Masters[0], s.Masters[0], s.Masters[0])
		}, want: []string{"warn Master 10.0.0.2:6379 answers in 1 ms, later than the majority needs; " +
			"master 3 answers in 62 ms, " +
			"later than the majority needs. LockproxyMasterSlow|only this proxy"}},
		{name: "dropped", change: func(s *Snapshot) { s.Masters[1].Dropped = 7 },
			want: []string{"warn 7 releases or top-ups for master 10.0.0.2:6379 were given up in the last five minutes. " +
				"LockproxyRepairsDropped|until their ttl"}},
		{name: "long waits", change: func(s *Snapshot) { s.Waiters = 1001 }, waits: []stat.Waiting{
			{Key: "a", Clients: 1, Longest: 61 * time.Second}, {Key: "b\x00", Clients: 3, Longest: 125500 * time.Millisecond},
			{Key: "c", Clients: 1, Longest: 62 * time.Second}, {Key: "d", Clients: 1, Longest: 63 * time.Second}},
			want: []string{"warn 1001 clients wait for locks. LockproxyWaiters|holder may hang",
				`warn 3 clients wait, the first for 2m5s, for b\x00 6200 LockproxyLongWait|why it is taken`,
				"warn A client waits for 1m3s, for d 64 LockproxyLongWait|leader",
				"warn A client waits for 1m2s, for c 63 LockproxyLongWait|leader"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, d := well(), drops{}
			d.note(s.Masters, now)
			tt.change(&s)
			d.note(s.Masters, now)
			got := s.problems(tt.waits, d.recent(), now)
			if len(got) != len(tt.want) {
				t.Fatalf("got %d problems, want %d: %+v", len(got), len(tt.want), got)
			}
			for i, p := range got {
				wantProblem(t, p, tt.want[i])
			}
		})
	}
}

// wantProblem wants tone, text and alert of a problem, and, after "|", a part of what to do.
func wantProblem(t *testing.T, p problem, want string) {
	t.Helper()
	words, do, _ := strings.Cut(want, "|")
	text := p.Tone + " " + p.Text
	if p.Hex != "" {
		text += " " + p.Key + " " + p.Hex
	}
	if text+" "+p.Alert != words || !strings.Contains(p.Do, do) {
		t.Errorf("got %q, do: %q\nwant %q", text+" "+p.Alert, p.Do, want)
	}
	if p.Alert != "" && !strings.Contains(docs.Operations, "\n| `"+p.Alert+"` |") {
		t.Errorf("the operations document has no alert %s", p.Alert)
	}
}

// TestDropsAreRecent: dropped repairs are a problem for five minutes.
func TestDropsAreRecent(t *testing.T) {
	var d drops
	start := time.Now()
	for i, step := range []struct {
		after   time.Duration
		dropped uint64
		want    uint64
	}{{0, 5, 5}, {time.Minute, 5, 5}, {4 * time.Minute, 8, 8}, {5*time.Minute + 1, 8, 3}, {9*time.Minute + 1, 8, 0}} {
		d.note([]stat.Master{{Name: "a", Dropped: step.dropped}, {Name: "b"}}, start.Add(step.after))
		if got := d.recent(); got["a"] != step.want || got["b"] != 0 {
			t.Errorf("step %d: got %v, want %d", i, got, step.want)
		}
	}
}

// TestReportListsProblems: the report has them, and an empty list without any.
func TestReportListsProblems(t *testing.T) {
	f := newFixture(t, nil)
	state := well()
	for _, want := range []string{"[]", `[{"tone":"warn","text":"This proxy is ending`} {
		state.Draining = want != "[]"
		var got struct{ Problems json.RawMessage }
		err := json.Unmarshal(f.report(&state, nil, time.Now()), &got)
		if err != nil || !strings.HasPrefix(string(got.Problems), want) {
			t.Errorf("got %s, want %s (%v)", got.Problems, want, err)
		}
	}
}
