package admin

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMonitoringUsesExistingMetrics: every metric of the dashboard and the alert rules exists,
// with the labels and values that they select.
func TestMonitoringUsesExistingMetrics(t *testing.T) {
	exists := exposedSeries(newFixture(t, nil).ask("GET", "/metrics", nil).Body.String())
	used := 0
	selector := regexp.MustCompile(`\b((?:lockproxy|go|process)_\w+)(\{[^}]*\})?`)
	for _, expr := range append(dashboardQueries(t), alertQueries(t)...) {
		for _, found := range selector.FindAllStringSubmatch(expr, -1) {
			used++
			wantSelected(t, exists, expr, found[1], found[2])
		}
	}
	if used < 60 {
		t.Errorf("got %d uses of metrics in the dashboard and the rules, want at least 60", used)
	}
}

// exposedSeries returns a set of "name", "name label" and "name label value" of all metrics in
// text.
func exposedSeries(text string) map[string]bool {
	exists := map[string]bool{}
	pair := regexp.MustCompile(`(\w+)="([^"]*)"`)
	for _, series := range regexp.MustCompile(`(?m)^(\w+)(\{.*\})? `).FindAllStringSubmatch(text, -1) {
		exists[series[1]] = true
		for _, label := range pair.FindAllStringSubmatch(series[2], -1) {
			exists[series[1]+" "+label[1]] = true
			exists[series[1]+" "+label[1]+" "+label[2]] = true
		}
	}
	return exists
}

// wantSelected checks that a metric of an expression exists, with the label values that its
// matchers select and the labels that the expression groups by.
func wantSelected(t *testing.T, exists map[string]bool, expr, name, matchers string) {
	t.Helper()
	if !exists[name] {
		t.Errorf("got no metric %s, used in:\n%s", name, expr)
	}
	for _, match := range regexp.MustCompile(`(\w+)(=~?)"([^"]*)"`).FindAllStringSubmatch(matchers, -1) {
		label, values := match[1], strings.Split(match[3], "|")
		if label == "job" || label == "instance" { // the scrape adds them
			continue
		}
		for _, value := range values {
			if !exists[name+" "+label+" "+value] {
				t.Errorf("got no %s{%s=%q}, used in:\n%s", name, label, value, expr)
			}
		}
	}
	_, after, _ := strings.Cut(expr, " by (")
	by, _, _ := strings.Cut(after, ")")
	for label := range strings.SplitSeq(by, ", ") {
		if known := []string{"", "job", "instance", "le"}; !slices.Contains(known, label) && !exists[name+" "+label] {
			t.Errorf("%s: got no label %s, used in:\n%s", name, label, expr)
		}
	}
}

// dashboardQueries returns all expressions of the dashboard.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(monitoringFile(t, "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	if len(queries) < 30 {
		t.Errorf("got %d queries in the dashboard", len(queries))
	}
	return queries
}

// alertQueries returns the expression of each alert.
func alertQueries(t *testing.T) (queries []string) {
	t.Helper()
	expr := regexp.MustCompile(`(?m)^        expr: (?:\|\n((?:          .*\n)+)|(.*))`)
	for _, m := range expr.FindAllStringSubmatch(monitoringFile(t, "rules.yaml"), -1) {
		queries = append(queries, m[1]+m[2])
	}
	if alerts := len(alertNames(t)); len(queries) != alerts || alerts == 0 {
		t.Errorf("got %d queries for %d alerts", len(queries), alerts)
	}
	return queries
}

func alertNames(t *testing.T) (names []string) {
	t.Helper()
	alert := regexp.MustCompile(`(?m)^      - alert: (\w+)$`)
	for _, m := range alert.FindAllStringSubmatch(monitoringFile(t, "rules.yaml"), -1) {
		names = append(names, m[1])
	}
	return names
}

func monitoringFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAlertsFire: promtool accepts the rules, and each alert fires for its cause and not before
// its time, as monitoring/rules_test.yaml says.
func TestAlertsFire(t *testing.T) {
	tests := monitoringFile(t, "rules_test.yaml")
	for _, alert := range alertNames(t) {
		if !strings.Contains(tests, `alertname="`+alert+`"`) {
			t.Errorf("rules_test.yaml does not test %s", alert)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: apt-get install --no-install-recommends prometheus")
	}
	rules := monitoringFile(t, "rules.yaml")
	for _, tt := range []struct {
		name, old, changed string
		fails              bool
	}{
		{name: "as they are"},
		{"no expression", "expr: up == 0", "expr: up ==", true},
		{"another threshold", "lockproxy_waiters > 1000", "lockproxy_waiters > 5", true},
		{"another time", "lockproxy_longest_wait_seconds > 60\n        for: 1m",
			"lockproxy_longest_wait_seconds > 60\n        for: 5m", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			changed := strings.Replace(rules, tt.old, tt.changed, 1)
			if tt.fails == (changed == rules) {
				t.Fatalf("the rules do not have %q", tt.old)
			}
			for name, text := range map[string]string{"rules.yaml": changed, "rules_test.yaml": tests} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := checkRules(t, promtool, dir); (err != nil) != tt.fails {
				t.Errorf("promtool: %v, want an error: %v", err, tt.fails)
			}
		})
	}
}

// checkRules lets promtool check and test the rules in a folder.
func checkRules(t *testing.T, promtool, dir string) error {
	t.Helper()
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w\n%s", args, err, out)
		}
	}
	return nil
}
