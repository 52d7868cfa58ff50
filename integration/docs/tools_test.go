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
	for _, tool := range []string{"run", "status", "health", "bench"} {
		help, err := exec.Command(binary, tool, "--help").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		section := regexp.MustCompile(`(?ms)^## ` + tool + `\b.*?(\n## |\z)`).FindString(page)
		var shown, there []string
		for _, f := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\|([^|]*)\\|").FindAllStringSubmatch(section, -1) {
			shown = append(shown, f[1]+" "+strings.TrimSpace(f[2]))
		}
		for _, f := range regexp.MustCompile(`(?m)^  --([a-z-]+) +(.*)$`).FindAllStringSubmatch(string(help), -1) {
			if slices.Contains(common, f[1]) {
				continue
			}
			value := regexp.MustCompile(`\(default: (.*)\)`).FindStringSubmatch(f[2])
			switch {
			case value != nil:
				there = append(there, f[1]+" "+value[1])
			case strings.Contains(f[2], "without it,"):
				there = append(there, f[1]+" none")
			default:
				there = append(there, f[1]+" ")
			}
		}
		slices.Sort(shown)
		slices.Sort(there)
		if !slices.Equal(shown, there) {
			t.Errorf("%s: got flags on the page\n%q, want\n%q", tool, shown, there)
		}
		_, codes, _ := strings.Cut(string(help), "exit codes")
		for _, code := range regexp.MustCompile(`\b(0|1|64|69|74|75|77|126|127) `).FindAllStringSubmatch(codes, -1) {
			if !regexp.MustCompile(`\b` + code[1] + `\b`).MatchString(section) {
				t.Errorf("%s: exit code %s is missing on the page", tool, code[1])
			}
		}
	}
	for _, name := range common {
		if !strings.Contains(page, "`--"+name+"`") {
			t.Errorf("--%s is missing on the page", name)
		}
	}
}
