package admin

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// TestDocsMetrics: docs/reference/metrics.md lists every metric of ours with its kind, its labels
// and its help, and every outcome of commands.
func TestDocsMetrics(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	families, err := Registry(NewMeter([]string{"string"}), someState, "v1").Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), namespace+"_") {
			continue // of Go and the process
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", f.GetName(), strings.ToLower(f.GetType().String()),
			labelsOf(f), f.GetHelp()))
	}
	got := regexp.MustCompile("(?m)^\\| `lockproxy_.*$").FindAllString(page, -1)
	if !slices.Equal(got, want) {
		t.Errorf("the page says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wantOutcomes(t, page, valuesOf(families, "lock_commands_total", "outcome", "command"), "")
	wantOutcomes(t, page, valuesOf(families, "adopted_total", "outcome", "do"), " [^|]*\\|")
	for metric, label := range map[string]string{"adopt_refused_total": "reason", "session_locks_ended_total": "outcome",
		"upstream_dial_errors_total": "kind", "master_state": "state"} {
		t.Run(metric, func(t *testing.T) {
			for _, value := range valuesOf(families, metric, label, "")[""] {
				if !strings.Contains(page, "`"+value+"`") {
					t.Errorf("the page does not name %s=%q of %s", label, value, metric)
				}
			}
		})
	}
}

// wantOutcomes wants a page to have, for each name, a row with the outcomes. between matches the
// cells between the two.
func wantOutcomes(t *testing.T, page string, outcomes map[string][]string, between string) {
	t.Helper()
	for name, want := range outcomes {
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\|" + between + " `(.*)` \\|$").FindStringSubmatch(page)
		if row == nil {
			t.Errorf("the page lacks the outcomes of %s: %q", name, want)
			continue
		}
		if shown := slices.Sorted(slices.Values(strings.Split(row[1], "`, `"))); !slices.Equal(shown, want) {
			t.Errorf("the page says that %s ends as %q, it may end as %q", name, shown, want)
		}
	}
}

// TestDocsStates: docs/operations.md explains every state of a master.
func TestDocsStates(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	families, err := Registry(NewMeter(nil), someState, "v1").Gather()
	if err != nil {
		t.Fatal(err)
	}
	states := slices.Compact(valuesOf(families, "master_state", "state", "")[""])
	if len(states) < 4 {
		t.Errorf("found the states %q only", states)
	}
	for _, state := range states {
		if !strings.Contains(string(page), "\n| `"+state+"` |") {
			t.Errorf("the page does not explain %s", state)
		}
	}
}

// valuesOf are the values of a label of a metric, sorted, for each value of the label by.
func valuesOf(families []*dto.MetricFamily, metric, label, by string) map[string][]string {
	values := map[string][]string{}
	for _, f := range families {
		if f.GetName() != namespace+"_"+metric {
			continue
		}
		for _, m := range f.GetMetric() {
			of := map[string]string{}
			for _, l := range m.GetLabel() {
				of[l.GetName()] = l.GetValue()
			}
			values[of[by]] = append(values[of[by]], of[label])
		}
	}
	for _, list := range values {
		slices.Sort(list)
	}
	return values
}

// labelsOf lists the labels of a metric.
func labelsOf(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, "`"+l.GetName()+"`")
	}
	return strings.Join(names, ", ")
}
