package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/conf"
)

// TestDocsSettings keeps the table of docs/reference/settings.md and the settings the same.
func TestDocsSettings(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "| setting | default | |\n|---|---|---|\n")
	if !found {
		t.Fatal("the page has no table of settings")
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	var want []string
	for _, s := range conf.Settings() {
		want = append(want, "| `"+s.Name+"` | "+s.Default+" | "+s.Help+" |")
	}
	if got := strings.Join(want, "\n"); table != got {
		t.Errorf("the page says\n%s\n\nwant\n%s", table, got)
	}
}

// TestDocsReload: docs/operations.md names the settings that change without a restart.
func TestDocsReload(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "These change at once, for what comes after: `" + strings.Join(conf.Live(), "`, `") +
		"`.\n"; !strings.Contains(oneSpace(string(text)), oneSpace(want)) {
		t.Errorf("docs/operations.md lacks\n%s", want)
	}
}

// TestDocsAlerts: docs/operations.md says what to do about each alert.
func TestDocsAlerts(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../../admin/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`(?m)alert: (\w+)$`).FindAllSubmatch(rules, -1)
	if len(alerts) == 0 {
		t.Error("the rules have no alerts")
	}
	for _, alert := range alerts {
		if !strings.Contains(string(text), "\n| `"+string(alert[1])+"` |") {
			t.Errorf("docs/operations.md says nothing about %s", alert[1])
		}
	}
}

// TestDocsTools: docs/tools.md says what each Subcommand is for, and what each of its flags does.
func TestDocsTools(t *testing.T) {
	text, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range tool.Subcommands() {
		if !regexp.MustCompile(`(?m)^## ` + c.Name + `\b`).Match(text) {
			t.Errorf("docs/tools.md says nothing about %s", c.Name)
		}
		general, _, _ := strings.Cut(string(text), "\n## ")
		_, rest, _ := strings.Cut(string(text), "\n## "+c.Name)
		section, _, _ := strings.Cut(rest, "\n## ")
		flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
		c.Define(flags)
		flags.VisitAll(func(f *flag.Flag) {
			if row := regexp.MustCompile("(?m)^\\|[^|]*`--" + f.Name + "`"); !row.MatchString(general + section) {
				t.Errorf("docs/tools.md has no row for --%s of %s", f.Name, c.Name)
			}
		})
	}
}

// TestDocsArchitecture: docs/architecture.md names every folder with code, and explains every
// B-number that a comment names.
func TestDocsArchitecture(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	folders, _, _ := strings.Cut(string(page), "\n## The way of one GET")
	for folder := range mayImport {
		if name := filepath.Base(folder); folder != "deploy" && folder != "docs" && !strings.Contains(folders, name+"`") {
			t.Errorf("it does not name the folder %s", folder)
		}
	}
	number := regexp.MustCompile(`\bB[1-9][0-9]?\b`)
	err = filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || filepath.Base(path) == "readme_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			_, comment, _ := strings.Cut(line, "// ")
			for _, n := range number.FindAllString(comment, -1) {
				if !strings.Contains(string(page), "\n| "+n+" |") {
					t.Errorf("%s names %s, which it does not explain", path, n)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
