package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the top folder of the project.
const root = "../.."

// block is the text between two fences of a page.
type block struct {
	kind string // from the opening fence: sh, text, transcript
	line int    // of the opening fence, from 1
	text []string
}

// blocks reads a page, by its path below root.
func blocks(t *testing.T, path string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for i, line := range strings.Split(string(text), "\n") {
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			all = append(all, block{kind: kind, line: i + 1})
			inside = true
		case fence:
			inside = false
		case inside:
			b := &all[len(all)-1]
			b.text = append(b.text, line)
		}
	}
	return all
}

// tokens maps the tokens of a page to those of this run.
type tokens struct {
	real map[string]string // by token and by fence of the page; addresses, too
}

func newTokens() tokens { return tokens{real: make(map[string]string)} }

var tokenForm = regexp.MustCompile(`\b[0-9]{16}:[0-9a-f]{40}\b`)

// resolve replaces the page's tokens and fences in a line by those of this run.
func (k tokens) resolve(line string) string {
	pages := slices.Collect(maps.Keys(k.real))
	slices.SortFunc(pages, func(a, b string) int { return len(b) - len(a) }) // long ones first, because a token contains its fence
	for _, page := range pages {
		line = strings.ReplaceAll(line, page, k.real[page])
	}
	return line
}

// learn takes the token in got for the one in want. Each token of the page means one token of
// this run.
func (k tokens) learn(want, got string) {
	page, is := tokenForm.FindString(want), tokenForm.FindString(got)
	if page == "" || is == "" || k.real[page] != "" {
		return
	}
	k.real[page] = is
	k.real[page[:16]] = strings.TrimLeft(is[:16], "0")
}

// matches reports whether got is as the page shows it in want: the same, except for tokens, for
// times over a second, which may differ by a fifth, and for "...", which matches any text.
func (k tokens) matches(want, got string) bool {
	k.learn(want, got)
	want = k.resolve(want)
	if want == got {
		return true
	}
	shown, err1 := strconv.Atoi(strings.TrimPrefix(want, ":"))
	is, err2 := strconv.Atoi(strings.TrimPrefix(got, ":"))
	if err1 == nil && err2 == nil && shown > 1000 && shown < 1_000_000 {
		return is*5 > shown*4 && is*5 < shown*6
	}
	parts := strings.Split(want, "...")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return len(parts) > 1 && regexp.MustCompile("^"+strings.Join(parts, ".*")+"$").MatchString(got)
}
