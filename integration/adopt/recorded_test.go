package adopt

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// Libraries that cannot be installed here, for Java, .NET and Ruby: their commands are replayed,
// on one Redis and at the lock listener. Their scripts come from a folder with checkouts of their
// repositories, if ADOPT_SOURCES names one; else from the product's table of forms.

// recording lists the commands of two clients of a library, a and b.
type recording struct {
	name     string
	fallback string // the answer of the client to NOSCRIPT: EVAL or LOAD; ALWAYS: it sends EVAL at once
	library  string // as the table of forms calls it
	file     string // the end of the path of the file with its scripts
	scripts  map[string]script
	steps    []string // see replay.step
	newer    bool     // the reference lacks a command of it
}

// script is the text of a script, or its place in the sources of the library.
type script struct {
	text    string
	row     string                   // its name in the table of forms
	file    string                   // if it is not that of the recording
	pattern string                   // its first group is the script in the file
	edit    func(text string) string // as the library does before it sends it; nil: unchanged
}

// The scripts of https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ and the
// same for an expiry.
var (
	deleteIfEqual  = ifEqual(`redis.call("del",KEYS[1])`)
	pexpireIfEqual = ifEqual(`redis.call("pexpire",KEYS[1],ARGV[2])`)
)

func ifEqual(do string) script {
	return script{text: "if redis.call(\"get\",KEYS[1]) == ARGV[1] then\n    return " + do + "\nelse\n    return 0\nend"}
}

var recordings = []recording{
	{
		name: "by hand", steps: []string{
			"a SET K 1 NX EX 30 = +OK", "b SET K 1 NX EX 30 = null", "b EXISTS K = :1", "b TTL K = ttl",
			"b PTTL K = ttl", "a EXPIRE K 28 = :1", "a PEXPIRE K 29000 = :1", "a DEL K = :1", "a DEL K = :0",
			"b GET K = null", "b PTTL K = :-2", "b set K 2 px 30000 nx = +OK", "a GET K = 2", "b UNLINK K = :1",
		},
	},
	{
		name: "by hand, with the script of Redis' page", fallback: "ALWAYS",
		scripts: map[string]script{"del": deleteIfEqual, "pexpire": pexpireIfEqual},
		steps: []string{
			"a SET K va NX PX 30000 = +OK", "b SET K vb NX PX 30000 = null", "b :pexpire K vb 28000 = :0",
			"a :pexpire K va 28000 = :1", "a PTTL K = ttl", "b :del K vb = :0",
			"a :del K va = :1", "a :del K va = :0", "b SET K vb NX PX 30000 = +OK", "b :del K vb = :1",
		},
	},
	{
		name: "ShedLock over Jedis", steps: []string{
			"a SET K va NX PX 30000 = +OK", "b SET K vb NX PX 30000 = null", "a SET K va XX PX 29000 = +OK",
			"a PTTL K = ttl", "a DEL K = :1", "a SET K va XX PX 29000 = null", "b SET K vb NX PX 30000 = +OK",
			"b DEL K = :1",
		},
	},
	{
		name: "ShedLock with safeUpdate", fallback: "ALWAYS", library: "ShedLock", file: "InternalRedisLockProvider.java",
		scripts: map[string]script{
			"del": {row: "delLuaScript", pattern: `(?s)delLuaScript\s*=\s*"""\n(.*?)"""`, edit: dedent},
			"upd": {row: "updLuaScript", pattern: `(?s)updLuaScript\s*=\s*"""\n(.*?)"""`, edit: dedent},
		},
		steps: []string{
			"a SET K va NX PX 30000 = +OK", "b SET K vb NX PX 30000 = null", "b :upd K vb 28000 = :0",
			"a :upd K va 28000 = :1", "b :del K vb = :0", "a :del K va = :1", "a :del K va = :0",
		},
	},
	{
		name: "Spring's RedisLockRegistry", fallback: "EVAL", library: "Spring Integration", file: "RedisLockRegistry.java",
		scripts: map[string]script{
			"obtain": {row: "OBTAIN_LOCK_SCRIPT", pattern: `(?s)String OBTAIN_LOCK_SCRIPT = """\n(.*?)"""`, edit: dedent},
			"renew":  {row: "RENEW_SCRIPT", pattern: `(?s)String RENEW_SCRIPT = """\n(.*?)"""`, edit: dedent},
			"unlock": {
				row: "UNLINK_UNLOCK_SCRIPT of RedisSpinLock", edit: dedent,
				pattern: `(?s)class RedisSpinLock .*?String UNLINK_UNLOCK_SCRIPT = """\n(.*?)"""`,
			},
		},
		steps: []string{
			"a :obtain K va 30000 = :1", "b :obtain K vb 30000 = null", "a :obtain K va 30000 = :1",
			"a :renew K va 28000 = :1", "b :renew K vb 28000 = null", "b :unlock K vb = null", "a :unlock K va = :1",
			"a :unlock K va = null", "a :renew K va 28000 = null", "b :obtain K vb 30000 = :1", "a PTTL K = ttl",
			"b :unlock K vb = :1",
		},
	},
	{
		name: "RedLock.net", fallback: "LOAD", library: "RedLock.net",
		scripts: map[string]script{
			"extend": {row: "Extend.lua", file: "SERedis/Lua/Extend.lua", pattern: "(?s)^(?:\ufeff)?(.*)$"},
			"unlock": {row: "Unlock.lua", file: "SERedis/Lua/Unlock.lua", pattern: "(?s)^(?:\ufeff)?(.*)$"},
		},
		steps: []string{
			"a SET K va EX 30 NX = +OK", "b SET K vb EX 30 NX = null", "a :extend K va 28000 = :1",
			"b :extend K vb 28000 = :-1", "b :unlock K vb = :0", "a :unlock K va = :1", "a :unlock K va = :0",
			"b :extend K vb 28000 = :1", "b PTTL K = ttl", "b :unlock K vb = :1",
		},
	},
	{
		name: "DistributedLock.Redis", fallback: "LOAD", library: "DistributedLock.Redis", file: "RedisMutexPrimitive.cs",
		scripts: map[string]script{
			"extend":  {row: "TryExtendScript", pattern: `(?s)TryExtendScript = new\(\$@"(.*?)"\);`, edit: placed},
			"release": {row: "ReleaseScript", pattern: `(?s)ReleaseScript = new\(\$@"(.*?)"\);`, edit: placed},
		},
		steps: []string{
			"a SET K va EX 30 NX = +OK", "b SET K vb EX 30 NX = null", "a :extend K va 28000 = :1",
			"b :extend K vb 28000 = :0", "b :release K vb = :0", "a :release K va = :1", "a :release K va = :0",
		},
	},
	{
		name: "redlock-rb", fallback: "LOAD", library: "redlock-rb", file: "redlock/scripts.rb",
		scripts: map[string]script{
			"lock":   {row: "LOCK_SCRIPT", pattern: `(?s) LOCK_SCRIPT = <<-eos\n(.*?) *eos`},
			"unlock": {row: "UNLOCK_SCRIPT", pattern: `(?s) UNLOCK_SCRIPT = <<-eos\n(.*?) *eos`},
			"pttl":   {row: "PTTL_SCRIPT", pattern: `(?s) PTTL_SCRIPT = <<-eos\n(.*?) *eos`},
		},
		steps: []string{
			"a :lock K va 30000 yes = +OK", "b :lock K vb 30000 yes = null", "a :lock K va 28000  = +OK",
			"b :lock K vb 28000  = null", "b :pttl K = [va ttl]", "b :unlock K vb = :0", "a :unlock K va = :1",
			"a :unlock K va = :0", "a :lock K va 28000  = null", "b :pttl K = [null :-2]",
		},
	},
	{
		name: "RedBeat", fallback: "LOAD", library: "RedBeat", file: "redbeat/schedulers.py",
		scripts: map[string]script{
			"extend": {row: "LUA_EXTEND_TO_SCRIPT", pattern: `(?s)LUA_EXTEND_TO_SCRIPT = """(.*?)"""`},
		},
		steps: []string{
			"a SET K va NX PX 20000 = +OK", "b SET K vb NX PX 20000 = null", "b :extend K vb 29000 = :0",
			"a :extend K va 29000 = :1", "b PTTL K = ttl", "a GET K = va", "a DEL K = :1",
			"a :extend K va 29000 = :0",
		},
	},
	{
		name: "Dapr", fallback: "ALWAYS", library: "Dapr components-contrib", file: "lock/redis/standalone.go",
		scripts: map[string]script{
			"unlock": {row: "unlockScript", pattern: `unlockScript\s*=\s*"(.*)"`, edit: unquoted},
		},
		steps: []string{
			"a SET K va EX 30 NX = +OK", "b SET K vb EX 30 NX = null", "b :unlock K vb = :-2", "a :unlock K va = :1",
			"a :unlock K va = :-1",
		},
	},
	{
		name: "Laravel 13", fallback: "ALWAYS", library: "Laravel", file: "Cache/LuaScripts.php",
		scripts: map[string]script{
			"release": {row: "releaseLock", pattern: `(?s)function releaseLock.*?<<<'LUA'\n(.*?)\n *LUA`},
			"refresh": {row: "refreshLock", pattern: `(?s)function refreshLock.*?<<<'LUA'\n(.*?)\n *LUA`},
		},
		steps: []string{
			"a SET K va EX 30 NX = +OK", "b SET K vb EX 30 NX = null", "b :refresh K vb 28 = :0",
			"a :refresh K va 28 = :1", "a PTTL K = ttl", "b GET K = va", "b :release K vb = :0",
			"a :release K va = :1", "a :refresh K va 28 = :0",
		},
	},
	{
		name: "StackExchange.Redis with Redis 8.4", newer: true, steps: []string{
			"a SET K va EX 30 NX = +OK", "b SET K vb EX 30 NX = null", "b DELEX K IFEQ vb = :0",
			"a SET K va IFEQ va EX 28 = +OK", "b SET K vb IFEQ vb EX 28 = null", "a PTTL K = ttl",
			"a DELEX K IFEQ va = :1", "a DELEX K IFEQ va = :0",
		},
	},
}

// dedent removes the indentation like Java in a text block.
func dedent(text string) string {
	lines := strings.Split(text, "\n")
	indent := -1
	for i, line := range lines {
		left := len(line) - len(strings.TrimLeft(line, " \t"))
		if (left < len(line) || i == len(lines)-1) && (indent < 0 || left < indent) {
			indent = left
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(line[min(indent, len(line)):], " \t")
	}
	return strings.Join(lines, "\n")
}

// unquoted reads a string of Go.
func unquoted(text string) string {
	value, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		return err.Error()
	}
	return value
}

// placed inserts the parameters and removes blanks like DistributedLock.
func placed(text string) string {
	text = strings.NewReplacer("{key}", "KEYS[1]", "{lockId}", "ARGV[1]", "{expiryMillis}", "ARGV[2]").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}

// load returns the texts of the scripts.
func (r recording) load(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for name, s := range r.scripts {
		switch {
		case s.text != "":
			texts[name] = s.text
		case os.Getenv("ADOPT_SOURCES") != "":
			texts[name] = s.fromSource(t, cmp.Or(s.file, r.file))
		default:
			texts[name] = fromTable(t, r.library, s.row)
		}
	}
	return texts
}

func (s script) fromSource(t *testing.T, file string) string {
	t.Helper()
	found := regexp.MustCompile(s.pattern).FindStringSubmatch(source(t, file))
	if found == nil {
		t.Fatalf("%s: got no match of %s", file, s.pattern)
	}
	if s.edit != nil {
		return s.edit(found[1])
	}
	return found[1]
}

// fromTable returns the text of a row of the table of forms, which has no exported face. It skips
// the test if the table is not there.
func fromTable(t *testing.T, library, row string) (body string) {
	t.Helper()
	const table = "../../commands/internal/adopt/library.go"
	file, err := parser.ParseFile(token.NewFileSet(), table, nil, parser.SkipObjectResolution)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok || len(literal.Elts) < 2 {
			return true
		}
		name, rest, _ := strings.Cut(text(literal.Elts[0]), ": ")
		if strings.HasPrefix(name, library+" ") && rest == row {
			body = text(literal.Elts[len(literal.Elts)-1])
		}
		return true
	})
	if body == "" {
		t.Fatalf("%s: got no row %s of %s, and ADOPT_SOURCES names no folder", table, row, library)
	}
	return body
}

// text returns the value of a string in Go's source, "" of other expressions.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	case *ast.BasicLit:
		value, _ := strconv.Unquote(e.Value)
		return value
	}
	return ""
}

// source returns the text of a file of ADOPT_SOURCES by the end of its path.
func source(t *testing.T, suffix string) (found string) {
	t.Helper()
	err := filepath.WalkDir(os.Getenv("ADOPT_SOURCES"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, suffix) {
			return err
		}
		file, err := os.ReadFile(path)
		found = string(file)
		return cmp.Or(err, fs.SkipAll)
	})
	if err != nil || found == "" {
		t.Skipf("ADOPT_SOURCES: got no %s (%v)", suffix, err)
	}
	return found
}

// replay sends a recording to one place.
type replay struct {
	recording
	key     string
	texts   map[string]string
	clients map[string]*lab.Client // a and b
}

// step sends "a SET K v EX 30 NX = +OK" and returns the reply, shortened. ":name" calls a script
// with one key. K is the key; two blanks are an empty argument.
func (r *replay) step(step string) (got, want string) {
	command, want, _ := strings.Cut(step, " = ")
	args := strings.Split(command, " ")
	for i := range args {
		if args[i] == "K" {
			args[i] = r.key
		}
	}
	client, args := r.clients[args[0]], args[1:]
	name, isScript := strings.CutPrefix(args[0], ":")
	if !isScript {
		return short(client.Do(args...)), want
	}
	text := r.texts[name]
	eval := append([]string{"EVAL", text, "1"}, args[1:]...)
	if r.fallback == "ALWAYS" {
		return short(client.Do(eval...)), want
	}
	digest := sha1.Sum([]byte(text))
	evalsha := append([]string{"EVALSHA", hex.EncodeToString(digest[:]), "1"}, args[1:]...)
	reply := client.Do(evalsha...)
	switch {
	case !strings.HasPrefix(reply, "-NOSCRIPT "):
	case r.fallback == "EVAL":
		reply = client.Do(eval...)
	default:
		client.WantDo(lab.Bulk(evalsha[1]), "SCRIPT", "LOAD", text)
		reply = client.Do(evalsha...)
	}
	return short(reply), want
}

// short returns a reply as recordings have it. The rest of a ttl of 19 to 30 seconds is "ttl": the
// other proxy may see fewer masters with a later end than the one that set it.
func short(frame string) string {
	switch frame {
	case lab.Null2, lab.Null3:
		return "null"
	}
	switch frame[0] {
	case '*':
		var list []string
		for _, element := range lab.Elements(frame) {
			list = append(list, short(element))
		}
		return "[" + strings.Join(list, " ") + "]"
	case '$':
		return lab.Scalar(frame)
	}
	text := strings.TrimSuffix(frame, "\r\n")
	n, err := strconv.Atoi(strings.TrimPrefix(text, ":"))
	if err == nil && (19 <= n && n <= 30 || 19_000 <= n && n <= 30_000) {
		return "ttl"
	}
	return text
}

func TestRecordedLibraries(t *testing.T) {
	t.Parallel()
	one := lab.StartRedis(t)
	d := startAdopted(t, lab.Config{Flags: []string{"--restart-guard", "off"}})
	for _, r := range recordings {
		t.Run(r.name, func(t *testing.T) {
			texts := r.load(t)
			type dialer func(t testing.TB, addr string) *lab.Client
			for protocol, dial := range map[string]dialer{"RESP2": lab.Dial, "RESP3": lab.Dial3} {
				key := "lock:" + strings.ReplaceAll(r.name, " ", "-") + ":" + protocol
				here := &replay{r, key, texts, map[string]*lab.Client{"a": dial(t, one.Addr), "b": dial(t, one.Addr)}}
				there := &replay{r, key, texts, map[string]*lab.Client{"a": dial(t, d.near), "b": dial(t, d.far)}}
				there.run(t, protocol)
				if !r.newer {
					here.run(t, "on Redis, "+protocol)
				}
			}
		})
	}
	wantNoLocks(t, d.Upstream)
}

// run plays the steps of a recording.
func (p *replay) run(t *testing.T, where string) {
	t.Helper()
	for _, step := range p.steps {
		if got, want := p.step(step); got != want {
			t.Errorf("%s: %s: got %s", where, step, got)
		}
	}
}

// Libraries that would keep a lock at the upstream, or for ever, get an error that says so, and
// the connection goes on.
func TestRefusedLibraries(t *testing.T) {
	t.Parallel()
	d := startAdopted(t, lab.Config{Flags: []string{"--restart-guard", "off"}})
	c := lab.Dial(t, d.near)
	for _, refused := range []struct{ library, text, command string }{
		{"redis-py without timeout", "no expiry, add PX or EX, or set adopt-ttl", "SET K v NX"},
		{"Laravel's lock of 0 seconds", "no expiry, add PX or EX, or set adopt-ttl", "SETNX K v"},
		{"a cache", "SET without NX or XX", "SET K v EX 30"},
		{"Redisson", "'hset' is not a lock command", "HSET K thread 1"},
		{"Symfony", "'zadd' is not a lock command", "ZADD K 1 v"},
		{"BullMQ", "'incr' is not a lock command", "INCR K"},
		{"simple-redis-mutex", "one key a command", "DEL K lock:other"},
		{"a lock beside data", "one key a command", "DEL data K"},
		{"StackExchange LockRelease before 8.4", "'watch' is not a lock command", "WATCH K"},
	} {
		t.Run(refused.library, func(t *testing.T) {
			args := strings.Fields(strings.ReplaceAll(" "+refused.command+" ", " K ", " lock:refused "))
			want := "-ERR lock key 'lock:refused': " + refused.text + "\r\n"
			if got := lab.Dial(t, d.near).Do(args...); got != want {
				t.Errorf("%q: got %q, want %q", args, got, want)
			}
		})
	}
	c.WantDo("-ERR ttl 3600000 exceeds max-ttl 60000: it is 1h, and 10ms to 60s is allowed\r\n",
		"SET", "lock:refused", "v", "PX", "3600000", "NX")
	unknown := "return redis.call('hset', KEYS[1], ARGV[1], 1)"
	digest := sha1.Sum([]byte(unknown))
	want := "-ERR lock key 'lock:refused': unknown script " + hex.EncodeToString(digest[:]) + ", see docs/adopting.md\r\n"
	c.WantDo(want, "EVAL", unknown, "1", "lock:refused", "v")
	c.WantDo("+OK\r\n", "SET", "data", "1")
	wantNoLocks(t, d.Upstream)

	// The libraries themselves show that error.
	programs := newPrograms(t)
	for _, l := range installed(t, func(l library) bool { return l.forever }) {
		r := &run{library: l, programs: programs, key: keyOf(l, "refused")}
		got := r.client(d.near).acquire(r.key, 0, 0)
		if got.Yes || !l.silent && !strings.Contains(got.Error, "no expiry, add PX or EX, or set adopt-ttl") {
			t.Errorf("%s without a ttl: got %v, want the error of the lock listener", l.name, got)
		}
		r.report(t, "without a ttl")
	}
}
