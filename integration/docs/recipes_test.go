package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shownFile matches a link to a file of integration/clients and the block of code after it.
var shownFile = regexp.MustCompile("(?ms)^\\[`[^`]+`\\]\\((?:\\.\\./)+(integration/clients/[^)]+)\\):\n\n```[a-z]+\n(.*?)^```$")

// The pages show the recipes exactly as in the files, and each once. No recipe has more than 99
// lines. The tests in integration/clients run them.
func TestRecipesAreShown(t *testing.T) {
	shown := make(map[string]string)
	pages := below(t, "docs/coming-from/*.md")
	if len(pages) < 7 {
		t.Errorf("got only the pages %q", pages)
	}
	for _, page := range append(pages, "docs/recipes.md", "docs/coming-from.md") {
		checkShown(t, page, shown)
	}
	for _, pattern := range []string{"*/recipes/*", "withlock/*.go"} {
		for _, path := range below(t, "integration/clients/"+pattern) {
			if filepath.Base(path) != "__pycache__" && shown[path] == "" {
				t.Errorf("%s: got no page that shows it", path)
			}
		}
	}
}

// checkShown compares the code in a page with its files, and adds them to shown.
func checkShown(t *testing.T, page string, shown map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	found := shownFile.FindAllSubmatch(text, -1)
	for _, f := range found {
		path := string(f[1])
		if shown[path] != "" {
			t.Errorf("%s: got it in %s and in %s, want it once", path, shown[path], page)
		}
		shown[path] = page
		if file, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(file) != string(f[2]) {
			t.Errorf("%s: the code of %s differs from the file (%v)", page, path, err)
		}
		if n := strings.Count(string(f[2]), "\n"); n > 99 {
			t.Errorf("%s: got %d lines, want at most 99", path, n)
		}
	}
	for _, b := range blocks(t, page) {
		if !slices.ContainsFunc(found, func(f [][]byte) bool { return strings.TrimSuffix(string(f[2]), "\n") == strings.Join(b.text, "\n") }) {
			t.Errorf("line %d of %s: got code that is from no file under test", b.line, page)
		}
	}
}

// below returns the files that match a pattern, by their paths below root.
func below(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		t.Fatal(pattern, files, err)
	}
	for i, file := range files {
		files[i] = filepath.ToSlash(strings.TrimPrefix(file, root+"/"))
	}
	return files
}
