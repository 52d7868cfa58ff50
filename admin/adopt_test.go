package admin

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"lockproxy/stat"
)

// TestAdoptedEventsAreCounted: a command of a library counts under its effect and as a lock
// command, a refused one under its reason alone.
func TestAdoptedEventsAreCounted(t *testing.T) {
	f := newFixture(t, nil)
	for _, e := range []stat.Event{
		{Command: "lock", Outcome: stat.OutcomeGranted, Kind: stat.KindExclusive, Via: stat.ViaAdopt, Do: stat.DoTake},
		{Command: "extend", Outcome: stat.OutcomeLost, Via: stat.ViaAdopt, Do: stat.DoExtend},
		{Command: "lockinfo", Outcome: "never heard of", Via: stat.ViaAdopt, Do: stat.DoRead},
		{Outcome: stat.OutcomeInvalid, Via: stat.ViaAdopt, Refused: "script"},
		{Outcome: stat.OutcomeInvalid, Via: stat.ViaAdopt, Refused: "never heard of"},
	} {
		f.o.Meter.Note(&e)
	}
	text := f.ask("GET", "/metrics", nil).Body.String()
	for _, want := range []string{`adopted_total{do="take",outcome="granted"} 1`,
		`adopted_total{do="extend",outcome="lost"} 1`,
		`adopted_total{do="read",outcome="other"} 1`, `adopt_refused_total{reason="script"} 1`,
		`adopt_refused_total{reason="other"} 1`, `lock_commands_total{command="lock",outcome="granted"} 1`,
		`lock_commands_total{command="extend",outcome="lost"} 1`, `locks_granted_total{kind="exclusive"} 1`} {
		if !strings.Contains(text, "lockproxy_"+want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if strings.Contains(text, `outcome="invalid"} 1`) {
		t.Error("a refused command counts as a lock command")
	}
}

// TestReportShowsRefusals: the report lists the refusals of the lock listener; null without one.
func TestReportShowsRefusals(t *testing.T) {
	now := time.Now()
	refusals := func() []stat.RefusedKind {
		return []stat.RefusedKind{{Reason: "script", SHA1: "ab", Text: "ERR unknown", Library: "a<b>\n", Count: 3,
			Client: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}, Last: now.Add(-2 * time.Second)}}
	}
	for name, c := range map[string]struct {
		refusals func() []stat.RefusedKind
		want     string
	}{
		"no lock listener": {nil, "null"},
		"no refusal":       {func() []stat.RefusedKind { return nil }, "[]"},
		"one": {refusals, `[{"reason":"script","sha1":"ab","text":"ERR unknown","library":"a\u003cb\u003e\\n",` +
			`"client":"10.0.0.1:7","count":3,"ago_ms":2000}]`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) { o.Refusals = c.refusals })
			state := someState()
			var got struct{ Refused json.RawMessage }
			if err := json.Unmarshal(f.report(&state, nil, now), &got); err != nil || string(got.Refused) != c.want {
				t.Errorf("the report says %s, want %s (%v)", got.Refused, c.want, err)
			}
		})
	}
}
