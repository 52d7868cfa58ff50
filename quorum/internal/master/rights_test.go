package master

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lockproxy/integration/redistest"
	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// withhold takes commands away from the master's user, and gives it all others.
func withhold(m *fake.Master, commands ...string) {
	m.Set(func() {
		m.Lacks = map[string]bool{}
		for _, command := range commands {
			m.Lacks[command] = true
		}
	})
}

// trials counts the trials of rights on a master.
func trials(m *fake.Master) int { return m.Ran("PEXPIREAT") }

// A master that does not give the user all rights is refused, and its reason names them. It gets
// releases all the same. It votes when the user has the rights.
func TestRightsMissing(t *testing.T) {
	for _, c := range []struct {
		user   string
		lacks  []string
		reason string
	}{
		{"", []string{"zadd"}, "does not give user default the right +zadd"},
		{"locks", []string{"zadd", "hget", "set"}, "does not give user locks the rights +set +zadd +hget"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				m.Password = "pw"
				withhold(m, c.lacks...)
				l, h := start(t, m, func(cfg *LaneConfig) { cfg.Options.User, cfg.Options.Password = c.user, "pw" })
				for range 3 {
					wantRefused(t, l, h, m, c.reason)
				}
				withhold(m)
				time.Sleep(2 * refusedBackoff)
				if s := l.Status(); s.State != stat.StateVoting {
					t.Errorf("with all rights: %+v", s)
				}
			})
		})
	}
}

// wantRefused fails unless the master is refused for that reason, and still carries out releases.
func wantRefused(t *testing.T, l *Lane, h *host, m *fake.Master, reason string) {
	t.Helper()
	if s := l.Status(); s.State != stat.StateRefused || s.Reason != reason {
		t.Errorf("%s: %q, want %q", s.State, s.Reason, reason)
	}
	if err := l.MayServe(); err == nil || len(h.sofar().observed) > 0 {
		t.Errorf("%v, %d observations", err, len(h.sofar().observed))
	}
	m.Set(func() { m.SetLock("lock:k", secret(1), 1, "", time.Now().Add(time.Hour)) })
	_ = l.Release(unlock(tokenAt("k", 1)), time.Hour, true, nil)
	time.Sleep(2 * refusedBackoff)
	noKeys(t, m)
}

// Errors of other kinds refuse no master.
func TestTrialOnSickMaster(t *testing.T) {
	for _, err := range []string{
		"OOM command not allowed", "READONLY You can't write", "MISCONF disk", "NOREPLICAS", "LOADING",
		"ERR unknown command",
	} {
		t.Run(err, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				m.Hook = func(c *fake.Command) (time.Duration, string) {
					for _, command := range append(slices.Clone(needed), useful...) {
						if strings.Fields(command)[0] == c.Name {
							return 0, "-" + err + "\r\n"
						}
					}
					return 0, ""
				}
				l, _ := start(t, m)
				if s := l.Status(); s.State != stat.StateVoting {
					t.Errorf("%s: %+v", err, s)
				}
			})
		})
	}
}

// When an ACL makes an operation fail, the next probe finds the missing right.
func TestRightsTaken(t *testing.T) {
	for _, said := range []string{
		"", // the words of the script itself
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"ERR The user executing the script can't run this command or subcommand",
		"ERR ACL failure in script: User locks has no permissions to run the 'zadd' command",
	} {
		t.Run(said, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				l, _ := start(t, m)
				withhold(m, "zadd")
				n := trials(m)
				time.Sleep(5 * tickEvery)
				if trials(m) > n {
					t.Errorf("%d trials without a doubt", trials(m)-n)
				}
				if said != "" {
					answering(m, "packet", "-"+said+"\r\n")
				}
				shared := op(wire.Acquire, tokenAt("k", 1))
				shared.Terms = &wire.Terms{Mode: wire.Shared}
				_ = l.Ask(shared, nil)
				l.Flush()
				time.Sleep(tickEvery + time.Millisecond)
				const reason = "does not give user default the right +zadd"
				if s := l.Status(); s.State != stat.StateRefused || s.Reason != reason {
					t.Errorf("%s: %+v", said, s)
				}
				withhold(m)
				m.Set(func() { m.Hook = nil })
				time.Sleep(2 * refusedBackoff)
				if s := l.Status(); s.State != stat.StateVoting {
					t.Errorf("with all rights: %+v", s)
				}
			})
		})
	}
}

// A key that the user may not touch costs one trial a second at most, and the master votes on.
func TestForbiddenKeyKeepsVote(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		before := trials(m)
		m.Set(func() { m.Forbids = func(key string) bool { return key == "lock:no" } })
		for range 100 {
			mustAsk(t, l, op(wire.Check, tokenAt("no", 1)), nil)
			synctest.Wait()
			time.Sleep(tickEvery / 10)
		}
		if n := trials(m) - before; n < 9 || n > 10 {
			t.Errorf("%d trials in ten seconds", n)
		}
		if s := l.Status(); s.State != stat.StateVoting || s.Lost > 0 || h.sofar().lost > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A missing right that is only useful is logged once, however often the lane connects.
func TestRightsMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		log, lines := observer.New(zap.WarnLevel)
		withhold(m, "publish")
		l, _ := start(t, m, func(c *LaneConfig) { c.Log = zap.New(log) })
		for range 3 {
			m.Stop()
			time.Sleep(tickEvery)
			m.Start()
			time.Sleep(5 * tickEvery)
			if s := l.Status(); s.State != stat.StateVoting {
				t.Fatalf("%+v", s)
			}
		}
		all := lines.FilterMessageSnippet("lacks rights").All()
		if len(all) != 1 || all[0].ContextMap()["rights"] != "+publish" {
			t.Errorf("logged %v", all)
		}
	})
}

func TestRightsInWords(t *testing.T) {
	e := rightsError{"locks", slices.Repeat([]string{"+a"}, 9)}
	if got := e.Error(); got != "does not give user locks the rights +a +a +a +a +a +a and 3 more" {
		t.Error(got)
	}
}

// commandOf is a command as ACLs name it.
func commandOf(words ...string) string {
	name := strings.ToLower(words[0])
	if name == "pubsub" {
		name += "|" + strings.ToLower(words[1])
	}
	return name
}

// scriptCommands lists the commands in the scripts of package wire.
func scriptCommands(t *testing.T) (commands []string) {
	t.Helper()
	files, err := filepath.Glob("../wire/*.lua")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	call := regexp.MustCompile(`call\(\s*(?:'(\w+)'(?:, '(\w+)')?)?`)
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		body = regexp.MustCompile(`--.*`).ReplaceAll(body, nil)
		for _, found := range call.FindAllSubmatch(body, -1) {
			if len(found[1]) == 0 {
				t.Errorf("%s: a call whose command is no literal: %s", file, found[0])
				continue
			}
			commands = append(commands, commandOf(string(found[1]), string(found[2])))
		}
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// attempted lists the commands of a trial.
func attempted(attempts []string) (commands []string) {
	for _, attempt := range attempts {
		commands = append(commands, commandOf(strings.Fields(attempt)...))
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// documented lists the commands and the other rules that the reference gives to lockproxy's user.
func documented(t *testing.T) (commands, others []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ACL SETUSER lockproxy on >password (.*)$`).FindSubmatch(page)
	if line == nil {
		t.Fatal("the page has no user")
	}
	for rule := range strings.FieldsSeq(string(line[1])) {
		if command, ok := strings.CutPrefix(rule, "+"); ok {
			commands = append(commands, command)
		} else {
			others = append(others, rule)
		}
	}
	slices.Sort(commands)
	return commands, others
}

// sent lists the commands that lockproxy sends itself: lanes, and the connections of package
// notify.
var sent = []string{
	"eval", "evalsha", "script|load", "info", "ping", "config|get", "client|id", "client|kill", "client|setname",
	"client|list", "subscribe", "unsubscribe", "scan",
}

// A trial tries exactly the commands of the scripts, and the reference gives exactly these to
// lockproxy's user, beside the commands of Go code.
func TestDocsRights(t *testing.T) {
	scripts := scriptCommands(t)
	own := slices.DeleteFunc(attempted(slices.Concat(needed, useful)), func(command string) bool {
		return slices.Contains(sent, command)
	})
	if !slices.Equal(own, scripts) {
		t.Errorf("tried   %q\nscripts %q", own, scripts)
	}
	all := slices.Sorted(slices.Values(slices.Concat(sent, scripts)))
	if page, _ := documented(t); !slices.Equal(page, all) {
		t.Errorf("docs/reference/settings.md %q\nneeded %q", page, all)
	}
}

// acl gives the user locks these rules, and no others.
func acl(t *testing.T, s *realServer, rules ...string) {
	t.Helper()
	s.must(append([]string{"ACL", "SETUSER", "locks", "reset", "on", ">pw"}, rules...)...)
}

// as logs a lane in as the user locks.
func as(c *LaneConfig) { c.Options.User, c.Options.Password = "locks", "pw" }

// Each right of the reference is taken away alone. A master that lacks a needed one is refused by
// its name.
func TestRealRights(t *testing.T) {
	s := startReal(t)
	commands, others := documented(t)
	without := func(right string) []string {
		rules := slices.Clone(others)
		for _, command := range commands {
			if "+"+command != right {
				rules = append(rules, "+"+command)
			}
		}
		return slices.DeleteFunc(rules, func(rule string) bool { return rule == right })
	}
	optional := []string{
		"+script|load", "+ping", "+config|get", "+client|id", "+client|kill", "+client|setname",
		"+client|list", "+subscribe", "+unsubscribe", "+scan", "+publish", "+pubsub|numsub", "&lockproxy:released:*",
		"&lockproxy:changed*", "~lock:*",
	}
	for _, right := range slices.Concat(others, commands) {
		switch right[0] {
		case '~', '&':
		case '-', 'r': // -@all, resetchannels: these give no right
			continue
		default:
			right = "+" + right
		}
		acl(t, s, without(right)...)
		l, _ := dial(t, s.Addr, as)
		state, reason := l.Status().State, l.Status().Reason
		if slices.Contains(optional, right) {
			if state != stat.StateVoting {
				t.Errorf("without %s: %s, %s", right, state, reason)
			}
			continue
		}
		if want := "does not give user locks the right " + right; state != stat.StateRefused || reason != want {
			t.Errorf("without %s: %s, %s", right, state, reason)
		}
	}
	acl(t, s, without("")...)
	l, _ := dial(t, s.Addr, as, func(c *LaneConfig) { c.Options.DB = 1 })
	if got := l.Status().Reason; got != "does not give user locks the right +select" {
		t.Errorf("in another database: %s", got)
	}
	if n := s.must("DBSIZE"); n.Int != 0 {
		t.Errorf("%d keys left", n.Int)
	}
}

// Rights are taken away while a real master votes.
func TestRealRightsTaken(t *testing.T) {
	for _, c := range []struct{ take, back, reason string }{
		{"-getrange", "+getrange", "does not give user locks the right +getrange"},
		{"-evalsha", "+evalsha", "does not give user locks the right +evalsha"},
		{"-eval", "+eval", "does not give user locks the right +eval"},
		{"-@hash", "+@all", "does not give user locks the rights +hset +hget +hmget +hdel +hlen +hgetall"},
		{"-info", "+info", "does not give user locks the right +info"},
		{"resetkeys", "~*", "does not give user locks the right ~lockproxy:*"},
	} {
		t.Run(c.take, func(t *testing.T) {
			t.Parallel()
			s := startReal(t)
			acl(t, s, "~*", "&*", "+@all")
			l, _ := dial(t, s.Addr, as)
			state := func() stat.State {
				for _, kind := range []wire.OpKind{wire.Acquire, wire.Check} {
					_ = l.Ask(op(kind, tokenAt("k", 1)), nil)
				}
				l.Flush()
				return l.Status().State
			}
			s.must("ACL", "SETUSER", "locks", c.take)
			if c.take == "-info" { // operations do not need it
				s.must("CLIENT", "KILL", "TYPE", "normal")
			}
			eventually(t, func() bool { return state() == stat.StateRefused })
			if got := l.Status().Reason; got != c.reason {
				t.Errorf("%s, want %s", got, c.reason)
			}
			s.must("ACL", "SETUSER", "locks", c.back)
			eventually(t, func() bool { return state() == stat.StateVoting })
		})
	}
}

// A trial changes no key, not even that of a client. A master that is full or has too few
// replicas is refused only if a right is missing as well.
func TestRealTrialWritesNothing(t *testing.T) {
	s := startReal(t)
	acl(t, s, "~*", "&*", "+@all")
	var found trial
	keys := map[string]bool{}
	for _, q := range found.commands("lock:") {
		for _, arg := range q.args {
			if strings.Contains(arg, "trial") && !strings.HasPrefix(q.args[0], "PUB") {
				keys[arg] = true
			}
		}
	}
	if len(keys) != 4 {
		t.Errorf("keys %v", keys)
	}
	for _, put := range [][]string{{"SET", "", "value"}, {"ZADD", "", "1", "m"}, {"HSET", "", "f", "v"}} {
		key := "lock:lockproxy:trial"
		put[1] = key
		s.must(put...)
		before := s.must("DUMP", key).Text
		l, _ := dial(t, s.Addr, as)
		if st := l.Status(); st.State != stat.StateVoting {
			t.Errorf("%+v", st)
		}
		if after := s.must("DUMP", key).Text; after != before {
			t.Errorf("%q has changed: %q, before %q", key, after, before)
		}
		if n := s.must("DBSIZE").Int; n != 1 {
			t.Errorf("%d keys, want 1", n)
		}
		s.must("DEL", key)
	}
	for _, setting := range [][]string{{"maxmemory", "1", "0"}, {"min-replicas-to-write", "1", "0"}} {
		s.must("CONFIG", "SET", setting[0], setting[1])
		l, _ := dial(t, s.Addr, as)
		if st := l.Status(); st.State != stat.StateVoting {
			t.Errorf("%s: %+v", setting[0], st)
		}
		s.must("ACL", "SETUSER", "locks", "-zadd")
		if l, _ = dial(t, s.Addr, as); l.Status().Reason != "does not give user locks the right +zadd" {
			t.Errorf("%s: %+v", setting[0], l.Status())
		}
		s.must("ACL", "SETUSER", "locks", "+zadd")
		s.must("CONFIG", "SET", setting[0], setting[2])
	}
}

// The servers in memory know all commands of a trial, and have no keys after it.
func TestTrialOnMiniredis(t *testing.T) {
	m := miniredis.RunT(t)
	c, err := net.Dial("tcp", m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var found trial
	commands := found.commands("lock:")
	var replies []byte
	for _, q := range commands {
		if _, err := c.Write(wire.AppendCommand(nil, q.args...)); err != nil {
			t.Fatal(err)
		}
	}
	for at := 0; at < len(commands); {
		var r wire.Reply
		n, err := wire.Parse(replies, &r)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			more := make([]byte, 4096)
			if n, err = c.Read(more); err != nil {
				t.Fatal(err)
			}
			replies = append(replies, more[:n]...)
			continue
		}
		replies = replies[n:]
		if forbidden(&r) && commands[at].args[0] != "INFO" { // which the proxy's own server adds
			t.Errorf("%q: %s", commands[at].args, r.Text)
		}
		at++
	}
	if keys := m.Keys(); len(keys) > 0 {
		t.Errorf("left %q", keys)
	}
}

// realServer is a redis-server, and a lane of the default user to ask it.
type realServer struct {
	*redistest.Server
	t    *testing.T
	lane *Lane
}

func startReal(t *testing.T) *realServer {
	t.Helper()
	s := redistest.StartTCP(t)
	l, _ := dial(t, s.Addr)
	return &realServer{s, t, l}
}

// must sends a command, which may not fail. A lane that was cut comes back.
func (s *realServer) must(args ...string) wire.Reply {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		r, err := s.lane.Call(s.t.Context(), wire.AppendCommand(nil, args...))
		if err == nil {
			return r
		}
		if r.IsError() || time.Now().After(end) {
			s.t.Fatal(fmt.Sprint(args), err)
		}
	}
}
