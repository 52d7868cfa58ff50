package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/conf"
)

// TestDocsSettings: docs/reference/settings.md has a section for each setting, in the order of
// --help, with its help, its default, when a change takes effect, and an example that can be
// loaded.
func TestDocsSettings(t *testing.T) {
	_, rest, found := strings.Cut(readDocument(t, "docs/reference/settings.md"), "\n## All settings\n")
	if !found {
		t.Fatal("the page has no section All settings")
	}
	rest, _, _ = strings.Cut(rest, "\n## Passwords and certificates\n")
	overview, _, _ := strings.Cut(rest, "\n## ")
	settings := conf.Settings()
	sections := strings.Split(rest, "\n### ")[1:]
	listed := strings.Count(overview, "(#") - strings.Count(overview, "\n| [")
	if len(sections) != len(settings) || listed != len(settings) {
		t.Fatalf("the page has %d sections and lists %d settings, there are %d", len(sections), listed, len(settings))
	}
	for i, s := range settings {
		t.Run(s.Name, func(t *testing.T) {
			if !strings.Contains(overview, "["+s.Name+"](#"+s.Name+")") {
				t.Error("the overview does not list it")
			}
			changes := "a restart"
			if slices.Contains(conf.Live(), s.Name) {
				changes = "a reload"
			}
			help := strings.ToUpper(s.Help[:1]) + s.Help[1:] + "."
			want := s.Name + " " + help + " * Default: " + s.Default + " * Changes at: " + changes + " ```yaml "
			if got := oneSpace(sections[i]); !strings.HasPrefix(got, want) {
				t.Errorf("the section is\n%s\nwant\n%s", got, want)
			}
			checkExample(t, s.Name, sections[i])
		})
	}
}

// checkExample loads the example in the section of a setting. If it names no server, masters are
// added.
func checkExample(t *testing.T, name, section string) {
	t.Helper()
	example := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindStringSubmatch(section)
	if example == nil {
		t.Fatal("there is no example")
	}
	content := example[1]
	if !strings.Contains("\n"+content, "\n"+name+": ") {
		t.Errorf("the example does not set it: %s", content)
	}
	if !regexp.MustCompile(`(?m)^(upstream|masters|embedded): `).MatchString(content) {
		content += "masters: [10.0.0.1:6379, 10.0.0.2:6379, 10.0.0.3:6379]\n"
	} else if strings.Contains(content, "sentinel://") {
		content += "masters: [10.0.0.1:6379]\n"
	}
	file := filepath.Join(t.TempDir(), "lockproxy.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := conf.Load([]string{"--config", file}, nil)
	if err != nil {
		t.Errorf("the example: %v", err)
	}
	if _, changed := config.Changed()[name]; !changed {
		t.Errorf("the example leaves the default: %s", content)
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

// TestDocsArchitecture: docs/architecture.md names every folder with code, has at most 3,500 words
// and 25 rows of glossary, and docs/contributing.md explains every B-number that a comment names.
func TestDocsArchitecture(t *testing.T) {
	page, numbers := readDocument(t, "docs/architecture.md"), readDocument(t, "docs/contributing.md")
	if n := len(strings.Fields(page)); n > 3500 {
		t.Errorf("it has %d words", n)
	}
	_, glossary, _ := strings.Cut(page, "\n| word | meaning |\n|---|---|\n")
	if n := strings.Count(glossary, "\n| "); n < 1 || n > 24 {
		t.Errorf("the glossary has %d rows", n+1)
	}
	folders, _, _ := strings.Cut(page, "\n## The path of one GET")
	for folder := range mayImport {
		if name := filepath.Base(folder); folder != "deploy" && folder != "docs" && !strings.Contains(folders, name+"`") {
			t.Errorf("it does not name the folder %s", folder)
		}
	}
	number := regexp.MustCompile(`\bB[1-9][0-9]?\b`)
	err := filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || filepath.Base(path) == "readme_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			_, comment, _ := strings.Cut(line, "// ")
			for _, n := range number.FindAllString(comment, -1) {
				if !strings.Contains(numbers, "\n| "+n+" |") {
					t.Errorf("%s names %s, which docs/contributing.md does not explain", path, n)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
