package commands

import (
	"fmt"
	"strings"

	"lockproxy/plain"
)

// Syntax errors begin with Redis' words and go on with the cause. Words of the client are
// printable and at most 160 bytes long in them.

// errSyntax is the reply to options that do not go together.
func errSyntax(format string, args ...any) error {
	return fmt.Errorf("ERR syntax error: "+format, args...)
}

// errMissing is the reply to an option without its value.
func errMissing(option, value string) error { return errSyntax("%s needs %s", option, value) }

// errTwice is the reply to an option that comes a second time.
func errTwice(option string) error { return errSyntax("%s is given twice", option) }

// errWord is the reply to a word that is none of the options of name.
func errWord(name, wrote string, options []string) error {
	shown := plain.Short(wrote)
	if near := plain.Nearest(wrote, options); near != "" {
		return fmt.Errorf("ERR syntax error near '%s': did you mean %s?", shown, near)
	}
	return fmt.Errorf("ERR syntax error near '%s': %s takes %s", shown, name, list(options))
}

// list joins words: "A", "A and B", "A, B and C".
func list(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
