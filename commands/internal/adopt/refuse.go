package adopt

import (
	"fmt"
	"strings"

	"lockproxy/plain"
)

// Reason is why a command on a lock key is refused: a label of lockproxy_adopt_refused_total.
// The zero value is not counted.
type Reason string

const (
	ReasonNoExpiry    Reason = "no_expiry"
	ReasonTTL         Reason = "ttl"
	ReasonScript      Reason = "script"
	ReasonCommand     Reason = "command"
	ReasonKeys        Reason = "keys"
	ReasonTransaction Reason = "transaction"
	ReasonValue       Reason = "value"
)

// Refusal is why the proxy does not carry out a command on a lock key.
type Refusal struct {
	Text   string // the error reply without its dash
	Reason Reason
	Key    string // printable; empty: the command has none
	SHA1   string // of a script that no row knows
	Form   string // of such a script: the first 200 bytes of its form, with literals masked
}

// Error returns the error reply without its dash.
func (r *Refusal) Error() string { return r.Text }

// longestShown is how many bytes of a key refusals show.
const longestShown = 64

// refuse returns the refusal of a command on key, which is nil if the command has none.
func refuse(key []byte, reason Reason, format string, args ...any) *Refusal {
	text := fmt.Sprintf(format, args...)
	if key == nil {
		return &Refusal{Text: "ERR " + text, Reason: reason}
	}
	shown := printable(key)
	return &Refusal{Text: "ERR lock key '" + shown + "': " + text, Reason: reason, Key: shown}
}

// printable returns at most 64 bytes of b as part of a line.
func printable(b []byte) string {
	return plain.Line(strings.ToValidUTF8(string(b[:min(len(b), longestShown)]), ""))
}

// refuseCommand refuses a command that is none on locks. name is in lower case.
func refuseCommand(key []byte, name string) *Refusal {
	return refuse(key, ReasonCommand, "'%s' is not a lock command", printable([]byte(name)))
}

// noScript is the answer to EVALSHA of a body that the table has not seen: the library sends it.
func noScript() *Refusal { return &Refusal{Text: "NOSCRIPT No matching script. Please use EVAL."} }

func refuseArity(name string) *Refusal {
	return &Refusal{Text: "ERR wrong number of arguments for '" + name + "' command", Reason: ReasonCommand}
}

func refuseSyntax() *Refusal { return &Refusal{Text: "ERR syntax error", Reason: ReasonCommand} }

func refuseNumber() *Refusal {
	return &Refusal{Text: "ERR value is not an integer or out of range", Reason: ReasonTTL}
}
