package commands

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// reference is docs/reference/commands.md.
func reference(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocsErrors: the reference lists every error reply in the code of the lock
// commands and of the relay.
func TestDocsErrors(t *testing.T) {
	_, table, _ := strings.Cut(reference(t), "\n## Errors\n")
	table = strings.ReplaceAll(table, `\|`, "|")
	found := map[string]bool{"TRYAGAIN": true}
	for _, r := range replies {
		if r.text != "" && !strings.Contains(table, "\n| `-"+r.code+" "+r.text+"` |") {
			t.Errorf("the reference lacks -%s %s", r.code, r.text)
		}
	}
	for _, folder := range []string{".", "../resp"} {
		for path, text := range literals(t, folder) {
			text = strings.TrimSuffix(text, "\r\n")
			code := regexp.MustCompile(`^-?((ERR|NOAUTH|NOPERM) [^ ]+.*)`).FindStringSubmatch(text)
			if code == nil { // also the beginning of an error that is no more than its code
				continue
			}
			found[code[2]] = true
			shape := regexp.MustCompile(`%[sdqv]`).Split(code[1], -1)
			for i, part := range shape {
				shape[i] = regexp.QuoteMeta(part)
			}
			if !regexp.MustCompile("\n\\| `-" + strings.Join(shape, ".+")).MatchString(table) {
				t.Errorf("%s: the reference lacks -%s", path, code[1])
			}
		}
	}
	if len(found) != 4 {
		t.Errorf("found errors of the codes %v only", found)
	}
}

// literals are the strings in the code of a folder and those below it, with the file of each.
// Tests are left out.
func literals(t *testing.T, folder string) iter.Seq2[string, string] {
	return func(yield func(path, text string) bool) {
		err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			texts, err := literalsOf(path)
			for _, text := range texts {
				if !yield(path, text) {
					return filepath.SkipAll
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// literalsOf returns the strings in a file of Go, up to one that cannot be read.
func literalsOf(path string) (texts []string, err error) {
	file, err := goparser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	for n := range ast.Preorder(file) {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				return texts, err
			}
			texts = append(texts, text)
		}
	}
	return texts, nil
}

// TestDocsGrammar: the reference has a section for each command, and the parser takes the form
// that it shows. The README's table and LOCK HELP have the same forms.
func TestDocsGrammar(t *testing.T) {
	page := reference(t)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Locker: &fakeLocker{}, Inspector: &fakeLocker{}, MaxTTL: time.Minute})
	t.Cleanup(s.Close)
	for name, how := range s.commands {
		t.Run(name, func(t *testing.T) {
			title := strings.ToUpper(name)
			_, section, found := strings.Cut(page, "\n## "+title+"\n")
			if !found {
				t.Fatalf("the reference has no section %s", title)
			}
			form := regexp.MustCompile("^\n`" + title + " ([^`]*)`").FindStringSubmatch(section)
			if form == nil {
				if name != "lockproxy" { // its subcommands have forms of their own: TestDocsHelp
					t.Errorf("the section %s shows no form", title)
				}
				return
			}
			wantFormRepeated(t, string(readme), title+" "+form[1])
			wantFormParsed(t, title, how.parse, form[1])
		})
	}
}

// wantFormRepeated: the README's table and LOCK HELP show the form of a command.
func wantFormRepeated(t *testing.T, readme, form string) {
	t.Helper()
	if row := "\n| `" + strings.ReplaceAll(form, "|", `\|`) + "` |"; !strings.Contains(readme, row) {
		t.Errorf("the README lacks%s", row)
	}
	words := regexp.MustCompile(`\b(key|ttl|n|timeout|label|token|fence)\b`)
	if line := words.ReplaceAllString(form, "<$1>"); !slices.Contains(lockHelp, line) {
		t.Errorf("LOCK HELP lacks %s", line)
	}
}

// wantFormParsed: try takes what the form of a command requires, with each option once, and with
// all options that go together. It takes neither less nor more.
func wantFormParsed(t *testing.T, title string, try parse, form string) {
	t.Helper()
	takes := func(argv [][]byte) {
		t.Helper()
		if _, err := try(argv); err != nil {
			t.Errorf("%s %q: %v", title, argv, err)
		}
	}
	refuses := func(argv [][]byte, what string) {
		t.Helper()
		if _, err := try(argv); err == nil {
			t.Errorf("%s takes %s", title, what)
		}
	}
	must, options, _ := strings.Cut(form, " [")
	required := exampleOf(must)
	var all [][]byte
	for _, option := range optionsOf("[" + options) {
		argv := slices.Concat(required, exampleOf(option))
		takes(argv)
		refuses(slices.Concat(argv, exampleOf(option)), option+" twice")
		refuses(append(argv, []byte("more")), "more than its form")
		// of KEYS, SHARED and LIMIT a command takes one
		if !strings.HasPrefix(option, "KEYS") && !strings.HasPrefix(option, "SHARED") {
			all = append(all, exampleOf(option)...)
		}
	}
	takes(required)
	takes(slices.Concat(required, all))
	refuses(required[:len(required)-1], "less than its form")
}

// optionsOf returns the options in a form like [A | B n] [C x [D]]: A, B n, C x D.
func optionsOf(form string) (all []string) {
	for option := range strings.SplitSeq(form, "] [") {
		option = strings.NewReplacer("[", "", "]", "").Replace(option)
		all = append(all, strings.Split(option, " | ")...)
	}
	return all
}

// exampleOf returns arguments of a form without brackets.
func exampleOf(form string) (argv [][]byte) {
	example := strings.NewReplacer("n key ...", "2 other third", "key", "job", "ttl", "5000", "timeout", "10s", "label",
		"me", "token", "0000000000000001:"+strings.Repeat("0", 40), "SINCE fence", "SINCE 7", "LIMIT n", "LIMIT 3").Replace(form)
	for word := range strings.FieldsSeq(example) {
		argv = append(argv, []byte(word))
	}
	return argv
}

// TestDocsHelp: the reference has a section for each subcommand that LOCKPROXY HELP lists, with
// the same form, and each counter of LOCKPROXY INFO.
func TestDocsHelp(t *testing.T) {
	page := reference(t)
	angles := strings.NewReplacer("<", "", ">", "")
	for _, line := range helpLines[1:] {
		if strings.HasPrefix(line, " ") {
			continue
		}
		name, _, more := strings.Cut(line, " ")
		want := "\n### LOCKPROXY " + name + "\n"
		if more {
			want += "\n`LOCKPROXY " + angles.Replace(line) + "`\n"
		}
		if !strings.Contains(page, want) {
			t.Errorf("the reference lacks%s", want)
		}
	}
	s := New(Options{Locker: &fakeLocker{}, Inspector: &fakeLocker{}, MaxTTL: time.Minute})
	t.Cleanup(s.Close)
	for line := range strings.FieldsSeq(s.info()) {
		if name, _, counter := strings.Cut(line, ":"); counter && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the reference does not explain the counter %s", name)
		}
	}
}
