package stat

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func values(fields []Field) map[string]string {
	m := map[string]string{}
	for _, f := range fields {
		if f.Text != nil {
			m[f.Name] = *f.Text
		} else {
			m[f.Name] = fmt.Sprint(*f.Number)
		}
	}
	return m
}

// TestReportsNameFieldsOnce: replies and JSON name a field alike and in the same order, and no
// field of the JSON is left out of the reply.
func TestReportsNameFieldsOnce(t *testing.T) {
	var (
		m MasterReport
		l Lock
		s Slot
	)
	for name, c := range map[string]struct {
		report any
		fields []Field
	}{"master": {m, m.Fields()}, "lock": {l, l.Fields()}, "slot": {s, s.Fields()}} {
		t.Run(name, func(t *testing.T) {
			var tags, names []string
			for f := range reflect.TypeOf(c.report).Fields() {
				if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "-" && tag != "slots" {
					tags = append(tags, tag)
				}
			}
			for _, f := range c.fields {
				if f.Name != "run_id" && f.Name != "masters" { // in replies only
					names = append(names, f.Name)
				}
			}
			if !slices.Equal(tags, names) {
				t.Errorf("JSON has %q, the reply %q", tags, names)
			}
		})
	}
}

func TestMasterReport(t *testing.T) {
	now := time.Now()
	m := Master{Name: "h:1", State: StateVoting, Since: now.Add(-time.Hour), VotesIn: time.Second + 1, RunID: "abc",
		RTT: 1500 * time.Microsecond, Slow: 61500 * time.Microsecond, Grants: 1, Refusals: 2, Late: 3, Errors: 4}
	want := MasterReport{"h:1", "voting", "answers in 62 ms, later than the majority needs", 1001, 3_600_000, "abc",
		1500, 1, 2, 4, 3, 62}
	got := m.Report(now)
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	read := MasterReport{Address: "other", Slow: 7}
	if SetFields(read.Fields(), values(got.Fields())); read != want {
		t.Errorf("read back: %+v, want %+v", read, want)
	}
	if SetFields(read.Fields(), map[string]string{"late": "many"}); read != (MasterReport{}) {
		t.Errorf("from an empty reply: %+v", read)
	}
	reports, masters := []MasterReport{want, {State: "down", Slow: 1}}, []Master{m, {State: StateDown, Slow: 1}}
	if !want.IsSlow() || CountReports(reports) != CountVotes(masters) {
		t.Error("reports are counted in another way than masters")
	}
}

func TestLockAsJSON(t *testing.T) {
	l := Lock{Key: "k", Mode: "limit", Type: "hash", Adopted: true, Holders: 1, Owner: "me", Fence: 7, Held: 2,
		Masters: 3, TTL: -1, Waiting: 4, Age: time.Hour, Slots: []Slot{{3, 7, "me", 2500}}}
	got, err := json.Marshal(l)
	want := `{"key":"k","held":2,"ttl":-1,"fence":7,"owner":"me","waiting":4,"mode":"limit","holders":1,` +
		`"slots":[{"slot":3,"fence":7,"owner":"me","ttl":2500}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
