package admin

import (
	"regexp"
	"strings"
	"testing"

	"lockproxy/docs"
)

// TestDocumentHTML: links to other documents and pictures are left out, alerts have anchors, and
// HTML in a document is text.
func TestDocumentHTML(t *testing.T) {
	for text, want := range map[string]string{
		"## When a `master` restarts": `<h2 id="when-a-master-restarts">When a <code>master</code> restarts</h2>`,
		"[a `b`\nc](#d), [e](f.md), [g](https://h/), ![i](j.png)": "<p><a href=\"#d\">a <code>b</code>\nc</a>, e, " +
			`<a href="https://h/">g</a>, </p>`,
		"| `LockproxyLate` | z |\n|---|---|\n| `LockproxyLate` | z |": `<tr id="LockproxyLate">`,
		"[a](javascript:alert(1)) <script>":                           "<p>a <!-- raw HTML omitted --></p>",
	} {
		if got := toHTML(text); !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
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
