package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap/zaptest"

	"lockproxy/commands/internal/queue"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

var aToken = quorum.Token{Fence: 7, Secret: strings.Repeat("0123456789", 4)}

// fakeLocker grants or fails as its fields say, and records its calls.
type fakeLocker struct {
	mu     sync.Mutex
	asked  []string
	err    error
	held   bool          // what Release returns
	taken  bool          // what AcquireAsync says of a Request with Value: ErrHeld
	read   quorum.Held   // what ReadAsync says
	slack  time.Duration // of a lease with Value over its TTL
	info   quorum.Info
	view   quorum.View
	found  []quorum.Info // by Scan; nil: info
	block  chan struct{}
	begun  atomic.Int32 // commands that Begin began
	later  bool         // answers to Async methods come from another goroutine
	kept   chan func()  // gets the answers to Async methods, if it is not nil
	events reports
	owner  atomic.Value // the label of the last Acquire

	releasing func() // called for each release; may be nil
	extending func() // the same for extensions

	masters []stat.Master
	load    stat.Load
}

func (f *fakeLocker) note(format string, a ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, a...))
}

func (f *fakeLocker) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.asked = nil }()
	return f.asked
}

func (f *fakeLocker) Acquire(_ context.Context, r quorum.Request) (quorum.Lease, error) {
	f.owner.Store(r.Owner)
	label := r.Owner
	if strings.HasPrefix(label, "127.0.0.1:") {
		label = "" // the client's address is another each time
	}
	f.note("acquire %q %v%s%s", r.Key, r.TTL, label, kindOf(&r))
	if f.block != nil {
		<-f.block
	}
	lease := quorum.Lease{Token: aToken, Validity: r.TTL - 9*time.Millisecond}
	if r.Value != "" {
		if lease.Validity = r.TTL + f.slack; f.taken {
			return lease, quorum.ErrHeld
		}
	}
	if r.Mode == quorum.Limited {
		lease.Slot = 2
	}
	return lease, f.err
}

// kindOf returns the keys, the mode and the limit of a request as text.
func kindOf(r *quorum.Request) (text string) {
	if len(r.Keys) > 0 {
		text += fmt.Sprintf(" and %q", r.Keys)
	}
	if r.Mode != quorum.Exclusive {
		text += " " + r.Mode.String()
	}
	if r.Value != "" {
		text += fmt.Sprintf(" value %q", r.Value)
	}
	if r.Limit > 0 {
		text += fmt.Sprint(" ", r.Limit)
	}
	return text
}

func (f *fakeLocker) extend(keys []string, token quorum.Token, ttl time.Duration, share bool) (time.Duration, error) {
	f.note("extend %q %v %v shared %v", keys, token, ttl, share)
	if f.extending != nil {
		f.extending()
	}
	// the caller takes off the microseconds until it runs, and replies drop fractions
	return ttl - 9*time.Millisecond + 999*time.Microsecond, f.err
}

func (f *fakeLocker) Watch(context.Context, string, func(string)) func() { return func() {} }

func (f *fakeLocker) Follow(_ context.Context, key string, _ func()) func() {
	f.note("follow %q", key)
	return func() {}
}

func (f *fakeLocker) Inspect(_ context.Context, key string) (quorum.Info, error) {
	f.note("inspect %q", key)
	return f.info, f.err
}

func (f *fakeLocker) Scan(_ context.Context, cursor uint64, match string, count int) (uint64, []quorum.Info, error) {
	f.note("scan %d %q %d", cursor, match, count)
	if f.found == nil {
		return 7, []quorum.Info{f.info}, f.err
	}
	return 7, slices.Clone(f.found), f.err
}

func (f *fakeLocker) ScanSeen(ctx context.Context, cursor uint64, match string, count int) (quorum.Page, error) {
	next, found, err := f.Scan(ctx, cursor, match, count)
	fault, _ := errors.AsType[*quorum.NoQuorumError](err)
	if fault != nil {
		return quorum.Page{Next: next, Locks: found, Seen: fault.Answered, Fault: fault}, nil
	}
	return quorum.Page{Next: next, Locks: found, Seen: 3}, err
}

func (f *fakeLocker) View(_ context.Context, key string) (quorum.View, error) {
	f.note("view %q", key)
	return f.view, nil
}

func (f *fakeLocker) ReleaseKey(_ context.Context, key string) (bool, error) {
	f.note("release key %q", key)
	return f.held, f.err
}

func (f *fakeLocker) Admit(_ context.Context, name string, force bool) error {
	if force {
		name += "!"
	}
	f.note("admit %q", name)
	return f.err
}

func (f *fakeLocker) Masters() []stat.Master { return f.masters }

func (f *fakeLocker) Load() stat.Load { return f.load }

func (f *fakeLocker) release(keys []string, token quorum.Token, keep time.Duration) (bool, error) {
	f.note("release %q %v keep %v", keys, token, keep)
	if f.releasing != nil {
		f.releasing()
	}
	return f.held, f.err
}

func (f *fakeLocker) Abandon(key string, token quorum.Token) { f.note("abandon %q %v", key, token) }

// fakeGate is the upstream's word on authentication.
type fakeGate struct {
	required bool
	err      error
	unknown  bool // without asking
}

func (g *fakeGate) AuthRequired(context.Context) (bool, error) { return g.required, g.err }
func (g *fakeGate) Known() (required, known bool)              { return g.required, !g.unknown && g.err == nil }
func (g *fakeGate) Last() (required, known bool)               { return g.Known() }

// way is how a test runs commands.
type way string

const (
	byHandler way = "handler"
	atOnce    way = "begun, answered at once"
	elsewhere way = "begun, answered from elsewhere"
)

var ways = []way{byHandler, atOnce, elsewhere}

// start serves the commands without an upstream and returns a connection and the fakes.
func start(t *testing.T, change func(*Options)) (net.Conn, *bufio.Reader, *fakeLocker, *fakeGate) {
	t.Helper()
	return startAs(t, byHandler, change)
}

func startAs(t *testing.T, w way, change func(*Options)) (net.Conn, *bufio.Reader, *fakeLocker, *fakeGate) {
	t.Helper()
	locker, gate := &fakeLocker{held: true, later: w == elsewhere}, &fakeGate{}
	o := Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: gate, KeyPrefix: "lock:", MaxTTL: time.Minute,
		Log: zaptest.NewLogger(t),
		Tunable: Tunable{MinTTL: 10 * time.Millisecond, ShowMasters: true, MaxWaiters: 5, SessionMaxHold: time.Hour,
			SessionTimeout: 10 * time.Second},
		Version: "v0", Report: locker.events.done}
	if change != nil {
		change(&o)
	}
	c := serve(t, w, New(o), locker, resp.Options{UpstreamName: "nowhere",
		Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("no upstream") }})
	return c, bufio.NewReader(c), locker, gate
}

// serve serves the commands of service until the test ends, and returns a connection.
func serve(t *testing.T, w way, service *Service, locker *fakeLocker, o resp.Options) net.Conn {
	t.Helper()
	mux := redcon.NewServeMux()
	service.Register(mux)
	o.Handler = mux
	if w != byHandler {
		o.Handler = &beginFirst{t, service, locker, mux}
	}
	c, _ := serveWith(t, service, o)
	return c
}

func serveWith(t *testing.T, service *Service, o resp.Options) (net.Conn, *resp.Server) {
	t.Helper()
	return serveAt(t, "tcp", "127.0.0.1:0", service, o)
}

func serveAt(t *testing.T, network, address string, service *Service, o resp.Options) (net.Conn, *resp.Server) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	server := resp.NewServer(o)
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(ln) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		service.Drain()
		server.Shutdown(ctx)
		wg.Wait()
		service.Close()
	})
	c, err := net.Dial(network, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c, server
}

// ask sends one command and returns its reply, of one line or a bulk string or a flat array.
func ask(t *testing.T, c net.Conn, r *bufio.Reader, argv ...string) string {
	t.Helper()
	var b []byte
	b = redcon.AppendArray(b, len(argv))
	for _, a := range argv {
		b = redcon.AppendBulkString(b, a)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	return readReply(t, r)
}

// validityOf5s matches the validity of a fakeLocker's lock with a ttl of 5s: 4991 ms, from which
// the commands take off the time for which they waited.
var validityOf5s = regexp.MustCompile(`:4[0-9]{3}\b`)

// steady replaces a validity in a reply by that of a machine that is not busy. A longer one stays.
func steady(reply string) string {
	const most = ":4991"
	return validityOf5s.ReplaceAllStringFunc(reply, func(found string) string { return max(found, most) })
}

func readReply(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	line = strings.TrimSuffix(line, "\r\n")
	var n int
	fmt.Sscan(line[1:], &n)
	switch {
	case line[0] == '$' && n >= 0:
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			t.Fatal(err)
		}
		return string(body[:n])
	case line[0] == '*':
		for range n {
			line += " " + readReply(t, r)
		}
	}
	return line
}

func TestRegisterAll(t *testing.T) {
	c, r, _, _ := start(t, nil)
	for _, command := range stat.Commands {
		if got := ask(t, c, r, command.Name); strings.Contains(got, "unknown command") {
			t.Errorf("%s has no handler: %s", command.Name, got)
		}
	}
}

// tokenText is the token of every lock of a fakeLocker.
var tokenText = aToken.String()

// Replies that several commands get.
const (
	noTTL = "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, " +
		"or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s"
	noExtendTTL = "-ERR invalid expire time in 'extend' command: want digits, which are milliseconds, " +
		"or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s"
	noTimeout = "-ERR invalid timeout in 'lock' command: want digits, which are milliseconds, " +
		"or digits with ms, s, m or h (30s, 1m30s)"
	noToken = "-ERR invalid token: it must be 16 decimal digits, a colon and 40 lower-case hex digits"
)

var replyTests = []struct {
	argv  []string
	want  string
	asked string
}{
	{[]string{"LOCK", "job", "5000"}, tokenText, `acquire "job" 5s`},
	{[]string{"lock", "job", "5s"}, tokenText, `acquire "job" 5s`},
	{[]string{"Lock", "job", "60000ms"}, tokenText, `acquire "job" 1m0s`},
	{[]string{"LOCK", "job", "1m0s"}, tokenText, `acquire "job" 1m0s`},
	{[]string{"LOCK", "job", "0h2s500ms"}, tokenText, `acquire "job" 2.5s`},
	{[]string{"LOCK", "job", "1m", "full"}, "*3 " + tokenText + " :7 :59991", `acquire "job" 1m0s`},
	{[]string{"LOCK", "\x00\r\n\xff", "010"}, tokenText, `acquire "\x00\r\n\xff" 10ms`},
	{[]string{"LOCK", strings.Repeat("k", 1024), "10"},
		tokenText, fmt.Sprintf("acquire %q 10ms", strings.Repeat("k", 1024))},
	{[]string{"UNLOCK", "job", tokenText}, ":1", `release ["job"] ` + tokenText + ` keep 0s`},
	{[]string{"UNLOCK", "job", "9999999999999999" + tokenText[16:]},
		":1", `release ["job"] 9999999999999999` + tokenText[16:] + ` keep 0s`},

	{[]string{"lock", "job", "5s", "owner", "web-1 (eu)"}, tokenText, `acquire "job" 5sweb-1 (eu)`},
	{[]string{"LOCK", "job", "5s", "FULL", "Wait", "0", "OWNER", "o"},
		"*3 " + tokenText + " :7 :4991", `acquire "job" 5so`},
	{[]string{"EXTEND", "job", tokenText, "5s"}, ":1", `extend ["job"] ` + tokenText + ` 5s shared false`},
	{[]string{"extend", "job", tokenText, "5000", "full"},
		"*2 :1 :4991", `extend ["job"] ` + tokenText + ` 5s shared false`},
	{[]string{"LOCKINFO", "job"}, "$-1", `inspect "job"`},
	{[]string{"EXTEND", "job", tokenText}, "-ERR wrong number of arguments for 'extend' command", ""},
	{[]string{"EXTEND", "job", "x", "5s"}, noToken, ""},
	{[]string{"EXTEND", "job", tokenText, "0"}, noExtendTTL, ""},
	{[]string{"EXTEND", "job", tokenText, "61s"},
		"-ERR ttl 61000 exceeds max-ttl 60000: it is 61s, and 10ms to 60s is allowed", ""},
	{[]string{"LOCKINFO"}, "-ERR wrong number of arguments for 'lockinfo' command", ""},
	{[]string{"LOCKINFO", "", "b"}, "-ERR invalid key: it is empty", ""},
	{[]string{"LOCKPROXY"}, "-ERR wrong number of arguments for 'lockproxy' command", ""},
	{[]string{"LOCKPROXY", "NOPE\r\n"}, "-ERR unknown subcommand 'NOPE'. Try LOCKPROXY HELP.", ""},
	{[]string{"LOCKPROXY", "master"},
		"-ERR unknown subcommand 'master'. Did you mean MASTERS? Try LOCKPROXY HELP.", ""},
	{[]string{"LOCKPROXY", "RELEASE"}, "-ERR wrong number of arguments for 'lockproxy|release' command", ""},
	{[]string{"LOCKPROXY", "RELEASE", "job"},
		"-NOPERM LOCKPROXY RELEASE needs admin-commands: on, or a connection to a Unix socket of the proxy", ""},
	{[]string{"LOCKPROXY", "LOCKS", "0"},
		"-NOPERM LOCKPROXY LOCKS needs admin-commands: on, or a connection to a Unix socket of the proxy", ""},
	{[]string{"LOCK"}, "-ERR wrong number of arguments for 'lock' command", ""},
	{[]string{"LOCK", "job"}, "-ERR wrong number of arguments for 'lock' command", ""},
	{[]string{"UNLOCK", "job"}, "-ERR wrong number of arguments for 'unlock' command", ""},
	{[]string{"UNLOCK", "job", "", "KEEP"}, "-ERR invalid token: it is empty: did LOCK answer null?", ""},
	{[]string{"LOCK", "job", "0"}, noTTL, ""},
	{[]string{"LOCK", "job", "00s"}, noTTL, ""},
	{[]string{"LOCK", "job", ""}, noTTL, ""},
	{[]string{"LOCK", "job", "-5"}, noTTL, ""},
	{[]string{"LOCK", "job", "+5"}, noTTL, ""},
	{[]string{"LOCK", "job", " 5000"}, noTTL, ""},
	{[]string{"LOCK", "job", "5000 "}, noTTL, ""},
	{[]string{"LOCK", "job", "1.5s"}, noTTL, ""},
	{[]string{"LOCK", "job", "5S"}, noTTL, ""},
	{[]string{"LOCK", "job", "s"}, noTTL, ""},
	{[]string{"LOCK", "job", "30s1m"}, noTTL, ""},
	{[]string{"LOCK", "job", "1m30"}, noTTL, ""},
	{[]string{"LOCK", "job", "0m0s"}, noTTL, ""},
	{[]string{"LOCK", "job", "5d"}, noTTL, ""},
	{[]string{"LOCK", "job", "600000"},
		"-ERR ttl 600000 exceeds max-ttl 60000: it is 10m, and 10ms to 60s is allowed", ""},
	{[]string{"LOCK", "job", "1h2m3s"},
		"-ERR ttl 3723000 exceeds max-ttl 60000: it is 3723s, and 10ms to 60s is allowed", ""},
	{[]string{"LOCK", "job", "9223372036854775807h1m"},
		"-ERR ttl 9223372036854775807 exceeds max-ttl 60000: it is more than 292 years, and 10ms to 60s is allowed", ""},
	{[]string{"LOCK", "job", "10m"},
		"-ERR ttl 600000 exceeds max-ttl 60000: it is 10m, and 10ms to 60s is allowed", ""},
	{[]string{"LOCK", "job", "60001"},
		"-ERR ttl 60001 exceeds max-ttl 60000: it is 60001ms, and 10ms to 60s is allowed", ""},
	{[]string{"LOCK", "job", "99999999999999999999h"},
		"-ERR ttl 9223372036854775807 exceeds max-ttl 60000: it is more than 292 years, and 10ms to 60s is allowed", ""},
	{[]string{"LOCK", "job", "5"},
		"-ERR ttl 5 is under min-ttl 10: it is 5ms (5 seconds are 5s), and 10ms to 60s is allowed", ""},
	{[]string{"LOCK", "job", "9ms"}, "-ERR ttl 9 is under min-ttl 10: it is 9ms, and 10ms to 60s is allowed", ""},
	{[]string{"LOCK", "", "5000"}, "-ERR invalid key: it is empty", ""},
	{[]string{"LOCK", strings.Repeat("k", 1025), "5000"}, "-ERR invalid key: it is longer than 1024 bytes", ""},
	{[]string{"LOCK", strings.Repeat("k", 1<<20), "5000"}, "-ERR invalid key: it is longer than 1024 bytes", ""},
	{[]string{"LOCK", "", "x", "y"}, "-ERR invalid key: it is empty", ""},
	{[]string{"LOCK", "job", "x", "y"}, noTTL, ""},
	{[]string{"LOCK", "job", "5000", "OWNER", ""}, "-ERR invalid owner: it is empty", ""},
	{[]string{"LOCK", "job", "5000", "OWNER", strings.Repeat("o", 65)},
		"-ERR invalid owner: it is longer than 64 bytes", ""},
	{[]string{"LOCK", "job", "5000", "OWNER", "a\r\nb"}, "-ERR invalid owner: it must be printable ASCII", ""},
	{[]string{"LOCK", "job", "5000", "OWNER", "h\xc3\xa9"}, "-ERR invalid owner: it must be printable ASCII", ""},
	{[]string{"LOCK", "job", "5000", "WAIT", "x"}, noTimeout, ""},
	{[]string{"LOCK", "job", "5000", "WAIT", "-1"}, noTimeout, ""},
	{[]string{"UNLOCK", "", tokenText}, "-ERR invalid key: it is empty", ""},
	{[]string{"UNLOCK", "job", "x"}, noToken, ""},
	{[]string{"UNLOCK", "job", strings.ToUpper(tokenText[:17] + strings.Repeat("ab", 20))}, noToken, ""},
	{[]string{"UNLOCK", "job", tokenText[:16]}, noToken, ""},
}

func TestRequestsAskMastersAndReply(t *testing.T) {
	for _, tt := range replyTests {
		t.Run(fmt.Sprintf("%.60s", strings.Join(tt.argv, " ")), func(t *testing.T) {
			for _, w := range ways {
				c, r, locker, _ := startAs(t, w, nil)
				got := steady(ask(t, c, r, tt.argv...))
				if asked := strings.Join(locker.take(), "; "); got != tt.want || asked != tt.asked {
					t.Errorf("%s: %.80q: got %q, asked %s; want %q, %s", w, tt.argv, got, asked, tt.want, tt.asked)
				}
				if begun := locker.begun.Load() == 1; begun != (w != byHandler && canBegin(tt.argv, got)) {
					t.Errorf("%s: %.80q: begun is %v", w, tt.argv, begun)
				}
				c.Close()
			}
		})
	}
}

// canBegin reports whether a command with that reply runs without a goroutine.
func canBegin(argv []string, reply string) bool {
	if len(argv) < 3 {
		return strings.HasPrefix(reply, "-ERR wrong") && slices.Contains([]string{"lock", "unlock", "extend"},
			strings.ToLower(argv[0]))
	}
	waits := slices.ContainsFunc(argv, func(arg string) bool { return strings.EqualFold(arg, "wait") })
	switch strings.ToLower(argv[0]) {
	case "lock":
		return !waits || strings.HasPrefix(reply, "-")
	case "unlock", "extend":
		return strings.HasPrefix(reply, "-") || !slices.ContainsFunc(argv[2:], func(arg string) bool {
			return slices.Contains([]string{"keys", "keep", "shared"}, strings.ToLower(arg))
		})
	}
	return false
}

// TestLabelWithoutOwnerIsClientAddress: without OWNER the label is the client's address.
func TestLabelWithoutOwnerIsClientAddress(t *testing.T) {
	for _, w := range ways {
		c, r, locker, _ := startAs(t, w, nil)
		for _, options := range []string{"", "FULL", "SHARED", "WAIT 1s", "OWNER me", ""} {
			want := c.LocalAddr().String()
			if options == "OWNER me" {
				want = "me"
			}
			ask(t, c, r, append([]string{"LOCK", "job", "5s"}, strings.Fields(options)...)...)
			if got := locker.owner.Load(); got != want {
				t.Errorf("%s: LOCK %s: owner %q, want %q", w, options, got, want)
			}
		}
	}
}

func TestReservedKey(t *testing.T) {
	c, r, locker, _ := start(t, func(o *Options) { o.KeyPrefix = "" })
	if got := ask(t, c, r, "LOCK", "lockproxy:state:",
		"5000"); got != "-ERR invalid key: names that begin with lockproxy: are lockproxy's own" || locker.take() != nil {
		t.Errorf("got %q", got)
	}
}

func TestErrorsOfMastersBecomeReplies(t *testing.T) {
	for _, w := range ways {
		testFailures(t, w)
	}
}

func testFailures(t *testing.T, w way) {
	c, r, locker, _ := startAs(t, w, nil)
	noQuorum := &quorum.NoQuorumError{Answered: 0, N: 1, Needed: 1,
		Masters: []quorum.MasterError{{Name: "m", Err: errors.New("is\r\ndown")}}}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{quorum.ErrHeld, "$-1"},
		{noQuorum, "-NOQUORUM 0 of 1 masters can vote, 1 needed: m is"},
		{fmt.Errorf("wrapped: %w", quorum.ErrLate), "-TRYAGAIN "},
		{quorum.ErrFence, "-TRYAGAIN "},
		{queue.ErrDraining, "-TRYAGAIN the proxy is ending"},
		{errors.New("surprise"), "-ERR internal"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			locker.err = tt.err
			if got := ask(t, c, r, "LOCK", "job", "5000"); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s: %v: got %q, want %q", w, tt.err, got, tt.want)
			}
		})
	}
	locker.err, locker.held = nil, false
	if got := ask(t, c, r, "UNLOCK", "job", aToken.String()); got != ":0" {
		t.Errorf("%s: got %q, want :0", w, got)
	}
}

// TestArgumentsAreCheckedBeforeAuthentication: arguments are checked before authentication, and
// LOCK is refused while it is not known whether the upstream wants a password.
func TestArgumentsAreCheckedBeforeAuthentication(t *testing.T) {
	for _, w := range ways {
		testGate(t, w)
	}
}

func testGate(t *testing.T, w way) {
	c, r, locker, gate := startAs(t, w, nil)
	for want, g := range map[string]fakeGate{
		"-NOAUTH Authentication required.":                                                {required: true},
		"-NOAUTH the upstream has not said yet whether it wants a password: never  asked": {err: errors.New("never\r\nasked")},
	} {
		*gate = g
		if got := ask(t, c, r, "LOCK", "job", "5000"); got != want {
			t.Errorf("%+v: got %q, want %q", g, got, want)
		}
		if got := ask(t, c, r, "LOCK", "job", "0"); got != "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s" {
			t.Errorf("%+v: got %q", g, got)
		}
	}
	*gate = fakeGate{required: true}
	for line, want := range map[string]string{
		"LOCKPROXY LOCKS x":     "-ERR invalid cursor",
		"LOCKPROXY LOCKS 0":     "-NOAUTH Authentication required.",
		"LOCKPROXY RELEASE job": "-NOAUTH Authentication required.",
		"LOCKPROXY RELEASE":     "-ERR wrong number of arguments for 'lockproxy|release' command",
	} {
		if got := ask(t, c, r, strings.Fields(line)...); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	*gate = fakeGate{}
	for line, want := range map[string]string{
		"LOCKPROXY LOCKS x":     "-ERR invalid cursor",
		"LOCKPROXY LOCKS 0":     "-NOPERM LOCKPROXY LOCKS needs admin-commands: on, or a connection to a Unix socket of the proxy",
		"LOCKPROXY RELEASE job": "-NOPERM LOCKPROXY RELEASE needs admin-commands: on, or a connection to a Unix socket of the proxy",
	} {
		if got := ask(t, c, r, strings.Fields(line)...); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	if asked := locker.take(); asked != nil {
		t.Errorf("masters were asked: %v", asked)
	}
}

func TestInfoReplies(t *testing.T) {
	c, r, locker, _ := start(t, func(o *Options) { o.AdminCommands = true })
	locker.info = quorum.Info{Key: "job", Held: 3, Masters: 5, TTL: 4712 * time.Millisecond, Fence: 7, Owner: "me 1",
		Holders: 1}
	const flat = "held :3 masters :5 ttl :4712 fence :7 owner me 1 waiting :0 mode exclusive holders :1"
	for _, tt := range []struct{ ask, want string }{
		{"LOCKINFO job", "*16 " + flat},
		{"LOCKPROXY LOCKS 0", "*2 7 *1 *18 key job " + flat},
		{"LOCKPROXY LOCKS 3 COUNT 5000 MATCH j*", "*2 7 *1 *18 key job " + flat},
		{"LOCKPROXY LOCKS x", "-ERR invalid cursor"},
		{"LOCKPROXY LOCKS 0 COUNT 0", "-ERR value is not an integer or out of range"},
		{"LOCKPROXY LOCKS 0 COUNT +5", "-ERR value is not an integer or out of range"},
		{"LOCKPROXY RELEASE job", ":1"},
	} {
		t.Run(tt.ask, func(t *testing.T) {
			if got := ask(t, c, r, strings.Fields(tt.ask)...); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.ask, got, tt.want)
			}
		})
	}
	want := []string{`inspect "job"`, `scan 0 "" 10`, `scan 3 "j*" 1000`, `release key "job"`}
	if asked := locker.take(); !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if got := ask(t, c, r, "LOCKPROXY", "INFO"); !strings.Contains(got, "lockproxy_version:v0\r\n") ||
		!strings.Contains(got, "waiting:0\r\n") {
		t.Errorf("INFO says %q", got)
	}
	if got := ask(t, c, r, "LOCKPROXY", "HELP"); !strings.HasPrefix(got,
		fmt.Sprintf("*%d +LOCKPROXY <subcommand>", len(helpLines)+len(lockHelp))) {
		t.Errorf("HELP says %q", got)
	}
}

// TestGrantWithoutReplyIsGivenBack: a grant whose reply cannot be written is given back.
func TestGrantWithoutReplyIsGivenBack(t *testing.T) {
	for _, w := range ways {
		testAbandoned(t, w, "LOCK job 5000")
		asked := testAbandoned(t, w, "LOCK a 5000 KEYS 2 b job")
		for i, key := range []string{"a", "b", "job"} {
			if want := fmt.Sprintf("abandon %q %v", key, aToken); len(asked) != 4 || asked[1+i] != want {
				t.Errorf("%s: asked %q, want %s", w, asked, want)
			}
		}
	}
}

func testAbandoned(t *testing.T, w way, line string) (asked []string) {
	t.Helper()
	c, _, locker, _ := startAs(t, w, nil)
	locker.block = make(chan struct{})
	fmt.Fprint(c, line+"\r\n")
	for {
		locker.mu.Lock()
		n := len(locker.asked)
		locker.mu.Unlock()
		if n > 0 {
			break
		}
	}
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
	close(locker.block)
	want := fmt.Sprintf("abandon %q %v", "job", aToken)
	for deadline := time.Now().Add(time.Minute); ; {
		locker.mu.Lock()
		last := locker.asked[len(locker.asked)-1]
		locker.mu.Unlock()
		if last == want {
			return locker.take()
		}
		if time.Now().After(deadline) {
			t.Fatalf("last asked: %s; want %s", last, want)
		}
	}
}
