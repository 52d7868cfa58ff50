package operations

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// The examples for cron and systemd in docs/tools.md do as the page says.
func TestDocumentedRunExamplesWork(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	program, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	files := examples(t)
	_, cron, _ := strings.Cut(files["/etc/cron.d/nightly-backup"], " root ")
	_, unit, _ := strings.Cut(files["/etc/systemd/system/nightly-backup.service"], "\nExecStart=")
	unit, _, _ = strings.Cut(unit, "\n")
	for name, test := range map[string]struct {
		line string
		next int // exit code while the lock is held
	}{"cron": {cron, 0}, "systemd": {unit, 75}} {
		t.Run(name, func(t *testing.T) {
			for _, want := range []int{0, test.next} { // the second run finds the lock closed
				line := strings.NewReplacer("/usr/bin/lockproxy", "lockproxy", "nightly-backup", name,
					"/usr/local/bin/backup.sh", "echo ran").Replace(test.line)
				line = strings.Replace(line, "lockproxy", program, 1)
				p := lab.Launch(t, name, "env", "LOCKPROXY_ADDR="+c.Addr, "sh", "-c", line)
				lab.WantExit(t, p, want)
			}
		})
	}
}

// examples returns the files that docs/tools.md shows, by their paths.
func examples(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "tools.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for block := range strings.SplitSeq(string(page), "\n```") {
		_, block, _ = strings.Cut(block, "\n") // drop the language
		if rest, found := strings.CutPrefix(block, "# /etc/"); found {
			name, _, _ := strings.Cut(rest, ",")
			files["/etc/"+name] = block + "\n"
		}
	}
	if len(files) != 3 {
		t.Fatalf("docs/tools.md: got files %q", files)
	}
	return files
}

// systemd accepts the units of docs/tools.md.
func TestDocumentedRunUnitsAreValid(t *testing.T) {
	t.Parallel()
	analyze := lab.Tool(t, "systemd-analyze")
	folder, args := t.TempDir(), []string{"verify", "--man=no"}
	for path, text := range examples(t) {
		if !strings.HasPrefix(path, "/etc/systemd/") {
			continue
		}
		text = strings.ReplaceAll(text, "/usr/bin/lockproxy", "/bin/true") // lockproxy need not be installed
		copied := filepath.Join(folder, filepath.Base(path))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, copied)
	}
	p := lab.Launch(t, "systemd-analyze", analyze, args...)
	lab.WaitFor(t, "systemd-analyze", lab.Patience, func() bool { return !p.Running() })
	if got := p.Log.String(); p.Err != nil || strings.Contains(got, "nightly-backup") {
		t.Errorf("systemd-analyze: %v\n%s", p.Err, got)
	}
}
