package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"lockproxy/integration/lab"
)

// The scripts of TestIdentity: all commands that change a connection's user or state, or look as
// if they did.

// identityStep is a command.
type identityStep struct {
	args []string
	lock bool
	wait bool // the proxy must have answered all earlier steps
}

func (s identityStep) is(name string) bool { return strings.EqualFold(s.args[0], name) }

// lists reports whether the step is LOCKPROXY LOCKS.
func (s identityStep) lists() bool { return s.is("LOCKPROXY") && s.args[1] == "LOCKS" }

// resets reports whether the step is a RESET that Redis accepts.
func (s identityStep) resets() bool { return s.is("RESET") && len(s.args) == 1 }

// String returns the step as a person would type it.
func (s identityStep) String() string {
	var words []string
	for _, a := range s.args {
		if a == "" || strings.ContainsAny(a, " \"'\\") {
			a = fmt.Sprintf("%q", a)
		}
		if len(a) > 160 {
			a = fmt.Sprintf("%s...(%d bytes)", a[:60], len(a))
		}
		words = append(words, a)
	}
	line := strings.Join(words, " ")
	if s.wait {
		line = "(all answered) " + line
	}
	return line
}

// identityScript is the input of one connection.
type identityScript struct {
	steps []identityStep
	cuts  uint64 // seed of the pieces; 0: send everything between two waits at once
}

// identityWriter writes scripts.
type identityWriter struct {
	script
	channel string // ends with a dot, so that a pattern of script 1 does not match the channel of script 10
}

// newIdentityScript writes the script with this number. password: the default user has a
// password.
func newIdentityScript(seed, number uint64, password bool) identityScript {
	w := identityWriter{seeded(seed, number), fmt.Sprintf("channel-%d.", number)}
	var s identityScript
	waits := []int{0, 0, 4, 12, 16}[w.IntN(5)] // of 16
	add := func(args ...string) {
		s.steps = append(s.steps, identityStep{args: args, wait: w.IntN(16) < waits})
	}
	if w.IntN(3) > 0 {
		add(w.login(w.IntN(5) > 0)...)
	}
	for range 2 + w.IntN(14) {
		for _, args := range w.some() {
			add(args...)
		}
		if w.IntN(5) == 0 {
			add(w.lock()...)
		}
	}
	for range 1 + w.IntN(2) {
		add(w.lock()...)
	}
	for i := range s.steps {
		s.steps[i].lock = slices.Contains(lockNames, s.steps[i].args[0])
	}
	if w.IntN(3) > 0 {
		s.cuts = w.Uint64() | 1
	}
	if password {
		s.waitForResets()
	}
	return s
}

// waitForResets puts a wait before each RESET that may meet replies waiting in a list: Redis then
// closes a connection that is not logged in, and whether replies wait depends on time.
func (s *identityScript) waitForResets() {
	long := false
	for i := range s.steps {
		step := &s.steps[i]
		step.wait = step.wait || long && step.resets()
		long = long && !step.wait || slices.Contains([]string{"eval", "exec", "debug", "monitor"},
			strings.ToLower(step.args[0]))
	}
}

var lockNames = []string{"LOCK", "UNLOCK", "LOCKINFO", "LOCKPROXY"}

// keyAt returns the index of the key in the arguments of a lock command, or 0.
func (s identityStep) keyAt() int {
	switch {
	case !s.is("LOCKPROXY"):
		return 1
	case s.args[1] == "RELEASE":
		return 2
	}
	return 0
}

// lock returns a lock command. textOf replaces KEY by a new name.
func (w identityWriter) lock() []string {
	key := w.pick(keyClasses...) + "KEY"
	switch w.IntN(13) {
	case 0:
		return []string{"LOCKINFO", key}
	case 1:
		return []string{"UNLOCK", key, "0000000000000001:" + strings.Repeat("0f", 20)}
	case 2:
		return []string{"LOCK", key, "2s", "FULL"}
	case 3:
		return []string{"LOCKPROXY", "RELEASE", key}
	case 4:
		return []string{"LOCKPROXY", "LOCKS", "0", "COUNT", "1000"}
	case 5:
		return []string{"LOCKPROXY", "ADMIT", "no-such-master"}
	}
	return []string{"LOCK", key, "2s"}
}

// some returns a command, or a few that belong together.
func (w identityWriter) some() [][]string {
	switch n := w.IntN(100); {
	case n < 18:
		return [][]string{w.login(w.IntN(3) == 0)}
	case n < 24:
		return [][]string{w.words("RESET", "RESET", "RESET", "RESET x")}
	case n < 42:
		return [][]string{w.forged()}
	case n < 50:
		return [][]string{w.words("CLIENT REPLY ON", "CLIENT REPLY ON", "CLIENT REPLY OFF", "CLIENT REPLY SKIP",
			"CLIENT REPLY SKIP", "CLIENT REPLY BAD", "CLIENT REPLY")}
	case n < 60:
		return [][]string{w.subscription()}
	case n < 62:
		return [][]string{{"MONITOR"}}
	case n < 68:
		return [][]string{w.words("MULTI", "EXEC", "DISCARD", "EXEC x", "MULTI x")}
	case n < 74:
		return w.transaction()
	}
	return [][]string{w.plain()}
}

func (w identityWriter) words(lines ...string) []string { return strings.Fields(w.pick(lines...)) }

// transaction returns a transaction of commands that change the connection when EXEC runs them.
func (w identityWriter) transaction() [][]string {
	list := [][]string{{"MULTI"}}
	for range 1 + w.IntN(3) {
		list = append(list, [][]string{w.login(w.IntN(2) == 0), w.login(true), w.subscription(),
			w.words("CLIENT REPLY ON", "CLIENT REPLY OFF", "CLIENT REPLY SKIP"), w.plain(), w.forged()}[w.IntN(6)])
	}
	return append(list, w.words("EXEC", "EXEC", "EXEC", "DISCARD", "RESET"))
}

// login returns AUTH or HELLO, right or wrong.
func (w identityWriter) login(right bool) []string {
	u := identityUsers[w.IntN(len(identityUsers))]
	if w.IntN(4) == 0 {
		u = identityUser{name: "default", password: "secret"}
	}
	name, password := u.name, u.password
	if !right && w.IntN(2) == 0 {
		password = w.pick("wrong", "", "secret")
	}
	version := w.pick("2", "3", "3")
	if right {
		switch w.IntN(4) {
		case 0:
			return []string{"HELLO", version, "AUTH", name, password}
		case 1:
			return []string{"HELLO", version, "SETNAME", "good", "AUTH", name, password}
		}
		return []string{"AUTH", name, password}
	}
	other := identityUsers[w.IntN(len(identityUsers))]
	return [][]string{{"AUTH", name, password}, {"AUTH", name, "wrong"}, {"AUTH", name, "wrong"}, {"AUTH", "secret"},
		{"AUTH", "wrong"}, {"AUTH"}, {"AUTH", "a", "b", "c"}, {"AUTH", "nobody", "x"},
		{"HELLO"}, {"HELLO", version}, {"HELLO", w.pick("4", "x", "1", "")}, {"HELLO", version, "AUTH", name, password},
		{"HELLO", "4", "AUTH", name, password},
		{"HELLO", version, "SETNAME", w.pick("good", "bad name")}, {"HELLO", version, "AUTH", name, password, "SETNAME",
			w.pick("good", "bad name", "bad name")},
		{"HELLO", version, "SETNAME", w.pick("good", "bad name"), "AUTH", name, password},
		{"HELLO", version, "AUTH", name, password, "AUTH", other.name, w.pick("wrong", other.password)},
		{"HELLO", version, "AUTH", name, password, w.pick("BAD", "AUTH", "SETNAME")},
		{"HELLO", version, "AUTH", name}}[w.IntN(19)]
}

// subscription returns a command of pub/sub. There is one channel of each kind, because servers
// list several in random order.
func (w identityWriter) subscription() []string {
	c := w.channel
	return [][]string{{"SUBSCRIBE", c}, {"SUBSCRIBE", c}, {"SUBSCRIBE", c, c}, {"PSUBSCRIBE", c + "*"}, {"SSUBSCRIBE", c},
		{"UNSUBSCRIBE"}, {"UNSUBSCRIBE", c}, {"UNSUBSCRIBE", "none"},
		{"PUNSUBSCRIBE"}, {"SUNSUBSCRIBE"}, {"SUBSCRIBE"}, {"PUBLISH", c, "x"}, {"PUBLISH", c, "x"}}[w.IntN(13)]
}

// plain returns a command that changes no state.
func (w identityWriter) plain() []string {
	return w.words("PING", "PING x", "ECHO +OK", "SELECT 0", "SELECT 0", "SELECT 1", "SELECT 99", "SET k1 v", "SET k1 v",
		"SET other v", "GET none", "GET k-none", "GET kq", "GET", "DEBUG x", "DEBUG x",
		"DEBUG PROTOCOL attrib", "DEBUG PROTOCOL push", "DEBUG PROTOCOL map", "DEBUG PROTOCOL null", "nosuchcmd a b",
		"nosuchcmd", "CONFIG GET port-x", "ACL WHOAMI", "CLIENT GETNAME", "CLIENT nope", "LRANGE kq 0 -1")
}

// forged returns a command whose reply looks like the reply to another.
func (w identityWriter) forged() []string {
	body := w.pick(
		`return redis.status_reply('OK')`, `return redis.status_reply('OK')`, `return redis.status_reply('RESET')`,
		`return redis.status_reply('QUEUED')`,
		`return redis.error_reply('NOAUTH Authentication required.')`,
		`return redis.error_reply('ERR Protocol error: invalid bulk length')`,
		`return redis.error_reply('WRONGPASS invalid username-password pair or user is disabled.')`,
		`return redis.error_reply('EXECABORT x')`, `return redis.error_reply('ERR EXEC without MULTI')`,
		`return redis.error_reply("ERR unknown command '0123456789', with args beginning with: ")`,
		`return {'message','b','c'}`, `return {'message','b','c'}`, `return {'pmessage','a','b','c'}`,
		`return {'smessage','b','c'}`, `return {'subscribe','b',1}`, `return {'unsubscribe','b',0}`,
		`return {'ssubscribe','b',1}`,
		`return {'server','redis','version','7.0.15','proto',3,'id',7,'mode','standalone','role','master','modules',{}}`,
		`redis.setresp(3); return {map={server='redis'}}`, `redis.setresp(3); return {set={a=true}}`,
		`redis.setresp(3); return {double=1.5}`, `redis.setresp(3); return true`,
		`redis.setresp(3); return {big_number='123456789012345678901234567890'}`,
		`redis.setresp(3); return {verbatim_string={format='txt',string='+OK'}}`,
		`return 'alice'`, `return 'default'`, `return nil`, `return {}`, `return 1`, `bad(`,
		`local t={} for i=1,1200 do t={t} end return t`, `local t={} for i=1,1030 do t={t} end return t`,
		`local t={} for i=1,1000 do t={t} end return t`)
	if w.IntN(4) == 0 {
		return []string{"LRANGE", "kq", "0", "-1"}
	}
	return []string{"EVAL", body, "0"}
}

// textOf returns the bytes of steps, with a new key in each lock command, and those keys.
func textOf(steps []identityStep, fresh func() string) (text string, keys []string) {
	var b strings.Builder
	for _, s := range steps {
		args := s.args
		if at := s.keyAt(); s.lock && at > 0 {
			args = slices.Clone(args)
			args[at] = strings.Replace(args[at], "KEY", fresh(), 1)
			keys = append(keys, args[at])
		}
		b.WriteString(lab.Encode(args...))
	}
	return b.String(), keys
}

// pieces cuts text at random places.
func pieces(text string, seed uint64) (list []string) {
	if seed == 0 {
		return []string{text}
	}
	chance := rand.New(rand.NewPCG(seed, 1))
	most := 1 << chance.IntN(12)
	if most < 8 && chance.IntN(4) > 0 {
		most = 64
	}
	for text != "" {
		n := min(1+chance.IntN(most), len(text))
		list, text = append(list, text[:n]), text[n:]
	}
	return list
}
