package commands

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

func (f *fakeLocker) values() ValueLocks { return (*fakeValues)(f) }

// fakeValues are the adopted locks of a fakeLocker: held says whether a value holds its lock.
type fakeValues fakeLocker

func (f *fakeValues) ReleaseAsync(r quorum.ValueRequest, done func(bool, error)) {
	l := (*fakeLocker)(f)
	l.answer(func() {
		l.note("release %q value %q", r.Key, r.Value)
		if l.releasing != nil {
			l.releasing()
		}
		done(l.held, l.err)
	})
}

func (f *fakeValues) RefreshAsync(r quorum.ValueRequest, done func(bool, error)) {
	l := (*fakeLocker)(f)
	l.answer(func() {
		l.note("refresh %q value %q %v add %v", r.Key, r.Value, r.TTL, r.Add)
		done(l.held, l.err)
	})
}

func (f *fakeValues) ReadAsync(key string, done func(quorum.Held, error)) {
	l := (*fakeLocker)(f)
	l.answer(func() {
		l.note("read %q", key)
		done(l.read, l.err)
	})
}

// startAdopted serves the lock listener without an upstream.
func startAdopted(t *testing.T, w way, keys string,
	change func(*Options)) (net.Conn, *bufio.Reader, *fakeLocker, *fakeGate) {
	t.Helper()
	locker, gate := &fakeLocker{held: true, later: w == elsewhere, slack: time.Second}, &fakeGate{}
	patterns, err := ParseAdoptKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: gate, KeyPrefix: "lock:", MaxTTL: time.Minute,
		Adopt:   &AdoptOptions{Values: locker.values(), Keys: patterns},
		Tunable: Tunable{MinTTL: 10 * time.Millisecond, ShowMasters: true, MaxWaiters: 5, SessionMaxHold: time.Hour},
		Report:  locker.events.done}
	if change != nil {
		change(&o)
	}
	service := New(o)
	r := resp.Options{UpstreamName: "nowhere", Judge: service.Judge, Alone: service.Alone,
		Handler: redcon.HandlerFunc(service.ServeAdopted),
		Dial:    func(context.Context) (net.Conn, error) { return nil, errors.New("no upstream") }}
	if w != byHandler {
		r.Begin = service.BeginAdopted
		r.Handler = redcon.HandlerFunc(func(conn redcon.Conn, cmd redcon.Command) {
			t.Errorf("%q was not begun", cmd.Args)
			service.ServeAdopted(conn, cmd)
		})
	}
	c, _ := serveWith(t, service, r)
	return c, bufio.NewReader(c), locker, gate
}

// Scripts as libraries have them.
const (
	deleteIfEqual = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`
	unlockRedsync = "\n\tlocal val = redis.call(\"GET\", KEYS[1])\n\tif val == ARGV[1] then\n\t\t" +
		"return redis.call(\"DEL\", KEYS[1])\n\telseif val == false then\n\t\treturn -1\n\telse\n\t\treturn 0\n\tend\n"
)

// held is a lock that another library or LOCK holds.
var held = quorum.Held{Held: true, Fence: 7, Rest: 1500 * time.Millisecond}

// byA is a lock with the value A.
var byA = quorum.Held{Held: true, Adopted: true, Value: "A", Fence: 7, Rest: 2499 * time.Millisecond}

var adoptedTests = []struct {
	name  string
	argv  []string
	state func(*fakeLocker)
	want  string
	asked string
	event string
}{
	{"take", []string{"SET", "job", "A", "NX", "PX", "30000"}, nil, "+OK", `acquire "job" 30s value "A"`,
		`lock granted "job" 7 owner adopted 559aead0 ttl 30s via adopt do take`},
	{"take in seconds, in any order", []string{"set", "job", "A", "ex", "30", "nx"}, nil, "+OK",
		`acquire "job" 30s value "A"`, `lock granted "job" 7 owner adopted 559aead0 ttl 30s via adopt do take`},
	{"taken", []string{"SET", "job", "A", "NX", "PX", "30000"}, func(f *fakeLocker) { f.taken = true }, "$-1",
		`acquire "job" 30s value "A"`, `lock taken "job" 0 owner adopted 559aead0 ttl 30s via adopt do take`},
	{"too late", []string{"SET", "job", "A", "NX", "PX", "30000"}, func(f *fakeLocker) { f.slack = -1 }, "$-1",
		`acquire "job" 30s value "A"; abandon "job" ` + tokenText,
		`lock tryagain "job" 0 owner adopted 559aead0 ttl 30s via adopt do take`},
	{"late", []string{"SET", "job", "A", "NX", "PX", "30000"}, func(f *fakeLocker) { f.err = quorum.ErrLate }, "$-1",
		`acquire "job" 30s value "A"`, `lock tryagain "job" 0 owner adopted 559aead0 ttl 30s via adopt do take`},
	{"no majority", []string{"SET", "job", "A", "NX", "PX", "30000"}, func(f *fakeLocker) { f.err = quorum.ErrNoQuorum },
		"-NOQUORUM no majority of the masters answered", `acquire "job" 30s value "A"`,
		`lock noquorum "job" 0 owner adopted 559aead0 ttl 30s via adopt do take`},
	{"busy", []string{"SET", "job", "A", "NX", "PX", "30000"}, func(f *fakeLocker) { f.err = quorum.ErrFence },
		"-TRYAGAIN the second fencing round found no majority", `acquire "job" 30s value "A"`,
		`lock tryagain "job" 0 owner adopted 559aead0 ttl 30s via adopt do take`},
	{"refresh", []string{"SET", "job", "A", "XX", "PX", "30000"}, nil, "+OK",
		`refresh "job" value "A" 30s add false`, "*"},
	{"refresh if equal", []string{"SET", "job", "A", "IFEQ", "A", "PX", "30000"}, nil, "+OK",
		`refresh "job" value "A" 30s add false`,
		`extend extended "job" 0 owner adopted 559aead0 ttl 30s via adopt do refresh`},
	{"refresh of a lost lock", []string{"SET", "job", "A", "IFEQ", "A", "PX", "30000"},
		func(f *fakeLocker) { f.held = false }, "$-1", `refresh "job" value "A" 30s add false`,
		`extend lost "job" 0 owner adopted 559aead0 ttl 30s via adopt do refresh`},
	{"a late refresh", []string{"SET", "job", "A", "XX", "PX", "30000"}, func(f *fakeLocker) { f.err = quorum.ErrLate },
		"-TRYAGAIN a majority answered, but too late: no validity was left", `refresh "job" value "A" 30s add false`,
		`extend tryagain "job" 0 owner adopted 559aead0 ttl 30s via adopt do refresh`},
	{"a late expiry", []string{"PEXPIRE", "job", "9000"}, func(f *fakeLocker) { f.err = quorum.ErrLate },
		"-TRYAGAIN a majority answered, but too late: no validity was left", `refresh "job" value "" 9s add false`,
		`extend tryagain "job" 0 ttl 9s via adopt do refresh`},
	{"release", []string{"DEL", "job"}, nil, ":1",
		`release "job" value ""`, `unlock released "job" 0 via adopt do release`},
	{"release of nothing", []string{"UNLINK", "job"}, func(f *fakeLocker) { f.held = false }, ":0",
		`release "job" value ""`, `unlock not_held "job" 0 via adopt do release`},
	{"release if equal", []string{"DELEX", "job", "IFEQ", "A"}, nil, ":1", `release "job" value "A"`,
		`unlock released "job" 0 owner adopted 559aead0 via adopt do release`},
	{"release by a script", []string{"EVAL", deleteIfEqual, "1", "job", "A"}, nil, ":1", `release "job" value "A"`,
		`unlock released "job" 0 owner adopted 559aead0 via adopt do release`},
	{"a script that tells a free key: free", []string{"EVAL", unlockRedsync, "1", "job", "A"},
		func(f *fakeLocker) { f.held = false }, ":-1", `release "job" value "A"; read "job"`,
		`unlock not_held "job" 0 owner adopted 559aead0 via adopt do release`},
	{"a script that tells a free key: held", []string{"EVAL", unlockRedsync, "1", "job", "A"},
		func(f *fakeLocker) { f.held, f.read = false, held }, ":0", `release "job" value "A"; read "job"`,
		`unlock not_held "job" 0 owner adopted 559aead0 via adopt do release`},
	{"expiry", []string{"PEXPIRE", "job", "9000"}, nil, ":1", `refresh "job" value "" 9s add false`,
		`extend extended "job" 0 ttl 9s via adopt do refresh`},
	{"an expiry at once", []string{"EXPIRE", "job", "0"}, nil, ":1", `release "job" value ""`,
		`unlock released "job" 0 via adopt do release`},
	{"get", []string{"GET", "job"}, func(f *fakeLocker) { f.read = byA }, "A", `read "job"`,
		`lockinfo ok "job" 0 via adopt do read`},
	{"get of another's", []string{"GET", "job"}, func(f *fakeLocker) { f.read = held }, "lockproxy:0000000000000007",
		`read "job"`, `lockinfo ok "job" 0 via adopt do read`},
	{"get of a free lock", []string{"GET", "job"}, nil, "$-1", `read "job"`, `lockinfo ok "job" 0 via adopt do read`},
	{"exists", []string{"EXISTS", "job"}, func(f *fakeLocker) { f.read = held }, ":1", `read "job"`, "*"},
	{"pttl", []string{"PTTL", "job"}, func(f *fakeLocker) { f.read = byA }, ":2499", `read "job"`, "*"},
	{"ttl", []string{"TTL", "job"}, func(f *fakeLocker) { f.read = byA }, ":2", `read "job"`, "*"},
	{"pttl of a free lock", []string{"PTTL", "job"}, nil, ":-2", `read "job"`, "*"},

	{"no expiry", []string{"SET", "job", "A", "NX"}, nil,
		"-ERR lock key 'job': no expiry, add PX or EX, or set adopt-ttl",
		"", "refused no_expiry"},
	{"no option", []string{"SET", "job", "A"}, nil, "-ERR lock key 'job': SET without NX or XX", "", "refused command"},
	{"another command", []string{"HSET", "job", "a", "b"}, nil, "-ERR lock key 'job': 'hset' is not a lock command", "",
		"refused command"},
	{"two keys", []string{"DEL", "job", "a"}, nil, "-ERR lock key 'job': one key a command", "", "refused keys"},
	{"a long value", []string{"SET", "job", strings.Repeat("v", 513), "NX", "PX", "30000"}, nil,
		"-ERR lock key 'job': a value of 513 bytes, want 1 to 512", "", "refused value"},
	{"a long ttl", []string{"SET", "job", "A", "NX", "PX", "3600000"}, nil,
		"-ERR ttl 3600000 exceeds max-ttl 60000: it is 1h, and 10ms to 60s is allowed", "", "refused ttl"},
	{"an unknown script", []string{"EVAL", "return 1", "1", "job"}, nil,
		"-ERR lock key 'job': unknown script " + sha1Of("return 1") + ", see docs/adopting.md", "", "refused script"},
	{"a script not seen yet", []string{"EVALSHA", sha1Of(deleteIfEqual), "1", "job", "A"}, nil,
		"-NOSCRIPT No matching script. Please use EVAL.", "", ""},
	{"without a key", []string{"FLUSHDB"}, nil, "-ERR 'flushdb' is not a lock command", "", "refused command"},

	{"a lock command", []string{"LOCK", "job", "30s"}, nil, tokenText,
		`acquire "job" 30s`, `lock granted "job" 7 ttl 30s`},
}

func sha1Of(body string) string {
	sum := sha1.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// TestAdoptedCommands: what the lock listener asks the masters, replies and reports.
func TestAdoptedCommands(t *testing.T) {
	for _, tt := range adoptedTests {
		t.Run(tt.name, func(t *testing.T) {
			for _, w := range ways {
				c, r, locker, _ := startAdopted(t, w, "*", nil)
				if tt.state != nil {
					tt.state(locker)
				}
				got := ask(t, c, r, tt.argv...)
				if asked := strings.Join(locker.take(), "; "); got != tt.want || asked != tt.asked {
					t.Errorf("%s: got %q, asked %s; want %q, %s", w, got, asked, tt.want, tt.asked)
				}
				c.Close()
				if event := locker.events.take(); tt.event != "*" && w == byHandler &&
					event != tt.event {
					t.Errorf("%s: reported %s, want %s", w, event, tt.event)
				}
			}
		})
	}
}

// Scripts of redislock and go-zero that refresh or take.
const (
	obtainRedislock = "\nif redis.call(\"set\", KEYS[1], ARGV[1], \"NX\", \"PX\", ARGV[3]) then " +
		"return redis.status_reply(\"OK\") end\n\nlocal offset = tonumber(ARGV[2])\n" +
		"if redis.call(\"getrange\", KEYS[1], 0, offset-1) == string.sub(ARGV[1], 1, offset) " +
		"then return redis.call(\"set\", KEYS[1], ARGV[1], \"PX\", ARGV[3]) end\n"
	lockGoZero = "if redis.call(\"GET\", KEYS[1]) == ARGV[1] then\n" +
		"    redis.call(\"SET\", KEYS[1], ARGV[1], \"PX\", ARGV[2])\n    return \"OK\"\nelse\n    return redis.call(\"SET\", KEYS[1], ARGV[1], \"NX\", \"PX\", ARGV[2])\nend"
)

// TestRefreshOrTake: a value that this proxy has granted is refreshed first, any other is taken
// first. redislock compares the beginning of the value alone.
func TestRefreshOrTake(t *testing.T) {
	goZero := []string{"EVAL", lockGoZero, "1", "job", "A", "5000"}
	redislock := func(value string) []string {
		return []string{"EVAL", obtainRedislock, "1", "job", value, "1", "5000"}
	}
	take, refresh := `acquire "job" 5s value "A"`, `refresh "job" value "A" 5s add false`
	for _, tt := range []struct {
		name   string
		before bool // the proxy has granted it
		argv   []string
		state  func(*fakeLocker)
		want   string
		asked  []string
	}{
		{"free", false, goZero, nil, "+OK", []string{take}},
		{"its own", false, goZero, func(f *fakeLocker) { f.taken = true }, "OK", []string{take, refresh}},
		{"another's", false, goZero, func(f *fakeLocker) { f.taken, f.held = true, false }, "$-1", []string{take, refresh}},
		{"its own, granted here", true, goZero, nil, "OK", []string{refresh}},
		{"lost, granted here", true, goZero, func(f *fakeLocker) { f.held = false }, "+OK", []string{refresh, take}},
		{"taken by another, granted here", true, goZero, func(f *fakeLocker) { f.taken, f.held = true, false }, "$-1",
			[]string{refresh, take}},
		{"whole value", false, redislock("A"), func(f *fakeLocker) { f.taken, f.read = true, byA }, "+OK",
			[]string{take, `read "job"`, refresh}},
		{"its own beginning", false, redislock("AB"), func(f *fakeLocker) {
			f.taken, f.read, f.releasing = true, byA, func() { f.taken = false }
		}, "+OK", []string{`acquire "job" 5s value "AB"`, `read "job"`, `release "job" value "A"`,
			`acquire "job" 5s value "AB"`}},
		{"another beginning", false, redislock("BA"), func(f *fakeLocker) { f.taken, f.read = true, byA }, "$-1",
			[]string{`acquire "job" 5s value "BA"`, `read "job"`}},
		{"held by LOCK", false, redislock("lo"), func(f *fakeLocker) { f.taken, f.read = true, held }, "$-1",
			[]string{`acquire "job" 5s value "lo"`, `read "job"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, w := range ways {
				c, r, locker, _ := startAdopted(t, w, "*", nil)
				if tt.before {
					ask(t, c, r, "SET", "job", "A", "NX", "PX", "5000")
					locker.take()
				}
				if tt.state != nil {
					tt.state(locker)
				}
				got := ask(t, c, r, tt.argv...)
				if asked := locker.take(); got != tt.want || !slices.Equal(asked, tt.asked) {
					t.Errorf("%s: got %q, asked %q; want %q, %q", w, got, asked, tt.want, tt.asked)
				}
				c.Close()
			}
		})
	}
}

// TestShorteningsAreReported: of locks that this proxy has granted.
func TestShorteningsAreReported(t *testing.T) {
	c, r, locker, _ := startAdopted(t, byHandler, "*", nil)
	do := regexp.MustCompile(`do (\w+)`)
	for _, tt := range []struct{ send, want string }{
		{"SET job A NX PX 5000", "take"}, {"SET job A XX PX 9000", "refresh"}, {"SET job A XX PX 4000", "shorten"},
		{"SET job A XX PX 30000", "refresh"}, {"SET job B XX PX 10", "refresh"}, {"SET job A XX PX 29000", "shorten"},
		{"DELEX job IFEQ A", "release"}, {"SET job A XX PX 10", "refresh"},
	} {
		if got := ask(t, c, r, strings.Fields(tt.send)...); got != "+OK" && got != ":1" {
			t.Fatalf("%s: got %q", tt.send, got)
		}
		if got := do.FindStringSubmatch(locker.events.take())[1]; got != tt.want {
			t.Errorf("%s is reported as %s, want %s", tt.send, got, tt.want)
		}
	}
}

// TestAdoptedCommandsAreChecked: in LOCK's order and words: transaction, arguments,
// authentication, permission.
func TestAdoptedCommandsAreChecked(t *testing.T) {
	set := func(key string) []string { return []string{"SET", key, "A", "NX", "PX", "5000"} }
	for _, tt := range []struct {
		name   string
		gate   fakeGate
		argv   []string
		want   string
		asked  string
		report string
	}{
		{"no login", fakeGate{required: true}, set("job"), "-NOAUTH Authentication required.", "",
			`lock denied "job" 0 owner adopted 559aead0 ttl 5s via adopt do take`},
		{"no login to read", fakeGate{required: true}, []string{"GET", "job"}, "-NOAUTH Authentication required.", "",
			`lockinfo denied "job" 0 via adopt do read`},
		{"not known", fakeGate{err: errors.New("is down")}, set("job"),
			"-NOAUTH the upstream has not said yet whether it wants a password: is down", "",
			`lock denied "job" 0 owner adopted 559aead0 ttl 5s via adopt do take`},
		{"arguments first", fakeGate{required: true}, []string{"SET", "job", "A", "NX"},
			"-ERR lock key 'job': no expiry, add PX or EX, or set adopt-ttl", "", "refused no_expiry"},
		{"no permission", fakeGate{}, set("no"), "-NOPERM This user has no permissions to access the 'lock:no  ' key", "",
			`lock denied "no" 0 owner adopted 559aead0 ttl 5s via adopt do take`},
		{"permission unknown", fakeGate{}, []string{"DEL", "unasked"}, "-NOPERM lock-acl: connection refused", "",
			`unlock denied "unasked" 0 via adopt do release`},
		{"permitted", fakeGate{}, set("job"), "+OK", `acquire "job" 5s value "A"`,
			`lock granted "job" 7 owner adopted 559aead0 ttl 5s via adopt do take`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, r, locker, gate := startAdopted(t, byHandler, "*", func(o *Options) { o.Permission = &fakePermission{} })
			*gate = tt.gate
			got := ask(t, c, r, tt.argv...)
			if asked := strings.Join(locker.take(), "; "); got != tt.want || asked != tt.asked {
				t.Errorf("got %q, asked %s; want %q, %s", got, asked, tt.want, tt.asked)
			}
			if report := locker.events.take(); report != tt.report {
				t.Errorf("reported %s, want %s", report, tt.report)
			}
		})
	}
}

// TestAloneAnswersTheStart: without an upstream that is known to want no password, clients can
// begin a connection and lock.
func TestAloneAnswersTheStart(t *testing.T) {
	hello := func(proto string) string { return "server redis version " + aloneVersion + " proto :" + proto }
	const down = "-ERR upstream nowhere: no upstream"
	for _, tt := range []struct{ send, want string }{
		{"PING", "+PONG"}, {"PING hi", "hi"}, {"ECHO hi", "hi"}, {"ECHO", down}, {"PING a b", down}, {"SELECT 3", "+OK"},
		{"SELECT x", "-ERR DB index is out of range"}, {"SELECT -1", "-ERR DB index is out of range"},
		{"HELLO", hello("2")}, {"HELLO 2 SETNAME me", hello("2")}, {"HELLO 4", "-NOPROTO unsupported protocol version"},
		{"HELLO 2 AUTH a b", down}, {"HELLO 2 SETNAME", down}, {"CLIENT SETNAME me", "+OK"},
		{"CLIENT SETINFO LIB-NAME x", "+OK"}, {"CLIENT ID", down}, {"CLIENT SETINFO LIB-NAME", down},
		{"INFO", aloneInfo}, {"info server", aloneInfo}, {"SCRIPT LOAD x", sha1Of("x")}, {"SCRIPT FLUSH", down},
		{"SCRIPT LOAD", down}, {"CONFIG GET x", down}, {"ROLE", down}, {"AUTH x", down}, {"TIME", down},
		{"SET job A NX PX 5000", "+OK"},
	} {
		t.Run(tt.send, func(t *testing.T) {
			c, r, _, _ := startAdopted(t, atOnce, "*", nil)
			for range 2 { // the first answer stays
				if got := ask(t, c, r, strings.Fields(tt.send)...); !strings.Contains(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
	c, r, _, _ := startAdopted(t, byHandler, "*", nil)
	io.WriteString(c, "HELLO 3\r\nSET job A NX PX 5000\r\nGET job\r\n")
	all := make([]byte, 200)
	n, _ := io.ReadFull(r, all[:len("%7\r\n")])
	if string(all[:n]) != "%7\r\n" {
		t.Errorf("HELLO 3: got %q", all[:n])
	}
	for line := ""; !strings.HasPrefix(line, "_"); {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatalf("no null of RESP3: %v", err)
		}
	}
	c, r, _, gate := startAdopted(t, atOnce, "*", nil)
	gate.required = true
	if got := ask(t, c, r, "PING"); got != down {
		t.Errorf("where a password is wanted: got %q", got)
	}
}

// TestRefusalsAreKeptAndLoggedOnce: by reason and script, with the client's library.
func TestRefusalsAreKeptAndLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	c, r, _, _ := startAdopted(t, byHandler, "*", func(o *Options) { o.Log = zap.New(core) })
	ask(t, c, r, "CLIENT", "SETINFO", "LIB-NAME", "lib\n1")
	for range 3 {
		ask(t, c, r, "SETNX", "job", "A")
		ask(t, c, r, "EVAL", "return 1", "1", "job", "secret")
		ask(t, c, r, "EVAL", "return 2 + #ARGV", "1", "job", "secret")
	}
	var got []string
	for _, e := range logs.All() {
		f := e.ContextMap()
		got = append(got, fmt.Sprintf("%s %v %v %v", e.Message, f["reason"], f["library"], f["key"]))
	}
	want := []string{"a lock library was refused no_expiry lib 1 job", "a lock library was refused script lib 1 job",
		"a lock library was refused script lib 1 job"}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// TestRefusalsAreBounded: the kinds that were seen least recently go, and the latest comes first.
func TestRefusalsAreBounded(t *testing.T) {
	locker := &fakeLocker{}
	s := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{},
		Adopt: &AdoptOptions{Values: locker.values()}})
	t.Cleanup(s.Close)
	begun := time.Now()
	for i := range 3 * maxRefusals {
		at := begun.Add(time.Duration(i) * time.Second)
		s.adopter.refusals.add(&stat.RefusedKind{Reason: "script", SHA1: fmt.Sprint(i), Count: 1, Last: at})
		if first := s.adopter.refusals.add(&stat.RefusedKind{Reason: "ttl", Count: 1, Last: at}); first != (i == 0) {
			t.Fatalf("refusal %d: it is the first of its kind: %v", i, first)
		}
	}
	all := s.Refusals()
	last := all[len(all)-1].SHA1
	if len(all) != maxRefusals || last != fmt.Sprint(2*maxRefusals+1) {
		t.Errorf("%d kinds are kept, down to %s", len(all), last)
	}
	ttl := slices.IndexFunc(all, func(r stat.RefusedKind) bool { return r.Reason == "ttl" })
	if n := all[ttl].Count; n != 3*maxRefusals {
		t.Errorf("%d refusals of one kind, want %d", n, 3*maxRefusals)
	}
}

// TestInfoAdopt: the keys at the upstream that match a pattern, each once.
func TestInfoAdopt(t *testing.T) {
	left := func(keys ...string) LeftUpstream {
		return func(_ context.Context, pattern string, each func([]byte)) error {
			p, err := ParseAdoptKeys(pattern)
			for _, key := range keys {
				if p.Match([]byte(key)) {
					each([]byte(key))
				}
			}
			return err
		}
	}
	failing := func(context.Context, string, func([]byte)) error { return errors.New("is down") }
	for _, tt := range []struct {
		name string
		argv string
		left LeftUpstream
		want string
	}{
		{"none", "LOCKPROXY INFO ADOPT", left("x"), "# Adopt\r\nadopt_keys:job:*,*:lock\r\nadopt_left_upstream:0\r\n"},
		{"some, one of them twice", "lockproxy info adopt", left("job:1", "job:lock", "a:lock", "b"),
			"# Adopt\r\nadopt_keys:job:*,*:lock\r\nadopt_left_upstream:3\r\n"},
		{"no upstream", "LOCKPROXY INFO ADOPT", failing, "-TRYAGAIN the keys of the upstream cannot be counted: is down"},
		{"another section", "LOCKPROXY INFO server", left(), "-ERR syntax error near 'server': LOCKPROXY INFO takes ADOPT"},
		{"no lock listener", "LOCKPROXY INFO ADOPT", nil, "-ERR LOCKPROXY INFO ADOPT needs adopt-listen"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, r, _, _ := startAdopted(t, byHandler, "job:*,*:lock", func(o *Options) {
				o.AdminCommands, o.Adopt.Left = true, tt.left
			})
			if got := ask(t, c, r, strings.Fields(tt.argv)...); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	c, r, _, _ := startAdopted(t, byHandler, "*", nil)
	if got := ask(t, c, r, "LOCKPROXY", "INFO", "ADOPT"); !strings.HasPrefix(got, "-NOPERM LOCKPROXY INFO ADOPT needs ") {
		t.Errorf("without admin-commands: %q", got)
	}
}
