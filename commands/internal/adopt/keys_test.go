package adopt

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/redistest"
)

// words returns the arguments that blanks separate in line.
func words(line string) (argv [][]byte) {
	for word := range strings.FieldsSeq(line) {
		argv = append(argv, []byte(word))
	}
	return argv
}

// only returns the pattern that matches key alone.
func only(t testing.TB, key string) Patterns {
	t.Helper()
	return patterns(t, strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(key))
}

func patterns(t testing.TB, text string) Patterns {
	t.Helper()
	p, err := ParsePatterns(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// requestsWithKeys are requests and their keys.
var requestsWithKeys = []struct{ line, keys string }{
	{"GET k1", "k1"},
	{"get", ""},
	{"SET k1 v EX 10", "k1"},
	{"UNHEARDOF k1 a", "k1"},
	{"unheardof", ""},
	{"MSET k1 v k2 v", "k1 k2"},
	{"MSETEX 2 k1 v k2 v EX 10", "k1 k2"},
	{"MSETEX 3 k1 v k2", "k1 v k2"}, // fewer than the number says
	{"EVAL body 1 k1 a b", "k1"},
	{"EVAL body 0 a b", ""},
	{"EVAL body x a b", "a b"},
	{"EVAL body -1 a b", "a b"},
	{"EVAL body 3 k1 k2", "k1 k2"},
	{"EVAL body 99999999999999999999 k1 k2", "k1 k2"},
	{"EVAL body", ""},
	{"FCALL f 2 k1 k2 a", "k1 k2"},
	{"ZUNIONSTORE k1 2 k2 k3 WEIGHTS 1 2", "k1 k2 k3"},
	{"BLPOP k1 k2 5", "k1 k2"},
	{"BITOP AND k1 k2", "k1 k2"},
	{"XREAD COUNT 1 BLOCK 0 STREAMS k1 k2 0 $", "k1 k2"},
	{"XREADGROUP GROUP streams streams NOACK STREAMS k1 >", "k1"},
	{"XREADGROUP CLAIM 5 GROUP g c STREAMS k1 k2 > >", "k1 k2"},
	{"XREAD WHAT STREAMS k1 0", "WHAT STREAMS k1 0"},
	{"SORT k1 BY store GET store LIMIT 0 1 STORE k2", "k1 k2"},
	{"SORT_RO k1 BY w", "k1"},
	{"MIGRATE host 6379 k1 0 5000 COPY", "k1"},
	{"MIGRATE host 6379 k9 0 5000 AUTH2 keys keys KEYS k1 k2", "k9 k1 k2"},
	{"GEORADIUS k1 1 2 3 m STOREDIST k2", "k1 k2"},
	{"GEORADIUSBYMEMBER k1 m 3 m STORE k2", "k1 k2"},
	{"MEMORY USAGE k1 SAMPLES 5", "k1"},
	{"MEMORY DOCTOR", ""},
	{"OBJECT ENCODING k1", "k1"},
	{"OBJECT HELP", ""},
	{"XINFO STREAM k1 FULL", "k1"},
	{"XGROUP CREATE k1 g $", "k1"},
	{"DEBUG OBJECT k1", "k1"},
	{"DEBUG DIGEST-VALUE k1 k2", "k1 k2"},
	{"DEBUG SLEEP 1", ""},
	{"PUBLISH c m", ""},
	{"SSUBSCRIBE c d", ""},
	{"SCAN 0 MATCH k1", ""},
	{"CONFIG GET save", ""},
	{"SCRIPT LOAD body", ""},
	{"JSON.MGET k1 k2 $.a", "k1 k2"},
	{"XREADGROUP\x00x GROUP g", "GROUP g"}, // Redis may take it for XREADGROUP
}

func TestVerdictDependsOnKeysOnly(t *testing.T) {
	for _, c := range requestsWithKeys {
		t.Run(c.line, func(t *testing.T) {
			argv := words(c.line)
			keys := strings.Fields(c.keys)
			for _, arg := range argv[1:] {
				want := Pass
				if slices.Contains(keys, string(arg)) {
					want = Own
				}
				if got := only(t, string(arg)).Judge(argv, len(argv), false); got != want {
					t.Errorf("with the lock key %s: verdict %d, want %d", arg, got, want)
				}
			}
		})
	}
}

func TestJudgePrefix(t *testing.T) {
	for _, c := range []struct {
		line  string
		total int
		full  bool
		want  Judgement
	}{
		{"", 2, false, More},
		{"", 2, true, Own},
		{"", 0, false, Pass},
		{"GET", 2, false, More},
		{"GET lock:1", 2, false, Own},
		{"GET data", 2, false, Pass},
		{"SET data", 5, false, Pass}, // before its value has come
		{"SET", 3, true, Pass},       // its key begins after 64 KB
		{"PING", 2, false, Pass},
		{"EVAL", 4, false, More},
		{"EVAL", 4, true, Own}, // the script is too long
		{"EVAL body", 4, false, More},
		{"EVAL body", 4, true, Own},
		{"EVAL body 1", 4, false, More},
		{"EVAL body 1", 4, true, Pass}, // its key is
		{"EVAL body 1 data", 6, false, Pass},
		{"EVAL body 2 data", 6, false, More},
		{"EVAL body 2 lock:1", 6, false, Own},
		{"MSET data v", 5, false, More},
		{"MSET data v", 5, true, Pass},
		{"SORT data", 4, false, More},
		{"SORT data STORE", 4, false, More},
		{"SORT data STORE lock:1", 4, false, Own},
		{"XREAD STREAMS data 0", 4, false, Pass},
		{"XREAD STREAMS data", 6, false, More},
		{"MEMORY", 3, false, More},
		{"MEMORY DOCTOR", 3, false, Pass},
	} {
		t.Run(fmt.Sprintf("%s of %d full=%v", c.line, c.total, c.full), func(t *testing.T) {
			if got := patterns(t, "lock:*,x").Judge(words(c.line), c.total, c.full); got != c.want {
				t.Errorf("verdict %d, want %d", got, c.want)
			}
		})
	}
}

func TestJudgeIfAllKeysAreLocks(t *testing.T) {
	for line, want := range map[string]Judgement{
		"HELLO 3": Pass, "AUTH p": Pass, "CLIENT SETINFO LIB-NAME x": Pass, "PING": Pass, "ECHO a": Pass, "INFO": Pass,
		"COMMAND DOCS": Pass, "CONFIG GET save": Pass, "config get save": Pass, "ROLE": Pass, "TIME": Pass,
		"SELECT 1": Pass, "QUIT": Pass, "RESET": Pass, "READONLY": Pass, "SCRIPT LOAD x": Pass, "PUBLISH c m": Pass,
		"SUBSCRIBE c": Pass, "PSUBSCRIBE c": Pass, "SSUBSCRIBE c": Pass, "UNSUBSCRIBE": Pass, "PUNSUBSCRIBE": Pass,
		"SUNSUBSCRIBE": Pass, "MULTI": Pass, "EXEC": Pass, "DISCARD": Pass,

		"CONFIG SET save x": Own, "CONFIG": Own, "FLUSHDB": Own, "FLUSHALL": Own, "KEYS *": Own, "SCAN 0": Own,
		"GET x": Own, "EVAL body 0": Own, "MONITOR": Own, "WATCH x": Own, "SPUBLISH c m": Own, "UNHEARDOF": Own,
		"DEBUG SLEEP 1": Own, "PING\x00": Own, "a-name-longer-than-every-name-of-a-command": Own,
	} {
		t.Run(line, func(t *testing.T) {
			p, argv := patterns(t, "lock:*,*"), words(line)
			if got := p.Judge(argv, len(argv), false); got != want {
				t.Errorf("verdict %d, want %d", got, want)
			}
		})
	}
	if got := patterns(t, "*").Judge(words("CONFIG"), 3, false); got != More {
		t.Errorf("CONFIG alone of three: verdict %d, want more", got)
	}
}

// TestKeysAreWhereTablesSay compares Judge with the tables of servers that may not be installed.
// See TestKeysAreWhereServersSay for keys that options and numbers determine.
func TestKeysAreWhereTablesSay(t *testing.T) {
	table, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if !strings.HasPrefix(line, "#") {
			t.Run(strings.TrimSpace(line), func(t *testing.T) { compareWithTable(t, line) })
		}
	}
}

// compareWithTable compares Judge with a line such as "memory|usage 2 2 1".
func compareWithTable(t *testing.T, line string) {
	t.Helper()
	var name, movable string
	var first, last, step int
	if n, err := fmt.Sscan(line, &name, &first, &last, &step, &movable); n < 4 {
		t.Fatal(err)
	}
	argv := words(strings.Replace(name, "|", " ", 1))
	for len(argv) < 9 {
		argv = append(argv, fmt.Appendf(nil, "key:%d", len(argv)))
	}
	if last < 0 {
		last += len(argv)
	}
	keys := map[int]bool{}
	for i := first; first > 0 && i <= last; i += step {
		keys[i] = true
	}
	for i, arg := range argv {
		got := only(t, string(arg)).Judge(argv, len(argv), false) == Own
		if got != keys[i] && (movable == "" || keys[i]) {
			t.Errorf("%q: argument %d is a key: %v, want %v", argv, i, got, keys[i])
		}
	}
	if where := places[name]; movable != "" && where.options == nil && where.count == 0 && name != "sort_ro" {
		t.Errorf("only the first keys of %s are known", name)
	}
}

// servers runs f with a client of each server whose table of commands counts.
func servers(t *testing.T, f func(t *testing.T, client *redis.Client)) {
	for _, server := range []struct{ name, variable, program string }{
		{"redis", "", ""},
		{"redis8", "REDIS8_SERVER", "redis-server-8"},
		{"valkey", "VALKEY_SERVER", "valkey-server"},
	} {
		t.Run(server.name, func(t *testing.T) {
			if server.variable != "" {
				path, err := exec.LookPath(server.program)
				if named := os.Getenv(server.variable); named != "" {
					path, err = named, nil
				}
				if err != nil {
					t.Skipf("%s is not installed, and %s names no other", server.program, server.variable)
				}
				t.Setenv("LOCKPROXY_TEST_REDIS", path)
			}
			s := redistest.Start(t)
			client := redis.NewClient(&redis.Options{Network: s.Network, Addr: s.Addr})
			t.Cleanup(func() { _ = client.Close() })
			f(t, client)
		})
	}
}

// someArgument is an argument of a random request: a key, a number, or a word that matters to the
// positions of keys.
func someArgument(r *rand.Rand, i int) string {
	switch r.IntN(5) {
	case 0:
		return fmt.Sprint(r.IntN(5) - 1)
	case 1:
		return []string{"STORE", "STOREDIST", "STREAMS", "streams", "GROUP", "COUNT", "BLOCK", "NOACK", "KEYS", "AUTH",
			"AUTH2", "COPY", "LIMIT", "GET", "BY", "WEIGHTS", "ASC"}[r.IntN(17)]
	}
	return fmt.Sprintf("key:%d", i)
}

// TestKeysAreWhereServersSay compares Judge with COMMAND GETKEYS: random arguments for every
// command that a server has.
func TestKeysAreWhereServersSay(t *testing.T) {
	servers(t, func(t *testing.T, client *redis.Client) {
		names := commandNames(t, client)
		r := rand.New(rand.NewPCG(1, 2))
		compared := 0
		for _, name := range names {
			for range 2 {
				compared += compareKeys(t, client, r, name, 100)
			}
		}
		if compared < 20*len(names) {
			t.Errorf("the server named keys of %d requests with %d commands only", compared, len(names))
		}
		t.Logf("%d commands, %d requests with keys", len(names), compared)
	})
}

// commandNames returns the names of all commands, with their subcommands after a blank.
func commandNames(t *testing.T, client *redis.Client) (names []string) {
	t.Helper()
	all, err := client.Do(t.Context(), "COMMAND").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range all {
		fields := command.([]any)
		names = append(names, fields[0].(string))
		for _, sub := range fields[9].([]any) {
			names = append(names, strings.Replace(sub.([]any)[0].(string), "|", " ", 1))
		}
	}
	slices.Sort(names)
	return names
}

// compareKeys compares n random requests, and returns of how many the server named keys.
func compareKeys(t *testing.T, client *redis.Client, r *rand.Rand, name string, n int) (compared int) {
	t.Helper()
	var requests [][]string
	var answers []*redis.Cmd
	pipe := client.Pipeline()
	for range n {
		request := strings.Fields(name)
		for i := range r.IntN(9) {
			request = append(request, someArgument(r, i))
		}
		args := []any{"COMMAND", "GETKEYS"}
		for _, word := range request {
			args = append(args, word)
		}
		requests, answers = append(requests, request), append(answers, pipe.Do(t.Context(), args...))
	}
	_, _ = pipe.Exec(t.Context())
	for i, answer := range answers {
		keys, err := answer.StringSlice()
		if err != nil || name == "spublish" || name == "ssubscribe" || name == "sunsubscribe" {
			continue // it has none, or channels
		}
		compared++
		checkKeys(t, requests[i], keys)
	}
	return compared
}

// checkKeys fails if Judge does not find one of keys, or finds another. Judge may take more
// for keys if the server will refuse the request: it finds none, or options are wrong.
func checkKeys(t *testing.T, request, keys []string) {
	t.Helper()
	argv := words(strings.Join(request, " "))
	refused := len(keys) == 0 || strings.HasPrefix(request[0], "xread") ||
		strings.Count(strings.Join(request, " "), "STORE") > 1
	for _, arg := range request[1:] {
		got, isKey := only(t, arg).Judge(argv, len(argv), false), slices.Contains(keys, arg)
		switch {
		case isKey && got != Own:
			t.Errorf("%q: key %s is missed", request, arg)
		case !isKey && got != Pass && !refused && strings.HasPrefix(arg, "key:"):
			t.Errorf("%q: %s is no key", request, arg)
		}
	}
}

// TestJudgeDoesNotChangeItsMind: with more arguments a verdict stays.
func TestJudgeDoesNotChangeItsMind(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	names := []string{"get", "unheardof", "setnx"}
	for name := range places {
		names = append(names, name)
	}
	p := patterns(t, "key:[135]")
	for _, name := range names {
		for range 200 {
			argv := words(name)
			for i := range r.IntN(9) {
				argv = append(argv, []byte(someArgument(r, i)))
			}
			whole := p.Judge(argv, len(argv), false)
			if whole == More {
				t.Fatalf("%q: no verdict", argv)
			}
			for n := range argv {
				if got := p.Judge(argv[:n], len(argv), false); got != More && got != whole {
					t.Fatalf("%q: verdict %d after %d arguments, then %d", argv, got, n, whole)
				}
			}
		}
	}
}
