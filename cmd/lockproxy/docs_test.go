package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const docsRoot = "../../"

// documents are the pages for people, by their paths below docsRoot.
func documents(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "quorum/SAFETY.md"}
	err := filepath.WalkDir(docsRoot+"docs", func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			pages = append(pages, filepath.ToSlash(strings.TrimPrefix(path, filepath.FromSlash(docsRoot))))
		}
		return err
	})
	if err != nil || len(pages) < 12 {
		t.Fatal(pages, err)
	}
	return pages
}

func readDocument(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(docsRoot + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// oneSpace replaces each run of blanks and line ends in text by one blank.
func oneSpace(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestDocsLinks: the files and headings that the documents point to are there.
func TestDocsLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	known := map[string][]string{} // the headings of each document
	for _, path := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(withoutCode(readDocument(t, path)), -1) {
			target := path
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(path), found[1])
			}
			if _, err := os.Stat(docsRoot + target); err != nil {
				t.Errorf("%s: %v", path, err)
			} else if found[2] != "" {
				if known[target] == nil {
					known[target] = headings(readDocument(t, target))
				}
				if !slices.Contains(known[target], found[2]) {
					t.Errorf("%s points to %s, which has no heading #%s", path, target, found[2])
				}
			}
		}
	}
}

// TestDocsPaths: the files of the project that the documents name are there.
func TestDocsPaths(t *testing.T) {
	name := regexp.MustCompile("`((?:admin|cmd|commands|conf|deploy|docs|integration|quorum|resp|upstream)/[^` ]+)`")
	for _, path := range documents(t) {
		for _, found := range name.FindAllStringSubmatch(withoutCode(readDocument(t, path)), -1) {
			if files, err := filepath.Glob(docsRoot + found[1]); err != nil || len(files) == 0 {
				t.Errorf("%s names %s, which is not there", path, found[1])
			}
		}
	}
}

// headings are what links call the headings of a document. Of two of one name the second gets a
// number.
func headings(text string) []string {
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(withoutCode(text), -1) {
		name := strings.ToLower(strings.ReplaceAll(found[1], " ", "-"))
		name = regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(name, "")
		for n, base := 1, name; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		names = append(names, name)
	}
	return names
}

// withoutCode is a document without its blocks of code.
func withoutCode(text string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
}

// TestDocsIndex: the README has at most 200 lines and points to every page, and every page begins
// with a title.
func TestDocsIndex(t *testing.T) {
	readme := readDocument(t, "README.md")
	if n := strings.Count(readme, "\n"); n > 200 {
		t.Errorf("the README has %d lines", n)
	}
	for _, path := range documents(t) {
		if path != "README.md" && !strings.Contains(readme, "]("+path+")") {
			t.Errorf("the README does not point to %s", path)
		}
		if !strings.HasPrefix(readDocument(t, path), "# ") {
			t.Errorf("%s has no title", path)
		}
	}
}

// TestDocsProse: sentences are short, and lines of prose end before column 100.
func TestDocsProse(t *testing.T) {
	for _, path := range documents(t) {
		var lengths []int
		for _, p := range paragraphs(readDocument(t, path)) {
			wantShortLines(t, path, p)
			for _, s := range sentences(p.text) {
				n := len(strings.Fields(s))
				if n > 40 {
					t.Errorf("%s: a sentence of %d words: %s", path, n, s)
				}
				if !p.cell {
					lengths = append(lengths, n)
				}
			}
		}
		slices.Sort(lengths)
		if len(lengths) == 0 {
			t.Errorf("%s has no prose", path)
		} else if median := lengths[len(lengths)/2]; median >= 18 {
			t.Errorf("%s: half of the sentences have %d words or more", path, median)
		}
	}
}

// wantShortLines: the lines of p end before column 100, unless p is a cell of a table.
func wantShortLines(t *testing.T, path string, p paragraph) {
	t.Helper()
	for line := range strings.SplitSeq(p.text, "\n") {
		if len([]rune(line)) > 100 && !p.cell {
			t.Errorf("%s: a line of over 100 columns: %s", path, line)
		}
	}
}

// paragraph is a paragraph, a point of a list or a cell of a table.
type paragraph struct {
	text string
	cell bool
}

func paragraphs(document string) (all []paragraph) {
	var lines []string
	end := func() {
		if len(lines) > 0 {
			all = append(all, paragraph{text: strings.Join(lines, "\n")})
		}
		lines = nil
	}
	point := regexp.MustCompile(`^ *([*-]|[0-9]+\.) `)
	for line := range strings.Lines(withoutCode(document)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			end()
		case strings.HasPrefix(line, "|"):
			end()
			for cell := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, ""), "|") {
				all = append(all, paragraph{cell, true})
			}
		case point.MatchString(line):
			end()
			lines = append(lines, line)
		default:
			lines = append(lines, line)
		}
	}
	end()
	return all
}

// sentences cuts a paragraph into sentences. A piece of code counts as one word, a link as its
// text.
func sentences(text string) []string {
	text = regexp.MustCompile("`[^`]*`").ReplaceAllString(oneSpace(text), "code")
	text = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(text, "]")
	text = regexp.MustCompile(`(^| )([*-]|[0-9]+\.|=|/|\+)( |$)`).ReplaceAllString(text, " ")
	return regexp.MustCompile(`[.!?]["*)]*( |$)`).Split(text, -1)
}

// TestDocsComparison: docs/comparison.md has the figures of the last runs from their RESULT.md.
func TestDocsComparison(t *testing.T) {
	page := readDocument(t, "docs/comparison.md")
	faults := regexp.MustCompile(`(?m)^\|[^|]+(\| [0-9]+ / [0-9]+ )(\|[^|]+){3}\|$`)
	want := faults.FindAllString(strings.Split(readDocument(t, "integration/compare/RESULT.md"), "\n\n")[2], -1)
	if got := faults.FindAllString(page, -1); len(want) < 5 || !slices.Equal(got, want) {
		t.Errorf("the page says\n%s\nmeasured is\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	figure := `([0-9.]+) \([^|]*\) `
	ratios := regexp.MustCompile(`(?m)^\| ([0-9]+) \| `+figure+`\| [^|]*\| `+figure+`\| `+figure+
		`\|$`).FindAllStringSubmatch(readDocument(t, "integration/bench/RESULT.md"), -1)
	if len(ratios) < 4 {
		t.Errorf("found the ratios %q only", ratios)
	}
	for _, r := range ratios {
		if row := fmt.Sprintf(`(?m)^\| %s workers? \| %s \| %s \| %s \|`, r[1], r[2], r[3],
			r[4]); !regexp.MustCompile(row).MatchString(page) {
			t.Errorf("the page lacks the measured %q", r[1:])
		}
	}
}

// TestDocsPictures: every picture of the documents is well-formed, has a title and colours for a
// dark page, and is shown.
func TestDocsPictures(t *testing.T) {
	pictures, err := filepath.Glob(docsRoot + "docs/images/*.svg")
	if err != nil || len(pictures) == 0 {
		t.Fatal(pictures, err)
	}
	var all strings.Builder
	for _, path := range documents(t) {
		all.WriteString(readDocument(t, path))
	}
	for _, path := range pictures {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(text, new(struct{})); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, need := range []string{"<title", "prefers-color-scheme: dark", "viewBox"} {
			if !strings.Contains(string(text), need) {
				t.Errorf("%s has no %s", path, need)
			}
		}
		if !strings.Contains(all.String(), "images/"+filepath.Base(path)+")") {
			t.Errorf("no document shows %s", path)
		}
	}
}
