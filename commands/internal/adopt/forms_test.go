package adopt

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"

	"lockproxy/integration/redistest"
)

func TestOneForm(t *testing.T) {
	for _, c := range []struct{ name, a, b string }{
		{"line ends and blanks", "if KEYS[1] then return 1 end", "if\tKEYS[\n1]\r\nthen  return\t1 end\n"},
		{"comments", "return 1", "-- mine\nreturn --[[ long\n]] 1 --[==[ ]] ]==] -- end"},
		{"comment at the end of the body", "return 1", "return 1--"},
		{"quotes", `return redis.call("get", KEYS[1])`, `return redis.call('get', KEYS[1])`},
		{"quotes within quotes", `return "it's \"x\""`, `return 'it\'s "x"'`},
		{"escapes", `return "a\010b\092"`, `return 'a\nb\\'`},
		{"case of commands", `redis.call("SET", "k")`, `redis.call("sEt", "k")`},
		{"case of commands of pcall", `redis.pcall("SET")`, `redis.pcall("set")`},
		{"names of locals", "local a = 1 local b = a return b", "local x = 1 local y = x return y"},
		{"a local with the name that forms use", "local v2 = 1 local v1 = 2 return v2", "local a = 1 local b = 2 return a"},
		{"a local with the name of a global", `local KEYS = ARGV return KEYS[1]`, `local a = ARGV return a[1]`},
		{"shadowed locals", "local a = 1 do local a = 2 end return a", "local a = 1 do local b = 2 end return a"},
		{"a local that its own value does not see", "local a = 1 local a = a return a", "local a = 1 local b = a return b"},
		{"names of loops", "for i, k in ipairs(KEYS) do return k end", "for _, v in ipairs(KEYS) do return v end"},
		{"the last of two locals of a name", "local a, a = 1, 2 return a", "local b, c = 1, 2 return c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, okA := formOf(c.a)
			b, okB := formOf(c.b)
			if !okA || !okB || a != b {
				t.Errorf("forms differ or are missing:\n%s\n%s", a, b)
			}
		})
	}
}

func TestTwoForms(t *testing.T) {
	for _, c := range []struct{ name, a, b string }{
		{"numbers", "return 0", "return 1"},
		{"signs", "return 1", "return -1"},
		{"a string and a number", `return "0"`, "return 0"},
		{"spellings of a number", "return 1", "return 1.0"},
		{"blanks in strings", `return "a b"`, `return "a  b"`},
		{"comments in strings", `return "a -- b"`, `return "a"`},
		{"comments in strings that go on", "return \"--[[\" .. KEYS[1] --]]", `return "--[["`},
		{"case of other strings", `redis.call("set", "K")`, `redis.call("set", "k")`},
		{"case of strings that are no commands", `return "SET"`, `return "set"`},
		{"case of what is not all of the command", `redis.call("SET" .. "X")`, `redis.call("set" .. "X")`},
		{"case of letters that Redis does not know", `redis.call("É")`, `redis.call("é")`},
		{"bytes that are no letters", "redis.call(\"\xc9\")", "redis.call(\"\xe9\")"},
		{"case of commands of a local redis", `local redis = KEYS redis.call("A")`, `local redis = KEYS redis.call("a")`},
		{"case of commands of a member redis", `return string.redis.call("A")`, `return string.redis.call("a")`},
		{"case of commands of another function", `return redis.status_reply("OK")`, `return redis.status_reply("ok")`},
		{"case of commands of a result", `redis.x.call("A")`, `redis.x.call("a")`},
		{"KEYS and ARGV", "return KEYS[1]", "return ARGV[1]"},
		{"indexes", "return ARGV[1]", "return ARGV[2]"},
		{"call and pcall", `redis.call("del")`, `redis.pcall("del")`},
		{"operators", "return 1 == 2", "return 1 ~= 2"},
		{"parentheses", "return (1 + 2) * 3", "return 1 + 2 * 3"},
		{"order", "local a = 1 local b = 2 return a", "local a = 1 local b = 2 return b"},
		{"swapped locals", "local a, b = KEYS, ARGV return a[1]", "local b, a = KEYS, ARGV return a[1]"},
		{"shadowed locals", "local a = 1 do local a = 2 end return a", "local a = 1 do local b = 2 return b end return a"},
		{"a local that is in scope", "local a = 1 do local b = 2 return a end", "local a = 1 do local a = 2 return a end"},
		{"a local that the condition sees", "local a = 1 while a do local a = 2 end",
			"local a = 1 local b = 1 while b do local c = 2 end"},
		{"bounds of a loop", "local i = 5 for i = i, 9 do return i end", "local i = 5 for j = 5, 9 do return j end"},
		{"one more local", "return 1", "local a return 1"},
		{"semicolons", "local a = 1; return a", "local a = 1 return a"},
		{"members", "return string.sub", "return string.len"},
		{"a member and a string", "return KEYS.a", `return KEYS["a"]`},
		{"a member and a local", "local a = 1 return KEYS.a", "local a = 1 return KEYS[a]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, okA := formOf(c.a)
			b, okB := formOf(c.b)
			if !okA || !okB || a == b {
				t.Errorf("one form, or none:\n%s\n%s", a, b)
			}
		})
	}
}

// bodiesWithoutForm have no form, for the reason that is their name.
var bodiesWithoutForm = map[string]string{
	"global":                        "return x",
	"global that forms use":         "local a = 1 return v1",
	"assignment to a global":        "KEYS = 1",
	"assignment to a new global":    "x = 1",
	"assignment to a member":        "redis.call = 1",
	"assignment to an index":        "local r = redis r['call'] = 1",
	"second target is no local":     "local a a, redis = 1, 2",
	"function":                      "local f = function() end",
	"local function":                "local function f() end",
	"method":                        `return ("x"):len()`,
	"call with a string":            `redis.call "get"`,
	"call with a table":             `redis.call {}`,
	"call on the next line":         "redis.call\n('get')",
	"call after a long comment":     "redis.call --[[\n]] ('get')",
	"statement in parentheses":      "local a = 1 (redis.call)('get')",
	"goto":                          "goto a",
	"label":                         "::a:: return 1",
	"goto as a name":                "local goto = 1",
	"repeat":                        "repeat local a = 1 until a",
	"variable arguments":            "return ...",
	"long string":                   "return [[x]]",
	"long string of level 1":        "return [=[x]=]",
	"long string as an index":       "return KEYS[[[x]]]",
	"escape that Lua 5.1 has not":   `return "\x41"`,
	"escape with few digits":        `return "\65"`,
	"escape that is too large":      `return "\256"`,
	"escaped line end":              "return \"a\\\nb\"",
	"string over a line end":        "return \"a\nb\"",
	"open string":                   `return "a`,
	"open escape":                   `return "a\`,
	"open long comment":             "return 1 --[[",
	"long comment in a long one":    "--[[ [[ ]] return 1",
	"hexadecimal number":            "return 0x10",
	"exponent":                      "return 1e3",
	"fraction without a digit":      "return .5",
	"number and name":               "return 1and 2",
	"number and dots":               "return 1..2",
	"zero byte":                     "return '\x00'",
	"zero byte in a comment":        "return 1 -- \x00",
	"shebang":                       "#!lua flags=no-writes\nreturn 1",
	"byte order mark":               "\ufeffreturn 1",
	"letter that is not ASCII":      "local é = 1",
	"table with names":              "return {a = 1}",
	"table with indexes":            "return {[1] = 1}",
	"table with semicolons":         "return {1; 2}",
	"statement after return":        "return 1 local a = 1",
	"end too many":                  "return 1 end",
	"end too few":                   "if 1 then return 1",
	"else twice":                    "if 1 then else else end",
	"break outside a loop":          "break",
	"expression":                    "1",
	"index without a call":          "KEYS[1]",
	"empty statement":               "; return 1",
	"loop with one bound":           "for i = 1 do end",
	"loop with two names":           "for i, j = 1, 2 do end",
	"keyword as a member":           "return KEYS.end",
	"bitwise operator":              "return 1 & 2",
	"integer division":              "return 1 // 2",
	"form feed":                     "return\f1",
	"binary chunk":                  "\x1bLua",
	"deep parentheses":              "return " + strings.Repeat("(", 60) + "1" + strings.Repeat(")", 60),
	"deep blocks":                   strings.Repeat("do ", 60) + strings.Repeat("end ", 60),
	"very deep parentheses":         "return " + strings.Repeat("(", 10_000),
	"many operators without an end": "return " + strings.Repeat("-", 1) + strings.Repeat("not ", 2000),
	"long":                          "return 1" + strings.Repeat(" ", longestBody),
}

func TestNoForm(t *testing.T) {
	for name, body := range bodiesWithoutForm {
		t.Run(name, func(t *testing.T) {
			if form, ok := formOf(body); ok {
				t.Errorf("a form: %s", form)
			}
		})
	}
}

func TestScriptsAreShownWithoutTheirTexts(t *testing.T) {
	for body, want := range map[string]string{
		`redis.call('HSET', KEYS[1], "secret", 5)`: `redis . call ( "hset" , KEYS [ ? ] , "?" , ? )`,
		`local pw = "secret" return pw`:            `local v1 = "?" return v1`,
		`return redis.call("my secret!", 1)`:       `return redis . call ( "?" , ? )`,
		"return cjson.encode(KEYS[1])":             `return cjson . encode ( KEYS [ ? ] )`,
		`x = "secret" y = [[rest]]`:                `x = "?" y =`,
		"":                                         "",
		"return " + strings.Repeat(`"a" .. `, 90):  `return` + strings.Repeat(` "?" ..`, 27) + ` "?"`,
	} {
		t.Run(body, func(t *testing.T) {
			got := masked(body)
			if !strings.HasPrefix(got, want) || len(got) > 200 || len(want) < 100 && got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// run runs body on gopher-lua with a fake of redis, whose results depend on seed. It returns what
// happened. ended is false if that took too long.
func run(body string, seed int) (what string, ended bool) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true, CallStackSize: 64, RegistrySize: 4096})
	defer state.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	state.SetContext(ctx)
	for _, lib := range []lua.LGFunction{lua.OpenBase, lua.OpenString} {
		state.Push(state.NewFunction(lib))
		state.Call(0, 0)
	}
	limited := state.NewTable()
	for _, name := range []string{"sub", "len"} {
		limited.RawSetString(name, state.GetGlobal("string").(*lua.LTable).RawGetString(name))
	}
	state.SetGlobal("string", limited)
	var log strings.Builder
	fake := state.NewTable()
	for _, name := range []string{"call", "pcall"} {
		fake.RawSetString(name, state.NewFunction(func(s *lua.LState) int { return call(s, &log, name, seed) }))
	}
	fake.RawSetString("status_reply", state.NewFunction(func(s *lua.LState) int {
		s.Push(lua.LString("status " + s.ToString(1)))
		return 1
	}))
	state.SetGlobal("redis", fake)
	for _, name := range []string{"KEYS", "ARGV"} {
		list := state.NewTable()
		for i := range 3 {
			list.Append(lua.LString(fmt.Sprint(name, i)))
		}
		state.SetGlobal(name, list)
	}
	function, err := state.LoadString(body)
	if err != nil {
		return "does not compile", true
	}
	state.Push(function)
	if err := state.PCall(0, 1, nil); err != nil {
		fmt.Fprint(&log, "error")
		return log.String(), ctx.Err() == nil
	}
	fmt.Fprint(&log, show(state.Get(-1), 3))
	return log.String(), true
}

// call is redis.call: Redis does not mind the case of a command.
func call(s *lua.LState, log *strings.Builder, name string, seed int) int {
	fmt.Fprintf(log, "%s(%s", name, lowerASCII(show(s.Get(1), 2)))
	for i := 2; i <= s.GetTop(); i++ {
		fmt.Fprintf(log, ", %s", show(s.Get(i), 2))
	}
	fmt.Fprintln(log, ")")
	hash := fnv.New32()
	fmt.Fprint(hash, log.Len(), seed)
	switch hash.Sum32() % 6 {
	case 0:
		s.Push(lua.LFalse)
	case 1:
		s.Push(lua.LString("ARGV0"))
	case 2:
		s.Push(lua.LString("other"))
	default:
		s.Push(lua.LNumber(hash.Sum32()%6) - 3)
	}
	return 1
}

func show(v lua.LValue, depth int) string {
	table, ok := v.(*lua.LTable)
	switch {
	case !ok && v.Type() == lua.LTFunction:
		return "function"
	case !ok:
		return v.Type().String() + " " + v.String()
	case depth == 0:
		return "..."
	}
	var fields []string
	table.ForEach(func(k, v lua.LValue) { fields = append(fields, show(k, 0)+": "+show(v, depth-1)) })
	slices.Sort(fields)
	return "{" + strings.Join(fields, ", ") + "}"
}

// respell returns body with other blanks, quotes and comments.
func respell(tokens []token, seed int) string {
	var b strings.Builder
	for i, t := range tokens {
		spelled := t.String()
		if t.kind == kindText && (seed+i)%2 == 0 {
			spelled = "'" + strings.ReplaceAll(spelled[1:len(spelled)-1], "'", `\'`) + "'"
		}
		b.WriteString(spelled)
		blank := []string{" ", "\t ", " --[==[ ]] ]==] ", "\n", " -- x\n", "\r\n"}[(seed*7+i*5)%6]
		if i+1 < len(tokens) && tokens[i+1].is("(") {
			blank = []string{"", " --[[-]]"}[(seed+i)%2]
		}
		b.WriteString(blank)
	}
	return b.String()
}

// FuzzForm: a body with a form compiles, its form has the same form and behaves alike, and so do
// other spellings.
func FuzzForm(f *testing.F) {
	for _, r := range library {
		f.Add(r.body, 1)
	}
	for _, body := range []string{
		"local a = 1 while a < 3 do a = a + 1 if a == 2 then break end end return a",
		"local a, b = KEYS, {1, 'x', {2}} for i = 1, #b do local a = b[i] return a, b end",
		`return redis.call('GET' .. "x", -1 % 2 ^ 3, not nil and "a\"\\\n" or (ARGV[1] .. 'b'))`,
		"local redis = {KEYS} local KEYS = redis[1] return KEYS[1]",
		"return string.sub(ARGV[1], 1, -2) == string.len('x')",
	} {
		f.Add(body, 2)
	}
	var client *redis.Client
	if _, err := exec.LookPath("redis-server"); err == nil || os.Getenv("CI") != "" {
		s := redistest.Start(f)
		client = redis.NewClient(&redis.Options{Network: s.Network, Addr: s.Addr})
		f.Cleanup(func() { _ = client.Close() })
	}
	f.Fuzz(func(t *testing.T, body string, seed int) { checkForm(t, client, body, seed) })
}

// checkForm checks the form of body, if it has one. client may be nil.
func checkForm(t *testing.T, client *redis.Client, body string, seed int) {
	t.Helper()
	_ = masked(body)
	form, ok := formOf(body)
	if !ok {
		return
	}
	if again, ok := formOf(form); !ok || again != form {
		t.Fatalf("the form of\n%s\nhas another: %v\n%s", form, ok, again)
	}
	tokens, _ := lex(body)
	other := respell(tokens, seed&1023)
	if again, ok := formOf(other); !ok || again != form {
		t.Fatalf("another spelling\n%s\nhas another form: %v\n%s\n%s", other, ok, again, form)
	}
	if client != nil {
		if err := client.ScriptLoad(t.Context(), body).Err(); err != nil {
			t.Fatalf("%q has a form, but Redis says %v", body, err)
		}
	}
	for _, spelling := range []string{form, other} {
		for seed := range 4 {
			compareRuns(t, body, spelling, seed)
		}
	}
}

func compareRuns(t *testing.T, a, b string, seed int) {
	t.Helper()
	didA, endedA := run(a, seed)
	didB, endedB := run(b, seed)
	if endedA && endedB && didA != didB {
		t.Fatalf("one form:\n%s\n%s\nbut with the seed %d they do\n%s\nand\n%s", a, b, seed, didA, didB)
	}
	if didA == "does not compile" {
		t.Fatalf("%s\ndoes not compile", a)
	}
}
