package admin

import (
	"regexp"
	"strings"
	"testing"

	"lockproxy/docs"
)

func TestMarkup(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"heading", "## When a `master` restarts",
			`<h2 id="when-a-master-restarts">When a <code>master</code> restarts</h2>`},
		{"paragraph", "one\ntwo **bold**, *soft* <b>\n\nthree",
			"<p>one two <strong>bold</strong>, <em>soft</em> &lt;b&gt;</p>\n<p>three</p>"},
		{"links", "[a `b`\nc](#d), [e](f.md), [g](https://h/), ![i](j.png)",
			`<p><a href="#d">a <code>b</code> c</a>, e, <a href="https://h/">g</a>, </p>`},
		{"code", "```sh\na <b> `c`\n\nd\n```\ne", "<pre>a &lt;b&gt; `c`\n\nd</pre>\n<p>e</p>"},
		{"lists", "* one\n  more\n* `*`\n\n1. two\n2. three",
			"<ul>\n<li>one more</li>\n<li><code>*</code></li>\n</ul>\n" +
				"<ol>\n<li>two</li>\n<li>three</li>\n</ol>"},
		{"table", "| a | |\n|---|---|\n| `x \\| y` | [s](#t) |\n| `LockproxyLate` | z |",
			"<table>\n<tr><th>a</th><th></th></tr>\n<tr><td><code>x | y</code></td><td><a href=\"#t\">s</a></td></tr>\n" +
				"<tr id=\"LockproxyLate\"><td><code>LockproxyLate</code></td><td>z</td></tr>\n</table>"},
		{"hostile link", "[a](javascript:alert(1)) [b](#\"onclick=\"x)", `<p>a) <a href="#&#34;onclick=&#34;x">b</a></p>`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.TrimSpace(markup(tt.text)); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestOperationsDocument: the document is served with an anchor for each alert, all its links lead
// somewhere, and no Markdown is left in it.
func TestOperationsDocument(t *testing.T) {
	w := newFixture(t, nil).ask("GET", "/operations", nil)
	page := w.Body.String()
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("got %d %q", w.Code, w.Header())
	}
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("two anchors are named %s", m[1])
		}
		ids[m[1]] = true
	}
	for _, alert := range alertNames(t) {
		if !ids[alert] {
			t.Errorf("%s has no anchor", alert)
		}
	}
	links := regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1)
	for _, m := range links {
		if !ids[m[1]] {
			t.Errorf("a link leads to #%s, which is not there", m[1])
		}
	}
	if len(links) < 30 {
		t.Errorf("got %d links", len(links))
	}
	text := regexp.MustCompile(`(?s)<pre>.*?</pre>|<code>.*?</code>|<[^>]*>`).ReplaceAllString(page, "")
	if left := regexp.MustCompile("(?m)^.*(`|\\]\\(|\\*\\*|\\|---).*$").FindAllString(text, -1); left != nil {
		t.Errorf("Markdown is left: %q", left)
	}
	headings := regexp.MustCompile(`(?m)^#+ `).FindAllString(docs.Operations, -1)
	if got, want := strings.Count(page, "<h"), len(headings); got < want {
		t.Errorf("got %d headings, want %d", got, want)
	}
}
