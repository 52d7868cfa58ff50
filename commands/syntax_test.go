package commands

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"

	"lockproxy/plain"
)

const (
	lockTakes   = "LOCK takes KEYS, SHARED, LIMIT, WAIT, SESSION, OWNER and FULL"
	extendTakes = "EXTEND takes KEYS, SHARED, SESSION and FULL"
	unlockTakes = "UNLOCK takes KEYS and KEEP"
	infoTakes   = "LOCKINFO takes SINCE and WAIT"
	locksTakes  = "LOCKPROXY LOCKS takes MATCH and COUNT"
)

// syntaxErrors are commands of wrong form, and what their reply says after "ERR syntax error".
var syntaxErrors = map[string]string{
	"LOCK a 5s SHARD":             " near 'SHARD': did you mean SHARED?",
	"LOCK a 5s sesion":            " near 'sesion': did you mean SESSION?",
	"LOCK a 5s WIAT 5s":           " near 'WIAT': did you mean WAIT?",
	"LOCK a 5s NX":                " near 'NX': " + lockTakes,
	"LOCK a 5s PX 30000":          " near 'PX': " + lockTakes,
	"LOCK a 5s 5s":                " near '5s': " + lockTakes,
	"LOCK a 5s KEEP 5s":           " near 'KEEP': " + lockTakes,
	"LOCK a 5s SINCE 1":           " near 'SINCE': " + lockTakes,
	"LOCK a 5s KEYS 1 b c":        " near 'c': " + lockTakes,
	"LOCK a 5s \u017fhared":       " near '\u017fhared': did you mean SHARED?", // a long s is no S
	"LOCK a 5s WAIT":              ": WAIT needs a time",
	"LOCK a 5s FULL wait":         ": WAIT needs a time",
	"LOCK a 5s OWNER":             ": OWNER needs a label",
	"LOCK a 5s LIMIT":             ": LIMIT needs a number",
	"LOCK a 5s KEYS":              ": KEYS needs a number and as many keys",
	"LOCK a 5s KEYS 2 b":          ": KEYS 2 needs as many keys, but 1 follow",
	"LOCK a 5s SHARED SHARED":     ": SHARED is given twice",
	"LOCK a 5s FULL full":         ": FULL is given twice",
	"LOCK a 5s SESSION session":   ": SESSION is given twice",
	"LOCK a 5s WAIT 1 WAIT 2":     ": WAIT is given twice",
	"LOCK a 5s OWNER a OWNER b":   ": OWNER is given twice",
	"LOCK a 5s LIMIT 2 LIMIT 2":   ": LIMIT is given twice",
	"LOCK a 5s KEYS 1 b KEYS 1 c": ": KEYS is given twice",
	"LOCK a 5s SHARED LIMIT 2":    ": SHARED and LIMIT exclude each other",
	"LOCK a 5s LIMIT 2 SHARED":    ": LIMIT and SHARED exclude each other",
	"LOCK a 5s LIMIT 2 KEYS 1 b":  ": LIMIT and KEYS exclude each other",
	"LOCK a 5s KEYS 1 b LIMIT 2":  ": KEYS and LIMIT exclude each other",
	"LOCK a 5s SHARED KEYS 1 b":   ": SHARED and KEYS exclude each other",
	"LOCK a 5s KEYS 1 b SHARED":   ": KEYS and SHARED exclude each other",

	"UNLOCK a $ x":               " near 'x': " + unlockTakes,
	"UNLOCK a $ KEP 5s":          " near 'KEP': did you mean KEEP?",
	"UNLOCK a $ WAIT 5s":         " near 'WAIT': " + unlockTakes,
	"UNLOCK a $ SHARED":          " near 'SHARED': " + unlockTakes,
	"UNLOCK a $ KEEP":            ": KEEP needs a time",
	"UNLOCK a $ KEEP 5s KEEP 5s": ": KEEP is given twice",
	"UNLOCK a $ KEYS 2 b":        ": KEYS 2 needs as many keys, but 1 follow",

	"EXTEND a $ 5s x":                          " near 'x': " + extendTakes,
	"EXTEND a $ 5s WAIT 1s":                    " near 'WAIT': " + extendTakes,
	"EXTEND a $ 5s LIMIT 2":                    " near 'LIMIT': " + extendTakes,
	"EXTEND a $ 5s FUL":                        " near 'FUL': did you mean FULL?",
	"EXTEND a $ 5s full full":                  ": FULL is given twice",
	"EXTEND a $ 5s SHARED SHARED":              ": SHARED is given twice",
	"EXTEND a $ 5s SHARED KEYS 1 b":            ": SHARED and KEYS exclude each other",
	"EXTEND a $ 5s SESSION SHARED KEYS 1 b":    ": SHARED and KEYS exclude each other",
	"EXTEND a $ 5s KEYS 1 b SESSION SHARED":    ": KEYS and SHARED exclude each other",
	"EXTEND a $ 5s KEYS":                       ": KEYS needs a number and as many keys",
	"LOCKINFO a b":                             " near 'b': " + infoTakes,
	"LOCKINFO a SINC 5":                        " near 'SINC': did you mean SINCE?",
	"LOCKINFO a WAIT 1s":                       ": WAIT needs SINCE and a fence",
	"LOCKINFO a SINCE":                         ": SINCE needs a fence",
	"LOCKINFO a SINCE 1 SINCE 2":               ": SINCE is given twice",
	"LOCKINFO a SINCE 1 WAIT":                  ": WAIT needs a time",
	"LOCKPROXY INFO server":                    " near 'server': LOCKPROXY INFO takes ADOPT",
	"LOCKPROXY INFO ADOPTED":                   " near 'ADOPTED': did you mean ADOPT?",
	"LOCKPROXY LOCKS 0 MATCH":                  ": MATCH needs a pattern",
	"LOCKPROXY LOCKS 0 COUNT":                  ": COUNT needs a number",
	"LOCKPROXY LOCKS 0 LIMIT 5":                " near 'LIMIT': " + locksTakes,
	"LOCKPROXY LOCKS 0 CUONT 5":                " near 'CUONT': did you mean COUNT?",
	"LOCKPROXY LOCKS 0 COUNT 5 COUNT 5":        ": COUNT is given twice",
	"LOCKPROXY LOCKS 0 MATCH j* match k*":      ": MATCH is given twice",
	"LOCK a 5s " + strings.Repeat("x ", 300):   " near 'x': " + lockTakes,
	"LOCK a 5s " + strings.Repeat("\x01", 500): " near '" + strings.Repeat(" ", 160) + "': " + lockTakes,
}

// parsers returns a service with the default limits, for its parsers.
func parsers(t *testing.T) *Service {
	t.Helper()
	service := New(Options{Locker: &fakeLocker{}, Watcher: &fakeLocker{}, Inspector: &fakeLocker{}, Gate: &fakeGate{},
		MaxTTL:  time.Minute,
		Tunable: Tunable{MinTTL: 10 * time.Millisecond, MaxWaiters: 10}})
	t.Cleanup(service.Close)
	return service
}

// argvOf splits a command; $ is a token.
func argvOf(text string) (argv [][]byte) {
	for word := range strings.SplitSeq(strings.TrimSpace(text), " ") {
		if word == "$" {
			word = aToken.String()
		}
		argv = append(argv, []byte(word))
	}
	return argv
}

func TestSyntaxErrorsNameTheCause(t *testing.T) {
	service := parsers(t)
	for send, want := range syntaxErrors {
		t.Run(send, func(t *testing.T) {
			argv := argvOf(send)
			_, err := service.commands[strings.ToLower(string(argv[0]))].parse(argv[1:])
			if got := fmt.Sprint(err); got != "ERR syntax error"+want {
				t.Errorf("%.80s: got %q, want %q", send, got, want)
			}
		})
	}
}

// TestNoErrorWithoutACause parses commands of random words: no error is bare, begins with other
// words than Redis', is long, or repeats bytes that do not print.
func TestNoErrorWithoutACause(t *testing.T) {
	service := parsers(t)
	words := strings.Fields("a b 5s 1m30s 0 1 2 15 99999999999999999999 $ KEYS SHARED LIMIT WAIT SESSION OWNER FULL KEEP SINCE " +
		"MATCH COUNT NX SHARD HELP INFO ADOPT MASTERS LOCKS RELEASE ADMIT FORCE \xff\x00\r\n ' " + strings.Repeat("long",
		300))
	random := rand.New(rand.NewPCG(1, 2))
	causes := map[string]bool{}
	for range 50_000 {
		var text []string
		for range random.IntN(9) {
			text = append(text, words[random.IntN(len(words))])
		}
		argv := argvOf(strings.Join(text, " "))
		for name, how := range service.commands {
			_, err := how.parse(argv)
			if err == nil {
				continue
			}
			got := err.Error()
			causes[strings.Join(strings.Fields(got)[:3], " ")] = true
			bare := got == "ERR syntax error" || !strings.HasPrefix(got, "ERR ")
			if bare || len(got) > 400 || strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
				t.Fatalf("%s %.200q: %q", name, text, got)
			}
		}
	}
	for _, cause := range []string{"ERR syntax error:", "ERR syntax error", "ERR wrong number", "ERR invalid key:"} {
		if !causes[cause] {
			t.Errorf("no command was refused with %q, but with %v", cause, causes)
		}
	}
	if plain.Nearest("SHARD", []string{"SHARED"}) == "" {
		t.Error("the nearest word of SHARD is not found")
	}
}
