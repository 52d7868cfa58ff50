package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/quorum/internal/wire"
)

func TestRecordText(t *testing.T) {
	for text, want := range map[string]record{
		"": {},
		"A run fp nonce": {kind: recordVotes, runID: "run", fingerprint: "fp",
			nonce: nonce{admission{0, "nonce"}, -1}},
		"A run fp 7-12-0123": {kind: recordVotes, runID: "run", fingerprint: "fp", nonce: nonce{admission{7, "0123"}, 12}},
		"N run nonce":        {kind: recordNew, runID: "run", nonce: nonce{admission{0, "nonce"}, -1}},
		"O fp":               {kind: recordOff, fingerprint: "fp"},
		"Q run n 5000 - new -": {kind: recordMark, runID: "run", nonce: nonce{admission{0, "n"}, -1}, wait: 5 * time.Second,
			cause: "new"},
		"Q run 2-0-n 0 ko moved fp": {kind: recordMark, runID: "run", nonce: nonce{admission{2, "n"}, 0}, kept: true,
			override: true,
			cause:    "moved", fingerprint: "fp"},
	} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			got := parseRecord(text)
			if got != want {
				t.Errorf("%q: %+v, want %+v", text, got, want)
			}
			if again := got.String(); again != text {
				t.Errorf("%q is written as %q", text, again)
			}
		})
	}
	for _, text := range []string{"A", "A run fp", "A run fp nonce more", "a run fp nonce", " ", "Q run n x - new -",
		"Q run n -5 - new -",
		"Q run n 99999999999999999999 - new -", "Q run n 9223372036854775807 - new -", "Q run n 1 - new", "Z", "N run",
		"O"} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			if got := parseRecord(text); got.kind != recordUnknown {
				t.Errorf("%q: %+v, want unknown", text, got)
			}
		})
	}
}

func TestKnownText(t *testing.T) {
	g := New(Options{IDs: []string{"c", "a", "b"}, Names: []string{"c", "a", "b"}})
	known := []knowledge{{admission{3, "cc"}, 9}, {admission{0, "old"}, 0}, {}}
	text := g.knownText(known)
	if text != g.fingerprint+" old 0 3-9-cc" {
		t.Errorf("%q: want them in the order of the ids", text)
	}
	for i, a := range g.parseKnown(text) {
		if a != known[i] {
			t.Errorf("master %d: %v, want %v", i, a, known[i])
		}
	}
	for _, text := range []string{"", "other old 0 3-9-cc", g.fingerprint + " old 0"} {
		for i, a := range g.parseKnown(text) {
			if a != (knowledge{}) {
				t.Errorf("%q: master %d: %v, want none", text, i, a)
			}
		}
	}
	for text, want := range map[string]admission{"5-7-ab": {5, "ab"}, "x-7-ab": {0, "x-7-ab"},
		"99999999999999999999-0-a": {0, "99999999999999999999-0-a"}} {
		if got := parseNonce(text).admission; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestSupersedes(t *testing.T) {
	none, old := admission{}, admission{0, "x"}
	for _, c := range []struct {
		a, b              admission
		supersedes, later bool
	}{
		{none, old, false, false}, {old, none, true, true}, {old, old, false, false}, {admission{0, "y"}, old, true, false},
		{admission{1, "y"}, old, true, true}, {old, admission{1, "y"}, false, false},
		{admission{1, "y"}, admission{1, "z"}, true, false},
	} {
		t.Run(fmt.Sprint(c.a, " and ", c.b), func(t *testing.T) {
			if c.a.supersedes(c.b) != c.supersedes || c.a.later(c.b) != c.later {
				t.Errorf("%v and %v: supersedes %v, later %v", c.a, c.b, c.a.supersedes(c.b), c.a.later(c.b))
			}
		})
	}
}

func TestReasons(t *testing.T) {
	now := time.Now()
	names := []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}
	q := Quarantine{Cause: causeRestarted, Since: now.Add(-17500 * time.Millisecond),
		Until: now.Add(42500 * time.Millisecond), names: names}
	if got := q.Error(); got != "restarted 17s ago, votes in 43s" {
		t.Errorf("%q", got)
	}
	q.Until = now.Add(-time.Second)
	if got := q.Error(); got != "restarted 17s ago, votes in 0s" {
		t.Errorf("%q", got)
	}
	q.waits, q.needed, q.missing = waitsForMasters, 1, []int{2}
	if got := q.Error(); got != "restarted 17s ago, waits for 1 more to be reached: start 10.0.0.3:6379, or LOCKPROXY ADMIT 10.0.0.1:6379" {
		t.Errorf("%q", got)
	}
	topic := q.Topic()
	place := func(i int) string { return "master " + string(rune('1'+i)) }
	if got := q.Text(place); got != "restarted 17s ago, waits for 1 more to be reached: start master 3" {
		t.Errorf("%q", got)
	}
	if q.waits = waitsForCounters; q.Topic() == topic {
		t.Error("the topic does not tell what is waited for")
	}
	g := New(Options{IDs: names, Names: names})
	other := g.foreign(1, "belongs to proxies with another list of masters", sameSettings)
	if got := other.Error(); got != "belongs to proxies with another list of masters: set the same here, "+
		"or stop those proxies and send LOCKPROXY ADMIT 10.0.0.2:6379 to this one" {
		t.Errorf("%q", got)
	}
	if got := other.Text(place); got != "belongs to proxies with another list of masters: set the same here" {
		t.Errorf("%q", got)
	}
}

// TestClientsAreNotToldToAdmit: ADMIT stops the locks of others, so only operators read of it.
func TestClientsAreNotToldToAdmit(t *testing.T) {
	for waits := waitsForNothing; waits <= waitsForOperator; waits++ {
		for _, missing := range [][]int{nil, {1, 2}} {
			q := &Quarantine{Cause: causeRestarted, names: []string{"a", "b", "c"}, master: 0}
			q.waits, q.missing = waits, missing
			if got := q.Text(nil); strings.Contains(got, "ADMIT") {
				t.Errorf("condition %d: clients read %q", waits, got)
			}
			wants := waits != waitsForNothing && (waits != waitsForMoves || missing != nil)
			if got := q.Error(); strings.Contains(got, "LOCKPROXY ADMIT ") != wants && waits != waitsForMoves {
				t.Errorf("condition %d: operators read %q", waits, got)
			}
		}
	}
}

// TestOthersConnected: lanes carry the settings of their proxies in their names.
func TestOthersConnected(t *testing.T) {
	names := []string{"a", "b", "c"}
	with := func(ttl time.Duration) *Options { return &Options{IDs: names, Names: names, MaxTTL: ttl} }
	ours, theirs := with(time.Second), with(2*time.Second)
	name := func(o *Options) string { return o.ClientName() }
	if name(ours) == name(theirs) || len(name(ours)) != len("lockproxy:")+16 {
		t.Fatalf("names %q and %q", name(ours), name(theirs))
	}
	record := func(o *Options) wire.ProbeReply {
		fingerprint := strings.TrimPrefix(name(o), "lockproxy:")
		return wire.ProbeReply{Record: record{kind: recordVotes, runID: "r", fingerprint: fingerprint}.String(),
			Settings: settingsOf(o).String()}
	}
	const differs = "max-ttl 2000ms (here 1000ms)"
	for _, tt := range []struct {
		name    string
		probe   wire.ProbeReply
		clients []ListedClient
		want    string
	}{
		{"nobody", record(theirs), nil, ""},
		{"our own lanes, and others' clients", record(theirs), []ListedClient{{"1", name(ours)}, {"2", "app"},
			{"3", "lockproxy-like"}}, ""},
		{"others, whose settings the master knows", record(theirs), []ListedClient{{"1", name(theirs)}, {"2", name(ours)}},
			"1 " + differs},
		{"others, whose settings are not known", record(ours), []ListedClient{{"1", name(theirs)}}, "1 "},
		{"the first version, on its master", record(theirs), []ListedClient{{"1", "lockproxy"}, {"2", name(theirs)}},
			"1 2 " + differs},
		{"the first version, on our master", record(ours), []ListedClient{{"1", "lockproxy"}}, ""},
		{"the first version, on an empty master", wire.ProbeReply{}, []ListedClient{{"1", "lockproxy"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addrs, differs := New(*ours).Others(tt.probe, tt.clients)
			if got := strings.Join(append(addrs, differs), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
