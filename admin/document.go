package admin

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"lockproxy/docs"
)

// serveOperations serves the operations document, to which the problems on the page refer. Each
// alert has its name as anchor.
func serveOperations(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(operationsPage())
}

const documentHead = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Running lockproxy</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page/page.css">
</head>
<body>
<main class="document">
<p class="hint"><a href="./">The page of this proxy</a></p>
`

var operationsPage = sync.OnceValue(func() []byte {
	return []byte(documentHead + markup(docs.Operations) + "</main>\n</body>\n</html>\n")
})

var (
	heading  = regexp.MustCompile(`^(#{1,4}) (.*)$`)
	listItem = regexp.MustCompile(`^(\*|\d+\.) (.*)$`)
	alertRow = regexp.MustCompile("^\\| `(Lockproxy\\w+)` \\|")
	tableBar = regexp.MustCompile(`^\|[-|]+\|$`)
)

// markup turns the part of Markdown that our documents use into HTML: headings, paragraphs, lists
// without lists in them, tables and fenced code.
func markup(text string) string {
	var b strings.Builder
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		rest := lines[i:]
		switch line := lines[i]; {
		case line == "":
			i++
		case strings.HasPrefix(line, "```"):
			n := 1
			for n < len(rest) && rest[n] != "```" {
				n++
			}
			fmt.Fprintf(&b, "<pre>%s</pre>\n", html.EscapeString(strings.Join(rest[1:n], "\n")))
			i += n + 1
		case heading.MatchString(line):
			m := heading.FindStringSubmatch(line)
			fmt.Fprintf(&b, "<h%d id=%q>%s</h%[1]d>\n", len(m[1]), anchor(m[2]), inline(m[2]))
			i++
		default:
			n := 1
			for n < len(rest) && rest[n] != "" && !strings.HasPrefix(rest[n], "```") {
				n++
			}
			block(&b, rest[:n])
			i += n
		}
	}
	return b.String()
}

// block writes lines without an empty one between them: a table, a list or a paragraph.
func block(b *strings.Builder, lines []string) {
	switch first := listItem.FindStringSubmatch(lines[0]); {
	case strings.HasPrefix(lines[0], "|"):
		table(b, lines)
	case first != nil:
		tag := "ol"
		if first[1] == "*" {
			tag = "ul"
		}
		fmt.Fprintf(b, "<%s>\n", tag)
		item := ""
		for _, line := range slices.Concat(lines, []string{"* "}) {
			m := listItem.FindStringSubmatch(line)
			if m == nil {
				item += " " + strings.TrimSpace(line)
				continue
			}
			if item != "" {
				fmt.Fprintf(b, "<li>%s</li>\n", inline(item))
			}
			item = m[2]
		}
		fmt.Fprintf(b, "</%s>\n", tag)
	default:
		fmt.Fprintf(b, "<p>%s</p>\n", inline(strings.Join(lines, " ")))
	}
}

func table(b *strings.Builder, lines []string) {
	b.WriteString("<table>\n")
	tag := "th"
	for _, line := range lines {
		if tableBar.MatchString(line) {
			tag = "td"
			continue
		}
		b.WriteString("<tr")
		if m := alertRow.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(b, " id=%q", m[1])
		}
		b.WriteString(">")
		cells := strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00")
		for cell := range strings.SplitSeq(cells, "|") {
			cell = inline(strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
			fmt.Fprintf(b, "<%s>%s</%[1]s>", tag, cell)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>\n")
}

// span is code, a picture, a link, or text in bold or italics.
var spans = regexp.MustCompile("`([^`]+)`|!\\[[^]]*\\]\\([^)]*\\)|\\[((?:[^]`]|`[^`]*`)+)\\]\\(([^)\\s]+)\\)|" +
	`\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*`)

// inline turns the text of a block into HTML. Links to other documents become plain text, because
// only this one is served; pictures are left out.
func inline(text string) string {
	var b strings.Builder
	for {
		at := spans.FindStringSubmatchIndex(text)
		if at == nil {
			b.WriteString(html.EscapeString(text))
			return b.String()
		}
		group := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return text[at[2*n]:at[2*n+1]]
		}
		b.WriteString(html.EscapeString(text[:at[0]]))
		switch target := group(3); {
		case group(1) != "":
			fmt.Fprintf(&b, "<code>%s</code>", html.EscapeString(group(1)))
		case strings.HasPrefix(target, "#"), strings.HasPrefix(target, "https://"):
			fmt.Fprintf(&b, `<a href="%s">%s</a>`, html.EscapeString(target), inline(group(2)))
		case target != "":
			b.WriteString(inline(group(2)))
		case group(4) != "":
			fmt.Fprintf(&b, "<strong>%s</strong>", inline(group(4)))
		case group(5) != "":
			fmt.Fprintf(&b, "<em>%s</em>", inline(group(5)))
		}
		text = text[at[1]:]
	}
}

// anchor returns the name that GitHub gives a heading.
func anchor(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	return b.String()
}
