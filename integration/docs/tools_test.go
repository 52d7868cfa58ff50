package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// common are the flags that docs/tools.md explains once for all tools.
var common = []string{"addr", "user", "password-file", "tls-ca", "tls-cert", "tls-key", "tls-server-name"}

// docs/tools.md lists the flags of each tool with their defaults, and the exit codes of its help.
func TestToolFlags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/tools.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	binary, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"run", "status", "why", "health", "bench"} {
		t.Run(tool, func(t *testing.T) {
			help, err := exec.Command(binary, tool, "--help").CombinedOutput()
			if err != nil {
				t.Fatal(err)
			}
			section := regexp.MustCompile(`(?ms)^## ` + tool + `\b.*?(\n## |\z)`).FindString(page)
			if got, want := flagsOfPage(section), flagsOfHelp(string(help)); !slices.Equal(got, want) {
				t.Errorf("got flags on the page\n%q, want\n%q", got, want)
			}
			_, codes, _ := strings.Cut(string(help), "exit codes")
			for _, code := range regexp.MustCompile(`\b(0|1|64|69|74|75|77|126|127) `).FindAllStringSubmatch(codes, -1) {
				if !regexp.MustCompile(`\b` + code[1] + `\b`).MatchString(section) {
					t.Errorf("exit code %s is missing on the page", code[1])
				}
			}
		})
	}
	for _, name := range common {
		if !strings.Contains(page, "`--"+name+"`") {
			t.Errorf("--%s is missing on the page", name)
		}
	}
}

// flagsOfPage returns the flags in the table of a tool's section, each with its default, sorted.
func flagsOfPage(section string) (flags []string) {
	for _, f := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\|([^|]*)\\|").FindAllStringSubmatch(section, -1) {
		flags = append(flags, f[1]+" "+strings.TrimSpace(f[2]))
	}
	slices.Sort(flags)
	return flags
}

// flagsOfHelp returns the flags in a tool's help but the common ones, as the page should have
// them.
func flagsOfHelp(help string) (flags []string) {
	for _, f := range regexp.MustCompile(`(?m)^  --([a-z-]+) +(.*)$`).FindAllStringSubmatch(help, -1) {
		if slices.Contains(common, f[1]) {
			continue
		}
		value := regexp.MustCompile(`\(default: (.*)\)`).FindStringSubmatch(f[2])
		switch {
		case value != nil:
			flags = append(flags, f[1]+" "+value[1])
		case strings.Contains(f[2], "without it,"):
			flags = append(flags, f[1]+" none")
		default:
			flags = append(flags, f[1]+" ")
		}
	}
	slices.Sort(flags)
	return flags
}
