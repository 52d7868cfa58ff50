package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/integration/redistest"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

func (f *fakeLocker) answer(done func()) {
	switch {
	case f.kept != nil:
		f.kept <- done
	case f.later:
		go done()
	default:
		done()
	}
}

func (f *fakeLocker) AcquireAsync(r quorum.Request, done func(quorum.Lease, error)) (leave func() bool) {
	f.answer(func() { done(f.Acquire(context.Background(), r)) })
	return nil
}

func (*fakeLocker) Flush() {}
func (*fakeLocker) Drain() {}

func (f *fakeLocker) ReleaseAsync(r quorum.ReleaseRequest, done func(bool, error)) {
	f.answer(func() { done(f.release(append([]string{r.Key}, r.Keys...), r.Token, r.Keep)) })
}

func (f *fakeLocker) ExtendAsync(_ context.Context, r quorum.ExtendRequest, done func(time.Duration, error)) {
	f.answer(func() { done(f.extend(append([]string{r.Key}, r.Keys...), r.Token, r.TTL, r.Share)) })
}

// beginFirst is a handler that tries Begin first, like an event loop.
type beginFirst struct {
	t        *testing.T
	service  *Service
	locker   *fakeLocker
	handlers redcon.Handler
}

func (b *beginFirst) ServeRESP(conn redcon.Conn, cmd redcon.Command) {
	replied := make(chan struct{}, 2)
	before := b.state()
	if !b.service.Begin(conn, cmd, func() { replied <- struct{}{} }) {
		if after := b.state(); after != before || len(replied) > 0 {
			b.t.Errorf("%q was not begun, but it changed %s to %s", cmd.Args, before, after)
		}
		b.handlers.ServeRESP(conn, cmd)
		return
	}
	b.locker.begun.Add(1)
	<-replied
	if len(replied) > 0 {
		b.t.Errorf("%q was answered twice", cmd.Args)
	}
}

// state returns everything that a command changes.
func (b *beginFirst) state() string {
	b.locker.events.mu.Lock()
	reported := len(b.locker.events.all)
	b.locker.events.mu.Unlock()
	b.locker.mu.Lock()
	defer b.locker.mu.Unlock()
	var counts []uint64
	for _, c := range infoCounters {
		counts = append(counts, b.service.outcomes.counters[c.of[0]].Load())
	}
	return fmt.Sprint(b.locker.asked, reported, b.service.Counts(), counts)
}

// redisDial starts a real Redis for the test and returns how to dial it.
func redisDial(t *testing.T) func(context.Context) (net.Conn, error) {
	t.Helper()
	s := redistest.Start(t)
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, s.Network, s.Addr)
	}
}

// reports are the events that Options.Report received.
type reports struct {
	mu  sync.Mutex
	all []string
}

func (r *reports) done(d stat.Event) {
	if d.Refused != "" {
		r.add("refused " + d.Refused)
		return
	}
	var line strings.Builder
	line.WriteString(fmt.Sprintf("%s %s %q", d.Command, d.Outcome, d.Key))
	if len(d.Keys) > 0 {
		fmt.Fprintf(&line, " and %q", d.Keys)
	}
	fmt.Fprintf(&line, " %d", d.Fence)
	for _, part := range []struct {
		there bool
		text  string
	}{{d.Owner != "", " owner " + d.Owner}, {d.Kind != "" && d.Kind != stat.KindExclusive, " " + string(d.Kind)},
		{d.TTL > 0, " ttl " + d.TTL.String()}, {d.Keep > 0, " keep " + d.Keep.String()}, {d.Session, " session"},
		{d.Held > 0, " held"},
		{d.Took <= 0 && d.Command != "session", " in no time"}, {d.User != "default", " as " + d.User},
		{d.Client == nil, " of nobody"},
		{d.Via != "", " via " + d.Via}, {d.Do != "", " do " + d.Do}} {
		if part.there {
			line.WriteString(part.text)
		}
	}
	r.add(line.String())
}

func (r *reports) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, line)
}

func (r *reports) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.all = nil }()
	return strings.Join(r.all, "; ")
}

// TestBegunTranscripts: a command that was begun gives the client the bytes of the handler, and
// Options.Report the same report, for each way in which it can end.
func TestBegunTranscripts(t *testing.T) {
	dial := redisDial(t)
	token := aToken.String()
	bulk := "$57\r\n" + token + "\r\n"
	unlock, extend := "UNLOCK job "+token, "EXTEND job "+token+" 5s"
	noQuorum := &quorum.NoQuorumError{Answered: 1, N: 3, Needed: 2,
		Masters: []quorum.MasterError{{Name: "m", Err: errors.New("is down")}}}
	for _, tt := range []struct {
		before, send string
		err          error
		notHeld      bool
		want         string
		report       string
	}{
		{"", "LOCK job 5000", nil, false, bulk, `lock granted "job" 7 ttl 5s`},
		{"", "LOCK job 5s FULL OWNER me", nil, false, "*3\r\n" + bulk + ":7\r\n:4991\r\n",
			`lock granted "job" 7 owner me ttl 5s`},
		{"HELLO 3", "LOCK job 5s FULL", nil, false, "*3\r\n" + bulk + ":7\r\n:4991\r\n", `lock granted "job" 7 ttl 5s`},
		{"", "LOCK job 5s SESSION", nil, false, bulk,
			`lock granted "job" 7 ttl 5s session; session released "job" 7 ttl 5s session held as `},
		{"", "LOCK job 5000", &quorum.HeldError{}, false, "$-1\r\n", `lock taken "job" 0 ttl 5s`},
		{"HELLO 3", "LOCK job 5000", &quorum.HeldError{}, false, "_\r\n", `lock taken "job" 0 ttl 5s`},
		{"", "LOCK job 5000", noQuorum, false, "-NOQUORUM 1 of 3 masters can vote, 2 needed: m is down\r\n",
			`lock noquorum "job" 0 ttl 5s`},
		{"", "LOCK job 5000", quorum.ErrLate, false, "-TRYAGAIN a majority answered, but too late: no validity was left\r\n",
			`lock tryagain "job" 0 ttl 5s`},
		{"", "LOCK job 5000", quorum.ErrFence, false, "-TRYAGAIN the second fencing round found no majority\r\n",
			`lock tryagain "job" 0 ttl 5s`},
		{"", "LOCK job 5000", errors.New("surprise"), false, "-ERR internal\r\n", `lock internal "job" 0 ttl 5s`},
		{"LOCK job 5000", unlock, nil, false, bulk + ":1\r\n", `lock granted "job" 7 ttl 5s; unlock released "job" 7 held`},
		{"", unlock, nil, false, ":1\r\n", `unlock released "job" 7`},
		{"", unlock, nil, true, ":0\r\n", `unlock not_held "job" 7`},
		{"", unlock, noQuorum, false, "-NOQUORUM 1 of 3 masters can vote, 2 needed: m is down\r\n",
			`unlock noquorum "job" 7`},
		{"", extend, nil, false, ":1\r\n", `extend extended "job" 7 ttl 5s`},
		{"HELLO 3", extend + " FULL", nil, false, "*2\r\n:1\r\n:4991\r\n", `extend extended "job" 7 ttl 5s`},
		{"", extend + " SESSION", nil, false, ":1\r\n",
			`extend extended "job" 7 ttl 5s session; session released "job" 7 ttl 5s session held as `},
		{"", extend + " SESSION", quorum.ErrLost, false, ":0\r\n", `extend lost "job" 7 ttl 5s session`},
		{"", extend, quorum.ErrLost, false, ":0\r\n", `extend lost "job" 7 ttl 5s`},
		{"", extend + " FULL", quorum.ErrLost, false, "*2\r\n:0\r\n:0\r\n", `extend lost "job" 7 ttl 5s`},
		{"", extend, quorum.ErrLate, false, "-TRYAGAIN a majority answered, but too late: no validity was left\r\n",
			`extend tryagain "job" 7 ttl 5s`},
		{"", "LOCK job", nil, false, "-ERR wrong number of arguments for 'lock' command\r\n", `lock invalid "" 0`},
		{"", "UNLOCK job x", nil, false, "-ERR invalid token: it must be 16 decimal digits, a colon and 40 lower-case hex digits\r\n", `unlock invalid "job" 0`},
		{"MULTI", "LOCK job", nil, false, "-ERR LOCK is not allowed in transactions\r\n", `lock invalid "" 0 as `},
		{"SUBSCRIBE c", "LOCK no 5s", nil, false,
			"-ERR Can't execute 'lock': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n", `lock invalid "no" 0 ttl 5s as `},
		{"HELLO 3\r\nSUBSCRIBE c", "LOCK job 5s", nil, false, bulk, `lock granted "job" 7 ttl 5s`},
		{"", "LOCK no 5s", nil, false, "-NOPERM not this key\r\n", `lock denied "no" 0 ttl 5s`},
	} {
		t.Run(strings.TrimSpace(tt.before+" "+tt.send), func(t *testing.T) {
			for _, w := range ways {
				locker := &fakeLocker{err: tt.err, held: !tt.notHeld, later: w == elsewhere}
				c := sendTo(t, w, locker, dial, tt.before, tt.send)
				c.CloseWrite()
				if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix("\n"+steady(string(got)), "\n"+tt.want) {
					t.Errorf("%s: %s, %s: got %q %v, want %q", w, tt.before, tt.send, got, err, tt.want)
				}
				if got := locker.events.take(); got != tt.report {
					t.Errorf("%s: %s, %s: reported %s, want %s", w, tt.before, tt.send, got, tt.report)
				}
				if (locker.begun.Load() > 0) != (w != byHandler) {
					t.Errorf("%s: %s: begun %d times", w, tt.send, locker.begun.Load())
				}
			}
		})
	}
}

// sendTo starts a service that may not use the key "no", and sends commands to it: what goes
// before, if anything, and then the one under test.
func sendTo(t *testing.T, w way, locker *fakeLocker, dial func(context.Context) (net.Conn, error), before,
	send string) *net.TCPConn {
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{},
		Permission: knownPermission{"lock:no": "not this key"}, KeyPrefix: "lock:", MaxTTL: time.Minute,
		Report: locker.events.done, Tunable: Tunable{MinTTL: time.Millisecond, ShowMasters: true, MaxWaiters: 5,
			SessionMaxHold: time.Hour, SessionTimeout: 10 * time.Second}})
	c := serve(t, w, service, locker, resp.Options{Dial: dial, AskUser: true}).(*net.TCPConn)
	io.WriteString(c, strings.TrimPrefix(before+"\r\n"+send+"\r\n", "\r\n"))
	return c
}

// knownPermission refuses keys, in the words that it has for them, and needs no request for that.
type knownPermission map[string]string

func (p knownPermission) Writable(context.Context, string, []string) ([]string, error) {
	panic("LOCKPROXY LOCKS does not begin")
}

func (p knownPermission) MayConfigure(context.Context, string) (string, error) {
	panic("LOCKPROXY ADMIT does not begin")
}

func (p knownPermission) Known(_, key string) (string, bool) { return p[key], true }

func (p knownPermission) MayWrite(context.Context, string, string) (string, error) {
	return "", errors.New("asked")
}

// TestNotBegun: Begin leaves commands that must wait to the handler, without an effect.
func TestNotBegun(t *testing.T) {
	token := aToken.String()
	for _, tt := range []struct {
		what, send, want string
		gate             fakeGate
		permission       Rights
	}{
		{"waits", "LOCK job 5000 WAIT 1s", token, fakeGate{}, nil},
		{"asks the masters for more", "LOCKINFO job", "$-1", fakeGate{}, nil},
		{"is about no lock", "LOCKPROXY RELEASE job",
			"-NOPERM LOCKPROXY RELEASE needs admin-commands: on, or a connection to a Unix socket of the proxy", fakeGate{},
			nil},
		{"the gate must ask", "LOCK job 5000", token, fakeGate{unknown: true}, nil},
		{"the gate must ask, no", "LOCK job 5000", "-NOAUTH Authentication required.",
			fakeGate{unknown: true, required: true}, nil},
		{"the gate must ask", "EXTEND job " + token + " 5s", ":1", fakeGate{unknown: true}, nil},
		{"the permission must be asked", "LOCK job 5000 SESSION", token, fakeGate{}, &fakePermission{}},
		{"the permission must be asked", "UNLOCK job " + token, ":1", fakeGate{}, &fakePermission{}},
		{"the permission must be asked, no", "UNLOCK no " + token,
			"-NOPERM This user has no permissions to access the 'lock:no  ' key", fakeGate{}, &fakePermission{}},
		{"the permission must be asked", "EXTEND job " + token + " 5s", ":1", fakeGate{}, &fakePermission{}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			for _, w := range ways[1:] {
				c, r, locker, gate := startAs(t, w, func(o *Options) { o.Permission = tt.permission })
				gate.unknown = false
				if tt.permission == nil {
					ask(t, c, r, "LOCK", "job", "5000", "SESSION") // so that there is something that could end
				}
				*gate = tt.gate
				before := locker.begun.Load()
				if got := ask(t, c, r, strings.Fields(tt.send)...); got != tt.want {
					t.Errorf("%s: %s: %s: got %q, want %q", w, tt.what, tt.send, got, tt.want)
				}
				if locker.begun.Load() != before {
					t.Errorf("%s: %s: %s was begun", w, tt.what, tt.send)
				}
			}
		})
	}
}

// TestArgumentsComeFirst: wrong arguments are refused before the upstream or a master is asked.
func TestArgumentsComeFirst(t *testing.T) {
	for _, w := range ways {
		c, r, locker, _ := startAs(t, w, func(o *Options) { o.Gate = &fakeGate{unknown: true}; o.Permission = &fakePermission{} })
		if got := ask(t, c, r, "LOCK", "job", "0"); got != "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s" || locker.begun.Load() != 1 && w != byHandler {
			t.Errorf("%s: got %q, begun %d times", w, got, locker.begun.Load())
		}
	}
}

// TestUnlockEndsRenewal: the renewal of a session lock ends before the masters are asked to
// release its token.
func TestUnlockEndsRenewal(t *testing.T) {
	for _, w := range ways {
		locker := &fakeLocker{held: true, later: w == elsewhere}
		service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, MaxTTL: time.Minute,
			Tunable: Tunable{SessionMaxHold: time.Hour, SessionTimeout: time.Minute}})
		c := serve(t, w, service, locker, resp.Options{})
		r := bufio.NewReader(c)
		ask(t, c, r, "LOCK", "job", "5s", "SESSION")
		if n := service.Counts().SessionLocks; n != 1 {
			t.Fatalf("%s: %d session locks after LOCK SESSION", w, n)
		}
		locker.releasing = func() {
			if n := service.Counts().SessionLocks; n != 0 {
				t.Errorf("%s: %d locks are renewed while UNLOCK asks the masters", w, n)
			}
		}
		if got := ask(t, c, r, "UNLOCK", "job", aToken.String()); got != ":1" {
			t.Errorf("%s: UNLOCK: %s", w, got)
		}
	}
}

// panicking panics in AcquireAsync, before or after it has passed on the answer.
type panicking struct {
	*fakeLocker
	late chan func() // gets the answer that comes later; nil: it comes before
}

func (p *panicking) AcquireAsync(r quorum.Request, done func(quorum.Lease, error)) (leave func() bool) {
	answer := func() { done(p.Acquire(context.Background(), r)) }
	if p.late == nil {
		answer()
		panic("after the answer")
	}
	p.late <- answer
	panic("before the answer")
}

// wantEnd reads to the end of a connection, which must come without a further byte.
func wantEnd(t *testing.T, r io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
		t.Errorf("after the reply came %q %v, want the end", rest, err)
	}
}

// TestBegunPanics: a fault ends neither the process nor the connection without a reply, wherever
// it comes.
func TestBegunPanics(t *testing.T) {
	late := make(chan func(), 1)
	for _, tt := range []struct {
		what   string
		change func(o *Options, f *fakeLocker)
		want   string
		report string
	}{
		{"in a check", func(o *Options, _ *fakeLocker) { o.Permission = panicPermission{} }, "-ERR internal",
			`lock internal "job" 0 ttl 5s`},
		{"while asking", func(o *Options, f *fakeLocker) { o.Locker = &panicking{f, late} }, "-ERR internal",
			`lock internal "job" 0 ttl 5s`},
		{"after the answer", func(o *Options, f *fakeLocker) { o.Locker = &panicking{f, nil} }, aToken.String(),
			`lock granted "job" 7 ttl 5s`},
		{"with the answer", func(o *Options, f *fakeLocker) { f.err = panicError{} }, "-ERR internal",
			`lock internal "job" 0 ttl 5s`},
		{"in the report", func(o *Options, f *fakeLocker) {
			done := o.Report
			o.Report = func(d stat.Event) { done(d); panic("report") }
		}, "-ERR internal", `lock granted "job" 7 ttl 5s`},
	} {
		t.Run(tt.what, func(t *testing.T) {
			for _, w := range ways[1:] {
				var locker *fakeLocker
				c, r, _, _ := startAs(t, w, func(o *Options) {
					locker = o.Locker.(*fakeLocker)
					tt.change(o, locker)
				})
				if got := ask(t, c, r, "LOCK", "job", "5s"); got != tt.want {
					t.Errorf("%s: %s: got %q, want %q", w, tt.what, got, tt.want)
				}
				wantNothingAfter(t, late, r, tt.want)
				if got := locker.events.take(); got != tt.report || locker.begun.Load() != 1 {
					t.Errorf("%s: %s: reported %s, want %s", w, tt.what, got, tt.report)
				}
			}
		})
	}
}

// wantNothingAfter: an answer that comes late is no second reply, and an error reply ends the
// connection.
func wantNothingAfter(t *testing.T, late <-chan func(), r io.Reader, reply string) {
	t.Helper()
	if len(late) > 0 {
		(<-late)()
	}
	if reply[0] == '-' {
		wantEnd(t, r)
	}
}

type panicPermission struct{ Rights }

func (panicPermission) Known(string, string) (string, bool) { panic("on purpose") }

// panicError panics when errors.Is looks at it.
type panicError struct{ error }

func (panicError) Is(error) bool { panic("on purpose") }
