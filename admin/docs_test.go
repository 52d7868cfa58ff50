package admin

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// TestDocsMetrics: docs/reference/metrics.md lists every metric of ours with its kind, its labels and its help, and every
// outcome of commands.
func TestDocsMetrics(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	families, err := registry(NewMeter([]string{"string"}), someState, "v1").Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), namespace+"_") {
			continue // of Go and the process
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", f.GetName(), strings.ToLower(f.GetType().String()), labelsOf(f), f.GetHelp()))
	}
	got := regexp.MustCompile("(?m)^\\| `lockproxy_.*$").FindAllString(page, -1)
	if !slices.Equal(got, want) {
		t.Errorf("the page says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, command := range slices.Sorted(maps.Keys(outcomes)) {
		if row := "| `" + command + "` | `" + strings.Join(outcomes[command], "`, `") + "` |"; !strings.Contains(page, row) {
			t.Errorf("the page lacks\n%s", row)
		}
	}
	for _, list := range [][]string{sessionEnds, dialKinds, MasterStates} {
		if names := "`" + strings.Join(list, "`, `") + "`"; !strings.Contains(page, names) {
			t.Errorf("the page lacks %s", names)
		}
	}
}

// labelsOf lists the labels of a metric.
func labelsOf(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, "`"+l.GetName()+"`")
	}
	return strings.Join(names, ", ")
}
