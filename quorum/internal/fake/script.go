package fake

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"lockproxy/quorum/internal/wire"
)

// script is a Lua script. It is compiled once per process.
type script struct {
	name, sha string
	compiled  func() *lua.FunctionProto
}

func newScript(name, body string) *script {
	sum := sha1.Sum([]byte(body))
	return &script{name, hex.EncodeToString(sum[:]), sync.OnceValue(func() *lua.FunctionProto {
		chunk, err := parse.Parse(strings.NewReader(body), "@user_script")
		if err != nil {
			panic("fake: " + err.Error())
		}
		proto, err := lua.Compile(chunk, "@user_script")
		if err != nil {
			panic("fake: " + err.Error())
		}
		return proto
	})}
}

// scripts has all scripts that this process has met, and from the start those of package wire.
var scripts = struct {
	sync.Mutex
	bodies, digests map[string]*script
}{bodies: map[string]*script{}, digests: map[string]*script{}}

func init() {
	for name, body := range map[string]string{
		"packet": wire.Packet.Body, "probe": wire.Probe.Body, "learn": wire.Learn.Body, "admit": wire.Admit.Body,
	} {
		addScript(name, body)
	}
}

// addScript returns the script with that body; one that is not of package wire gets the name.
func addScript(name, body string) *script {
	scripts.Lock()
	defer scripts.Unlock()
	sc := scripts.bodies[body]
	if sc == nil {
		sc = newScript(name, body)
		scripts.bodies[body], scripts.digests[sc.sha] = sc, sc
	}
	return sc
}

// shipped returns the script of package wire that EVAL or EVALSHA names with word, or nil.
func shipped(verb, word string) (sc *script) {
	scripts.Lock()
	defer scripts.Unlock()
	switch {
	case strings.EqualFold(verb, "EVAL"):
		sc = scripts.bodies[word]
	case strings.EqualFold(verb, "EVALSHA"):
		sc = scripts.digests[word]
	}
	if sc == nil || sc.name == otherScript {
		return nil
	}
	return sc
}

// otherScript is the name of every script that is not of package wire.
const otherScript = "script"

// interpreter is a Lua state with Redis' globals. A script cannot leave data in it for the next
// one. If a script concatenates a number from 1e14 on, gopher-lua writes all digits and Lua 5.1
// writes an exponent. Scripts must format such numbers; TestAsRedis has some.
type interpreter struct {
	*lua.LState
	mains map[*script]*lua.LFunction
	run   *execution // nil between scripts
	args  []string   // of the command that runs

	ok, wrongType *lua.LTable // common replies; no script changes a reply
}

// interpreters has the idle ones.
var interpreters = sync.Pool{New: func() any { return newInterpreter() }}

func newInterpreter() *interpreter {
	in := &interpreter{
		LState: lua.NewState(lua.Options{SkipOpenLibs: true,
			RegistrySize: 1024, RegistryMaxSize: 1 << 17, RegistryGrowStep: 1024}),
		mains: map[*script]*lua.LFunction{},
	}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		in.Push(in.NewFunction(open))
		in.Push(lua.LString(name))
		in.Call(1, 0)
	}
	redis := in.NewTable()
	redis.RawSetString("call", in.NewFunction(func(*lua.LState) int { return in.command(true) }))
	redis.RawSetString("pcall", in.NewFunction(func(*lua.LState) int { return in.command(false) }))
	redis.RawSetString("sha1hex", in.NewFunction(func(l *lua.LState) int {
		sum := sha1.Sum([]byte(l.CheckString(1)))
		l.Push(lua.LString(hex.EncodeToString(sum[:])))
		return 1
	}))
	in.G.Global.RawSetString("redis", redis)
	in.G.Global.RawSetString("tostring", in.NewFunction(toString))
	tonumber := in.G.Global.RawGetString("tonumber").(*lua.LFunction).GFunction
	in.G.Global.RawSetString("tonumber", in.NewFunction(toNumber(tonumber)))
	library := in.G.Global.RawGetString(lua.StringLibName).(*lua.LTable)
	library.RawSetString("find", in.NewFunction(find(library.RawGetString("find").(*lua.LFunction).GFunction)))
	in.ok, in.wrongType = in.line("ok", done.Text), in.line("err", wrongType.Text)
	guard := in.NewTable()
	guard.RawSetString("__index", in.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.CheckString(2))
		return 0
	}))
	guard.RawSetString("__newindex", in.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Attempt to modify a readonly table")
		return 0
	}))
	in.G.Global.Metatable = guard
	return in
}

// execution is a script that runs.
type execution struct {
	m     *Master
	db    *Memory
	cmd   *Command
	dirty bool // it has written already
}

// runLocked runs a script. It panics if the script throws anything but the error of a command.
func (m *Master) runLocked(db *Memory, sc *script, cmd *Command) []byte {
	n, _ := strconv.Atoi(cmd.Args[2])
	in := interpreters.Get().(*interpreter)
	in.run = &execution{m: m, db: db, cmd: cmd}
	main := in.mains[sc]
	if main == nil {
		main = in.NewFunctionFromProto(sc.compiled())
		in.mains[sc] = main
	}
	in.G.Global.RawSetString("KEYS", in.words(cmd.Args[3:3+n]))
	in.G.Global.RawSetString("ARGV", in.words(cmd.Args[3+n:]))
	in.Push(main)
	err := in.PCall(0, 1, nil)
	if err != nil {
		thrown, ok := err.(*lua.ApiError).Object.(*lua.LTable)
		if !ok {
			panic(fmt.Sprintf("fake: the script %s: %v", sc.name, err))
		}
		text, line := thrown.RawGetString("err"), thrown.RawGetString("line")
		return appendReply(nil, refuse(fmt.Sprintf("%v script: %s, on @user_script:%v.", text, sc.sha, line)))
	}
	b := appendLua(nil, in.Get(-1))
	in.Pop(1)
	in.run = nil
	interpreters.Put(in)
	return b
}

func (in *interpreter) words(all []string) *lua.LTable {
	t := in.CreateTable(len(all), 0)
	for _, word := range all {
		t.Append(lua.LString(word))
	}
	return t
}

// command is redis.call or redis.pcall.
func (in *interpreter) command(raises bool) int {
	n := in.GetTop()
	args, r := in.args[:0], wire.Reply{}
	for i := 1; i <= n; i++ {
		switch v := in.Get(i).(type) {
		case lua.LString:
			args = append(args, string(v))
		case lua.LNumber:
			args = append(args, numberText(float64(v), 17))
		default:
			r = refuse("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	in.args = args
	switch {
	case r.Kind != 0:
	case n == 0:
		r = refuse("ERR Please specify at least one argument for this redis lib call")
	default:
		r = in.run.command(args)
	}
	result := in.value(&r)
	if raises && r.Kind == '-' {
		result = in.line("err", r.Text)
		if caller, ok := in.GetStack(1); ok {
			if _, err := in.GetInfo("l", caller, lua.LNil); err == nil {
				result.(*lua.LTable).RawSetString("line", lua.LNumber(caller.CurrentLine))
			}
		}
		in.Error(result, 1)
	}
	in.Push(result)
	return 1
}

// command carries out one command with the rights of the user who runs the script.
func (x *execution) command(args []string) wire.Reply {
	c, ok := commandOf(args[0])
	switch {
	case !ok:
		return refuse("ERR Unknown Redis command called from script")
	case !c.takes(len(args) - 1):
		return refuse("ERR Wrong number of args calling Redis command from script")
	case x.m.lacks(args) != "":
		return refuse("ERR The user executing the script can't run this command or subcommand")
	}
	if x.m.Fault != nil {
		if err := x.m.Fault(Call{x.cmd, args, c.write}); err != "" {
			return refuse(err)
		}
	}
	if c.write && !x.dirty {
		if err := x.m.denies(&c); err != "" {
			return refuse(err)
		}
		x.dirty = true
	}
	r := c.do(x.m, x.db, args[1:])
	x.m.Work.Commands++
	x.m.Work.Members += len(r.Elems)
	if c.write {
		x.m.Work.Members += len(args) - 2
	}
	return r
}

// value converts a reply for a script.
func (in *interpreter) value(r *wire.Reply) lua.LValue {
	switch r.Kind {
	case '$':
		if r.Null {
			return lua.LFalse
		}
		return lua.LString(r.Text)
	case ':':
		return lua.LNumber(r.Int)
	case '*':
		t := in.CreateTable(len(r.Elems), 0)
		for i := range r.Elems {
			t.Append(in.value(&r.Elems[i]))
		}
		return t
	}
	switch {
	case r.Kind == '+' && r.Text == done.Text:
		return in.ok
	case r.Kind == '+':
		return in.line("ok", r.Text)
	case r.Text == wrongType.Text:
		return in.wrongType
	}
	return in.line("err", r.Text)
}

// line makes the table of a status or an error.
func (in *interpreter) line(kind, text string) *lua.LTable {
	t := in.CreateTable(0, 1)
	t.RawSetString(kind, lua.LString(text))
	return t
}

// toString is tostring of values without metatables, with numbers as C's %.14g writes them.
func toString(l *lua.LState) int {
	switch v := l.CheckAny(1).(type) {
	case lua.LNumber:
		l.Push(lua.LString(numberText(float64(v), 14)))
	default:
		l.Push(lua.LString(v.String()))
	}
	return 1
}

// toNumber is tonumber that reads 1e3 and inf as C does, unlike gopher-lua's.
func toNumber(other lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		text, ok := l.Get(1).(lua.LString)
		if !ok || l.GetTop() != 1 || strings.ContainsAny(string(text), "xX_") {
			return other(l)
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		if errors.Is(err, strconv.ErrSyntax) {
			l.Push(lua.LNil)
		} else {
			l.Push(lua.LNumber(n))
		}
		return 1
	}
}

// find is string.find with a short way for the names of counters: a script checks thousands.
func find(other lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		if l.GetTop() != 2 || l.Get(2) != lua.LString("^%d+$") {
			return other(l)
		}
		name := l.CheckString(1)
		if name == "" || strings.Trim(name, "0123456789") != "" {
			l.Push(lua.LNil)
			return 1
		}
		l.Push(lua.LNumber(1))
		l.Push(lua.LNumber(len(name)))
		return 2
	}
}

// appendLua writes the reply that Redis makes of a script's result.
func appendLua(b []byte, v lua.LValue) []byte {
	switch v := v.(type) {
	case lua.LString:
		return appendReply(b, text(string(v)))
	case lua.LNumber:
		return appendReply(b, number(truncated(float64(v))))
	case lua.LBool:
		if v {
			return appendReply(b, number(1))
		}
	case *lua.LTable:
		if err, ok := v.RawGetString("err").(lua.LString); ok {
			return appendReply(b, refuse(string(err)))
		}
		if status, ok := v.RawGetString("ok").(lua.LString); ok {
			return appendReply(b, wire.Reply{Kind: '+', Text: string(status)})
		}
		n := 0
		for v.RawGetInt(n+1) != lua.LNil {
			n++
		}
		b = append(strconv.AppendInt(append(b, '*'), int64(n), 10), '\r', '\n')
		for i := range n {
			b = appendLua(b, v.RawGetInt(i+1))
		}
		return b
	}
	return appendReply(b, nothing)
}

// truncated converts a number to the integer of a reply.
func truncated(n float64) int64 {
	if math.IsNaN(n) || n < math.MinInt64 || n >= math.MaxInt64 {
		return math.MinInt64 // as on amd64
	}
	return int64(n)
}

var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// appendReply writes a reply in RESP2.
func appendReply(b []byte, r wire.Reply) []byte {
	switch {
	case r.Null:
		return append(b, "$-1\r\n"...)
	case r.Kind == ':':
		b = strconv.AppendInt(append(b, ':'), r.Int, 10)
	case r.Kind == '$':
		b = strconv.AppendInt(append(b, '$'), int64(len(r.Text)), 10)
		b = append(append(b, '\r', '\n'), r.Text...)
	case r.Kind == '*':
		b = strconv.AppendInt(append(b, '*'), int64(len(r.Elems)), 10)
		b = append(b, '\r', '\n')
		for _, e := range r.Elems {
			b = appendReply(b, e)
		}
		return b
	default: // a status or an error is one line
		b = append(append(b, r.Kind), oneLine.Replace(r.Text)...)
	}
	return append(b, '\r', '\n')
}
