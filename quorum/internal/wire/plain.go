package wire

import (
	"strings"
	"unicode"
)

// maxPlain bounds what is quoted of a server's words.
const maxPlain = 160

// Plain makes text of a server fit for one line of an error or a log: at most 160 bytes of it,
// with a blank in place of whatever does not print.
func Plain(text string) string {
	if len(text) > maxPlain {
		text = text[:maxPlain]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(text))
}
