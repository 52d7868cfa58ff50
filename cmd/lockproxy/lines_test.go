package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestGoLinesAreShort: comments end before column 100 and lines of the product before column 120.
// A tab is one column. Exempt are quotations in comments, which are indented, and in tests long
// texts of tables.
func TestGoLinesAreShort(t *testing.T) {
	read := 0
	err := filepath.WalkDir(docsRoot, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		read++
		of := strings.TrimPrefix(filepath.ToSlash(path), docsRoot)
		tool := strings.HasSuffix(of, "_test.go") || strings.HasPrefix(of, "integration/")
		number := 0
		for line := range strings.SplitSeq(string(text), "\n") {
			number++
			columns := utf8.RuneCountInString(line)
			if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "// "); ok && columns >= 100 &&
				!strings.HasPrefix(comment, " ") || columns >= 120 && !tool {
				t.Errorf("%s:%d: %d columns", of, number, columns)
			}
		}
		return err
	})
	if err != nil || read < 500 {
		t.Fatal(read, err)
	}
}
