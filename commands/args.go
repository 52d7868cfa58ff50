package commands

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum"
)

// maxKey is the longest key, in bytes.
const maxKey = 1024

// maxLabel is the longest owner label, in bytes.
const maxLabel = 64

// args are the parsed arguments of a command. Each command uses some.
type args struct {
	key     string
	keys    []string // of KEYS: further keys
	token   quorum.Token
	ttl     time.Duration
	keep    time.Duration // of KEEP; 0: without
	timeout time.Duration // of wait; 0: no limit
	owner   string
	since   uint64 // of SINCE
	sub     string // of LOCKPROXY, in lower case; "help" of LOCK HELP
	proxy   *proxyArgs

	mode    quorum.Mode // of LOCK
	limit   uint8       // of LIMIT
	wait    bool
	session bool
	full    bool
	share   bool // EXTEND with SHARED
	blocks  bool // Begin cannot run it
}

// help is the sub of LOCK HELP and LOCKPROXY HELP.
const help = "help"

// allKeys returns the keys that the command names.
func (a *args) allKeys() []string { return append([]string{a.key}, a.keys...) }

// argParser parses commands. It knows the limits of their arguments.
type argParser struct{ *sharedOptions }

func errArity(name string) error {
	return fmt.Errorf("ERR wrong number of arguments for '%s' command", name)
}

func (p *argParser) parseKey(b []byte) (string, error) {
	switch {
	case len(b) == 0:
		return "", errors.New("ERR invalid key: it is empty")
	case len(b) > maxKey:
		return "", fmt.Errorf("ERR invalid key: it is longer than %d bytes", maxKey)
	case strings.HasPrefix(p.opts.KeyPrefix+string(b), quorum.ReservedPrefix):
		return "", fmt.Errorf("ERR invalid key: names that begin with %s are lockproxy's own", quorum.ReservedPrefix)
	}
	return string(b), nil
}

func parseToken(b []byte) (quorum.Token, error) {
	if len(b) == 0 {
		return quorum.Token{}, errors.New("ERR invalid token: it is empty: did LOCK answer null?")
	}
	token, err := quorum.ParseToken(b)
	if err != nil {
		return token, errors.New("ERR invalid token: it must be 16 decimal digits, a colon and 40 lower-case hex digits")
	}
	return token, nil
}

func parseLabel(b []byte) (string, error) {
	switch {
	case len(b) == 0:
		return "", errors.New("ERR invalid owner: it is empty")
	case len(b) > maxLabel:
		return "", fmt.Errorf("ERR invalid owner: it is longer than %d bytes", maxLabel)
	case !validLabel(string(b)):
		return "", errors.New("ERR invalid owner: it must be printable ASCII")
	}
	return string(b), nil
}

// validLabel reports whether an owner label has a form that LOCKINFO may show.
func validLabel(s string) bool {
	return len(s) <= maxLabel && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// parseTTL parses the ttl of the command called name, and checks it against the limits.
func (p *argParser) parseTTL(name string, b []byte) (time.Duration, error) {
	ms, ok := plain.ParseMillis(b)
	shortest, longest := p.now().MinTTL, p.opts.MaxTTL
	if ok && ms > 0 && shortest.Milliseconds() <= ms && ms <= longest.Milliseconds() {
		return millis(ms), nil
	}
	allowed := plain.Duration(shortest) + " to " + plain.Duration(longest)
	switch {
	case !ok || ms == 0:
		return 0, fmt.Errorf("ERR invalid expire time in '%s' command: %s, from %s", name, timeForm, allowed)
	case ms < shortest.Milliseconds():
		return 0, fmt.Errorf("ERR ttl %d is under min-ttl %d: %s, and %s is allowed",
			ms, shortest.Milliseconds(), tooShort(ms, b), allowed)
	}
	return 0, fmt.Errorf("ERR ttl %d exceeds max-ttl %d: %s, and %s is allowed",
		ms, longest.Milliseconds(), tooLong(ms, b, shortest), allowed)
}

// timeForm is what an error says about the form of a time.
const timeForm = "want digits, which are milliseconds, or digits with ms, s, m or h (30s, 1m30s)"

// tooLong explains b, which was read as ms: perhaps it is a Duration of Go without a unit, which
// counts nanoseconds.
func tooLong(ms int64, b []byte, shortest time.Duration) string {
	nanos := time.Duration(ms)
	if withoutUnit(b) && nanos >= shortest && nanos <= 24*time.Hour {
		return fmt.Sprintf("is it in nanoseconds? %dns are %s", ms, plain.Duration(nanos))
	}
	if ms > maxMillis {
		return "it is more than 292 years"
	}
	return "it is " + plain.Duration(millis(ms))
}

// tooShort explains b, which was read as ms: perhaps the client meant seconds.
func tooShort(ms int64, b []byte) string {
	if withoutUnit(b) {
		return fmt.Sprintf("it is %dms (%d seconds are %ds)", ms, ms, ms)
	}
	return "it is " + plain.Duration(millis(ms))
}

func withoutUnit(b []byte) bool { return '0' <= b[len(b)-1] && b[len(b)-1] <= '9' }

// maxMillis is the most that a Duration holds: 292 years.
const maxMillis = math.MaxInt64 / int64(time.Millisecond)

func millis(ms int64) time.Duration { return time.Duration(min(ms, maxMillis)) * time.Millisecond }

// parseTimeout parses the timeout of WAIT of the command called name. It reads a timeout of more
// than 292 years as 292 years, the most that a Duration holds.
func parseTimeout(name string, b []byte) (time.Duration, error) {
	ms, ok := plain.ParseMillis(b)
	if !ok {
		return 0, fmt.Errorf("ERR invalid timeout in '%s' command: %s", name, timeForm)
	}
	return millis(ms), nil
}
