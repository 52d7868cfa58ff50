package plain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// bareRunes need no quotes in an argument.
const bareRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,-="

// Arg returns text as an argument of a command for redis-cli. Without control characters,
// backslashes, single quotes and bytes that are not UTF-8 it is one for a shell, too.
func Arg(text string) string {
	bare, quotable := text != "", utf8.ValidString(text)
	for _, r := range text {
		bare = bare && strings.ContainsRune(bareRunes, r)
		quotable = quotable && unicode.IsPrint(r) && r != '\'' && r != '\\'
	}
	switch {
	case bare:
		return text
	case quotable:
		return "'" + text + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch part := text[at : at+size]; {
		case r == '"' || r == '\\':
			b.WriteString(`\` + part)
		case unicode.IsPrint(r) && (r != utf8.RuneError || size > 1):
			b.WriteString(part)
		default:
			for _, c := range []byte(part) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
		at += size
	}
	return b.String() + `"`
}
