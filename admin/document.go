package admin

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"

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
	return []byte(documentHead + toHTML(docs.Operations) + "</main>\n</body>\n</html>\n")
})

var (
	picture  = regexp.MustCompile(`<img [^>]*>`)
	link     = regexp.MustCompile(`(?s)<a href="([^"]*)">(.*?)</a>`)
	alertRow = regexp.MustCompile(`<tr>(\s*<td><code>(Lockproxy\w+)</code></td>)`)
)

// toHTML turns Markdown into HTML. Links to other documents become plain text, because only this
// one is served; pictures are left out.
func toHTML(markdown string) string {
	var b bytes.Buffer
	converter := goldmark.New(goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	if err := converter.Convert([]byte(markdown), &b); err != nil {
		panic(err) // a buffer takes all
	}
	text := picture.ReplaceAllString(b.String(), "")
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		if strings.HasPrefix(parts[1], "#") || strings.HasPrefix(parts[1], "https://") {
			return found
		}
		return parts[2]
	})
	return alertRow.ReplaceAllString(text, `<tr id="$2">$1`)
}
