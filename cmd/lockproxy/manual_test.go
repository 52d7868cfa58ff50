package main

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/conf"
)

// asProgram makes the test binary behave as lockproxy, for scripts that run it.
const asProgram = "LOCKPROXY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Unsetenv(asProgram) // or it would be an unknown setting
		main()
		return
	}
	os.Exit(m.Run())
}

// TestManual: the manual of the Debian package has the commands and flags of --help, and no
// others.
func TestManual(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "../../deploy/debian/manual.sh", program, "1.2.3")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	manual := strings.ReplaceAll(string(out), `\-`, "-")
	if regexp.MustCompile(`@[A-Z]+@`).MatchString(manual) {
		t.Error("a placeholder is left")
	}

	var names []string
	for _, found := range regexp.MustCompile(`(?m)^  ([a-z-]+) `).FindAllStringSubmatch(tool.Usage(), -1) {
		names = append(names, found[1])
	}
	synopsis := regexp.MustCompile(`(?m)^\.B lockproxy ([a-z| -]+)\\fR`).FindStringSubmatch(manual)
	if synopsis == nil || !slices.Equal(strings.Split(synopsis[1], " | "), names) {
		t.Errorf("the synopsis has %q, --help has %q", synopsis, names)
	}
	options, sections, _ := strings.Cut(manual, "\n.SH COMMANDS\n")
	parts := strings.Split(sections, ".SS lockproxy ")[1:]
	if len(parts) != len(names) {
		t.Fatalf("%d commands have a section, want %d", len(parts), len(names))
	}
	for _, s := range conf.Settings() {
		if !strings.Contains(options, "\n  --"+s.Name+" ") {
			t.Errorf("the manual lacks --%s", s.Name)
		}
	}
	for _, c := range tool.Subcommands() {
		i := slices.Index(names, c.Name)
		if i < 0 || !strings.HasPrefix(parts[i], c.Name+"\n") {
			t.Errorf("%s has no section in its place", c.Name)
			continue
		}
		flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
		c.Define(flags)
		var want, got []string
		flags.VisitAll(func(f *flag.Flag) { want = append(want, f.Name) })
		for _, found := range regexp.MustCompile(`(?m)^  --([a-z0-9-]+) `).FindAllStringSubmatch(parts[i], -1) {
			got = append(got, found[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the flags %q in the manual, %q in the program", c.Name, got, want)
		}
	}
}

// TestDebianLinks: the package has every file that a document in it links to, at the place where
// the link points. deploy/check follows the links in the unpacked package.
func TestDebianLinks(t *testing.T) {
	packed := packedDocuments(t)
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	links := 0
	for dst, src := range packed {
		if path.Ext(dst) != ".md" {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(withoutCode(readDocument(t, src)), -1) {
			links++
			target := path.Join(path.Dir(dst), found[1])
			inside := func(file string) bool { return file == target || strings.HasPrefix(file, target+"/") }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(packed)), inside) {
				t.Errorf("%s links to %s, which deploy/debian/nfpm.yaml does not pack as %s", src, found[1], target)
			}
		}
	}
	if links < 150 {
		t.Errorf("%d links found", links)
	}
}

// packedDocuments returns the files in /usr/share/doc/lockproxy with the files that they are made
// from.
func packedDocuments(t *testing.T) map[string]string {
	t.Helper()
	const below = "/usr/share/doc/lockproxy/"
	var list struct {
		Contents []struct{ Src, Dst, Type string }
	}
	if err := yaml.Unmarshal([]byte(readDeploy(t, "debian/nfpm.yaml")), &list); err != nil {
		t.Fatal(err)
	}
	packed := make(map[string]string)
	for _, c := range list.Contents {
		dst, ok := strings.CutPrefix(c.Dst, below)
		if !ok {
			continue
		}
		err := filepath.WalkDir(docsRoot+c.Src, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			rest, err := filepath.Rel(docsRoot+c.Src, file)
			if rest != "." && c.Type != "tree" { // nfpm would put all files into one folder
				t.Errorf("%s is a folder, and has no type: tree", c.Src)
			}
			packed[path.Join(dst, filepath.ToSlash(rest))] = path.Join(c.Src, filepath.ToSlash(rest))
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	return packed
}
