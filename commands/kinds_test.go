package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

// fifteen are as many keys as KEYS takes, beside the key of the command.
func fifteen() []string { return strings.Fields("b c d e f g h i j k l m n o p") }

// TestFormsOfLocksAskMastersAndReply: each form of the commands, the request to the masters, and
// the reply.
func TestFormsOfLocksAskMastersAndReply(t *testing.T) {
	token := aToken.String()
	all, long := fmt.Sprintf("%q", fifteen()), fifteen()
	for i := range long {
		long[i] = strings.Repeat(long[i], maxKey)
	}
	for _, tt := range []struct {
		send  string
		want  string
		asked string
	}{
		{"LOCK a 5s SHARED", token, `acquire "a" 5s shared`},
		{"LOCK a 5s shared FULL", "*3 " + token + " :7 :4991", `acquire "a" 5s shared`},
		{"LOCK a 5s LIMIT 3", token, `acquire "a" 5s limit 3`},
		{"LOCK a 5s FULL LIMIT 128", "*4 " + token + " :7 :4991 :2", `acquire "a" 5s limit 128`},
		{"LOCK a 5s LIMIT 1 OWNER me SESSION", token, `acquire "a" 5sme limit 1`},
		{"LOCK a 5s KEYS 1 b", token, `acquire "a" 5s and ["b"]`},
		{"LOCK a 5s FULL keys 2 b full OWNER me", "*3 " + token + " :7 :4991", `acquire "a" 5sme and ["b" "full"]`},
		{"LOCK a 5s KEYS 15 " + strings.Join(fifteen(), " "), token, `acquire "a" 5s and ` + all},
		{"LOCK a 5s KEYS 1 b SESSION WAIT 1s", token, `acquire "a" 5s and ["b"]`},
		{"LOCK a 5s WAIT 1s SHARED", token, `acquire "a" 5s shared`},
		{"LOCK a 5s LIMIT 2 WAIT 1s", token, `acquire "a" 5s limit 2`},
		{"LOCK a 5s OWNER me FULL SESSION WAIT 5s KEYS 15 " + strings.Join(long, " "), "*3 " + token + " :7 :4991",
			fmt.Sprintf(`acquire "a" 5sme and %q`, long)},
		{"LOCK help 5s", token, `acquire "help" 5s`},

		{"UNLOCK a " + token + " KEYS 2 b c", ":1", `release ["a" "b" "c"] ` + token + ` keep 0s`},
		{"UNLOCK a " + token + " KEEP 30s", ":1", `release ["a"] ` + token + ` keep 30s`},
		{"UNLOCK a " + token + " keep 10 keys 1 b", ":1", `release ["a" "b"] ` + token + ` keep 10ms`},
		{"EXTEND a " + token + " 5s KEYS 1 b FULL", "*2 :1 :4991", `extend ["a" "b"] ` + token + ` 5s shared false`},
		{"EXTEND a " + token + " 5s FULL shared", "*2 :1 :4991", `extend ["a"] ` + token + ` 5s shared true`},
		{"EXTEND a " + token + " 5s SHARED", ":1", `extend ["a"] ` + token + ` 5s shared true`},
		{"EXTEND a " + token + " 5s SESSION", ":1", `extend ["a"] ` + token + ` 5s shared false`},
		{"EXTEND a " + token + " 5s full session", "*2 :1 :4991", `extend ["a"] ` + token + ` 5s shared false`},
		{"EXTEND a " + token + " 5s SESSION KEYS 1 b", ":1", `extend ["a" "b"] ` + token + ` 5s shared false`},
		{"EXTEND a " + token + " 5s SHARED SESSION", ":1", `extend ["a"] ` + token + ` 5s shared true`},
		{"LOCKINFO a SINCE 0", "$-1", `inspect "a"`},
		{"LOCKINFO a since 0000000000000007", "$-1", `inspect "a"`},
		{"LOCKINFO a WAIT 1s SINCE 7", "$-1", `follow "a"; inspect "a"`},
	} {
		t.Run(tt.send, func(t *testing.T) {
			for _, w := range ways {
				c, r, locker, _ := startAs(t, w, nil)
				argv := strings.Fields(tt.send)
				got := steady(ask(t, c, r, argv...))
				if asked := strings.Join(locker.take(), "; "); got != tt.want || asked != tt.asked {
					t.Errorf("%s: %.80s: got %q, asked %.80s; want %q, %.80s", w, tt.send, got, asked, tt.want, tt.asked)
				}
				if begun := locker.begun.Load() == 1; begun != (w != byHandler && canBegin(argv, got)) {
					t.Errorf("%s: %s: begun is %v", w, tt.send, begun)
				}
				c.Close()
			}
		})
	}
}

// kindErrors are commands with wrong options, and the replies.
func kindErrors() []struct{ send, want string } {
	token := aToken.String()
	const (
		keys, limit = "-ERR invalid number of keys in '%s' command: want 1 to 15",
			"-ERR invalid limit in 'lock' command: want 1 to 128"
		fence = "-ERR invalid fence in 'lockinfo' command: want 1 to 16 decimal digits"
	)
	unlock, extend := "UNLOCK a "+token, "EXTEND a "+token+" 5s"
	tests := []struct{ send, want string }{
		{"LOCK a 5s KEYS 1 a", "-ERR invalid key: it is named twice"},
		{"LOCK a 5s KEYS 3 b c b", "-ERR invalid key: it is named twice"},
		{unlock + " KEYS 1 a", "-ERR invalid key: it is named twice"},
		{"LOCK a 5s KEYS 1 " + strings.Repeat("k", 1025), "-ERR invalid key: it is longer than 1024 bytes"},
		{unlock + " KEEP 0", "-ERR invalid expire time in 'unlock' command: want digits, which are milliseconds, or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s"}, {unlock + " KEEP 61s", "-ERR ttl 61000 exceeds max-ttl 60000: it is 61s, and 10ms to 60s is allowed"},
		{unlock + " KEEP 5", "-ERR ttl 5 is under min-ttl 10: it is 5ms (5 seconds are 5s), and 10ms to 60s is allowed"},
		{"LOCKINFO a SINCE x", fence}, {"LOCKINFO a SINCE -1", fence}, {"LOCKINFO a SINCE 00000000000000001", fence},
		{"LOCKINFO a SINCE 1 WAIT x", "-ERR invalid timeout in 'lockinfo' command: want digits, which are milliseconds, or digits with ms, s, m or h (30s, 1m30s)"},
		{"LOCK a 5000000000", "-ERR ttl 5000000000 exceeds max-ttl 60000: is it in nanoseconds? 5000000000ns are 5s, and 10ms to 60s is allowed"},
		{"LOCK a 10000000", "-ERR ttl 10000000 exceeds max-ttl 60000: is it in nanoseconds? 10000000ns are 10ms, and 10ms to 60s is allowed"},
		{extend[:len(extend)-2] + "60000000000",
			"-ERR ttl 60000000000 exceeds max-ttl 60000: is it in nanoseconds? 60000000000ns are 60s, and 10ms to 60s is allowed"},
		{"LOCK a 90000000000", "-ERR ttl 90000000000 exceeds max-ttl 60000: is it in nanoseconds? 90000000000ns are 90s, and 10ms to 60s is allowed"},
		{"LOCK a 86400000000001", "-ERR ttl 86400000000001 exceeds max-ttl 60000: it is more than 292 years, and 10ms to 60s is allowed"},
		{"LOCK a 9999999", "-ERR ttl 9999999 exceeds max-ttl 60000: it is 9999999ms, and 10ms to 60s is allowed"},
		{"LOCK a 5000000000ms", "-ERR ttl 5000000000 exceeds max-ttl 60000: it is 5000000s, and 10ms to 60s is allowed"},
	}
	for _, n := range []string{"0", "16", "-1", "+1", "x", "1.0", "99999999999999999999"} {
		for _, form := range []string{"LOCK a 5s", unlock, extend} {
			name, _, _ := strings.Cut(form, " ")
			tests = append(tests, struct{ send, want string }{form + " KEYS " + n + " b",
				fmt.Sprintf(keys, strings.ToLower(name))})
		}
	}
	for _, n := range []string{"0", "129", "-1", "x", "99999999999999999999"} {
		tests = append(tests, struct{ send, want string }{"LOCK a 5s LIMIT " + n, limit})
	}
	return tests
}

// TestKindErrors: wrong options are refused in the words of the contract, in both versions of the
// protocol, and no master is asked.
func TestKindErrors(t *testing.T) {
	for _, w := range ways {
		c, r, locker, _ := startAs(t, w, nil)
		for _, tt := range kindErrors() {
			if got := ask(t, c, r, strings.Fields(tt.send)...); got != tt.want {
				t.Errorf("%s: %s: got %q, want %q", w, tt.send, got, tt.want)
			}
		}
		if got := ask(t, c, r, "UNLOCK", "a", ""); got != "-ERR invalid token: it is empty: did LOCK answer null?" {
			t.Errorf("%s: an empty token: %s", w, got)
		}
		if got := ask(t, c, r, "LOCK", "a", "5s", "KEYS", "1", ""); got != "-ERR invalid key: it is empty" {
			t.Errorf("%s: an empty further key: %s", w, got)
		}
		if asked := locker.take(); asked != nil {
			t.Errorf("%s: the masters were asked %q", w, asked)
		}
	}
	c, r, _, _ := start(t, func(o *Options) { o.KeyPrefix = "" })
	if got := ask(t, c, r, "LOCK", "a", "5s", "KEYS", "2", "b", "lockproxy:x"); !strings.HasPrefix(got,
		"-ERR invalid key: names that begin with lockproxy:") {
		t.Errorf("a reserved name after KEYS: %s", got)
	}
}

// TestKindTranscripts: the bytes of replies in both versions of the protocol, and the reports.
func TestKindTranscripts(t *testing.T) {
	dial := redisDial(t)
	token := aToken.String()
	bulk := "$57\r\n" + token + "\r\n"
	noQuorum := &quorum.NoQuorumError{Answered: 1, N: 3, Needed: 2,
		Masters: []quorum.MasterError{{Name: "m", Err: errors.New("is down")}}}
	const noQuorumText = "-NOQUORUM 1 of 3 masters can vote, 2 needed: m is down\r\n"
	for _, tt := range []struct {
		before, send string
		err          error
		want         string
		report       string
	}{
		{"", "LOCK a 5s LIMIT 3 FULL", nil, "*4\r\n" + bulk + ":7\r\n:4991\r\n:2\r\n", `lock granted "a" 7 limit ttl 5s`},
		{"HELLO 3", "LOCK a 5s LIMIT 3 FULL", nil, "*4\r\n" + bulk + ":7\r\n:4991\r\n:2\r\n",
			`lock granted "a" 7 limit ttl 5s`},
		{"", "LOCK a 5s LIMIT 3 FULL", &quorum.HeldError{}, "$-1\r\n", `lock taken "a" 0 limit ttl 5s`},
		{"HELLO 3", "LOCK a 5s LIMIT 3 FULL", &quorum.HeldError{}, "_\r\n", `lock taken "a" 0 limit ttl 5s`},
		{"", "LOCK a 5s SHARED", nil, bulk, `lock granted "a" 7 shared ttl 5s`},
		{"HELLO 3", "LOCK a 5s SHARED", &quorum.HeldError{}, "_\r\n", `lock taken "a" 0 shared ttl 5s`},
		{"", "LOCK a 5s KEYS 1 b", nil, bulk, `lock granted "a" and ["b"] 7 keys ttl 5s`},
		{"HELLO 3", "LOCK a 5s KEYS 1 b", noQuorum, noQuorumText, `lock noquorum "a" and ["b"] 0 keys ttl 5s`},
		{"", "LOCK a 5s KEYS 1 no", nil, "-NOPERM not this key\r\n", `lock denied "a" and ["no"] 0 keys ttl 5s`},
		{"LOCK a 5s KEYS 1 b", "UNLOCK a " + token + " KEYS 1 b", nil, bulk + ":1\r\n",
			`lock granted "a" and ["b"] 7 keys ttl 5s; unlock released "a" and ["b"] 7 held`},
		{"", "UNLOCK a " + token + " KEEP 5s", nil, ":1\r\n", `unlock released "a" 7 keep 5s`},
		{"", "UNLOCK a " + token + " KEEP 5s", noQuorum, noQuorumText, `unlock noquorum "a" 7 keep 5s`},
		{"", "UNLOCK a " + token + " KEYS 1 no", nil, "-NOPERM not this key\r\n", `unlock denied "a" and ["no"] 7`},
		{"HELLO 3", "EXTEND a " + token + " 5s KEYS 1 b FULL", nil, "*2\r\n:1\r\n:4991\r\n",
			`extend extended "a" and ["b"] 7 ttl 5s`},
		{"", "EXTEND a " + token + " 5s KEYS 1 b", quorum.ErrLost, ":0\r\n", `extend lost "a" and ["b"] 7 ttl 5s`},
		{"", "EXTEND a " + token + " 5s SHARED FULL", quorum.ErrLost, "*2\r\n:0\r\n:0\r\n", `extend lost "a" 7 ttl 5s`},
		{"", "EXTEND a " + token + " 5s SHARED", quorum.ErrWrongMode, "-ERR a lock with LIMIT cannot become SHARED\r\n",
			`extend invalid "a" 7 ttl 5s`},
		{"", "EXTEND a " + token + " 5s SHARED", quorum.ErrLate,
			"-TRYAGAIN a majority answered, but too late: no validity was left\r\n", `extend tryagain "a" 7 ttl 5s`},
		{"", "EXTEND a " + token + " 5s KEYS 1 no", nil, "-NOPERM not this key\r\n",
			`extend denied "a" and ["no"] 7 ttl 5s`},
		{"", "LOCKINFO a SINCE 1", nil, "$-1\r\n", `lockinfo ok "a" 0`},
		{"HELLO 3", "LOCKINFO a SINCE 1 WAIT 1s", nil, "_\r\n", `lockinfo ok "a" 0`},
		{"", "LOCKINFO a SINCE 1 WAIT 10ms", noQuorum, noQuorumText, `lockinfo noquorum "a" 0`},
		{"", "LOCKINFO no SINCE 1 WAIT 10ms", nil, "-NOPERM not this key\r\n", `lockinfo denied "no" 0`},
		{"MULTI", "LOCK a 5s SHARED", nil, "-ERR LOCK is not allowed in transactions\r\n", `lock invalid "" 0 as `},
	} {
		t.Run(strings.TrimSpace(tt.before+" "+tt.send), func(t *testing.T) {
			for _, w := range ways {
				locker := &fakeLocker{err: tt.err, held: true, later: w == elsewhere}
				c := sendTo(t, w, locker, dial, tt.before, tt.send)
				if !strings.Contains(tt.send, "WAIT") { // who leaves does not wait
					c.CloseWrite()
				} else {
					io.WriteString(c, "PING\r\n")
				}
				if got, err := readUntilPong(c); err != nil || !strings.HasSuffix("\n"+steady(got), "\n"+tt.want) {
					t.Errorf("%s: %s, %s: got %q %v, want %q", w, tt.before, tt.send, got, err, tt.want)
				}
				if got := locker.events.take(); got != tt.report {
					t.Errorf("%s: %s, %s: reported %s, want %s", w, tt.before, tt.send, got, tt.report)
				}
			}
		})
	}
}

// readUntilPong returns the bytes before +PONG, or before the end.
func readUntilPong(c net.Conn) (string, error) {
	var all []byte
	for b := make([]byte, 4096); ; {
		n, err := c.Read(b)
		all = append(all, b[:n]...)
		if before, pong := strings.CutSuffix(string(all), "+PONG\r\n"); pong || err == io.EOF {
			return before, nil
		}
		if err != nil {
			return string(all), err
		}
	}
}

// TestSlotsAreListedForLimitOnly: LOCKINFO and LOCKS show the slots of a lock with LIMIT, and no
// other has any.
func TestSlotsAreListedForLimitOnly(t *testing.T) {
	c, r, locker, _ := start(t, func(o *Options) { o.AdminCommands = true })
	slots := []stat.Slot{{Slot: 0, Fence: 7, Owner: "me", TTL: 1000}, {Slot: 3, Fence: 9, TTL: 2000}}
	const (
		head = "held :3 masters :5 ttl :2000 fence :9 owner  waiting :0 "
		list = " slots *2 *8 slot :0 fence :7 owner me ttl :1000 *8 slot :3 fence :9 owner  ttl :2000"
	)
	for mode, want := range map[quorum.Mode]string{
		quorum.Limited: head + "mode limit holders :2" + list,
		quorum.Shared:  head + "mode shared holders :2",
		quorum.Kept:    head + "mode kept holders :2",
		quorum.Foreign: head + "mode foreign holders :2 type hash",
	} {
		t.Run(mode.String(), func(t *testing.T) {
			locker.info = quorum.Info{Key: "a", Held: 3, Masters: 5, TTL: 2 * time.Second, Fence: 9, Mode: mode, Holders: 2}
			fields := 8
			switch mode {
			case quorum.Limited:
				locker.info.Slots = slots
				fields++
			case quorum.Foreign:
				locker.info.Type = "hash"
				fields++
			}
			if got := ask(t, c, r, "LOCKINFO", "a"); got != fmt.Sprintf("*%d %s", 2*fields, want) {
				t.Errorf("LOCKINFO: %s", got)
			}
			if got := ask(t, c, r, "LOCKPROXY", "LOCKS", "0"); got != fmt.Sprintf("*2 7 *1 *%d key a %s", 2*fields+2, want) {
				t.Errorf("LOCKS: %s", got)
			}
		})
	}
}

// TestSlotsAreMapsInRESP3: the slots that LOCKINFO lists are maps.
func TestSlotsAreMapsInRESP3(t *testing.T) {
	locker := &fakeLocker{info: quorum.Info{Key: "a", Held: 1, Masters: 1, Mode: quorum.Limited, Holders: 1,
		Slots: []stat.Slot{{Slot: 5, Fence: 7}}}}
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, MaxTTL: time.Minute})
	c := serve(t, byHandler, service, locker, resp.Options{Dial: redisDial(t)}).(*net.TCPConn)
	io.WriteString(c, "HELLO 3\r\nLOCKINFO a\r\n")
	c.CloseWrite()
	got, _ := io.ReadAll(c)
	want := "$5\r\nslots\r\n*1\r\n%4\r\n$4\r\nslot\r\n:5\r\n$5\r\nfence\r\n:7\r\n$5\r\nowner\r\n$0\r\n\r\n$3\r\nttl\r\n:0\r\n"
	if !strings.HasSuffix(string(got), want) || !strings.Contains(string(got), "%9\r\n$4\r\nheld\r\n") {
		t.Errorf("got %q", got)
	}
}

// TestHelpTakesNoLockAndAsksNoMaster: LOCK HELP takes no lock and asks no master; LOCKPROXY HELP
// has the same lines.
func TestHelpTakesNoLockAndAsksNoMaster(t *testing.T) {
	for _, w := range ways {
		c, r, locker, _ := startAs(t, w, func(o *Options) { o.Permission = &fakePermission{} })
		lock, proxy := ask(t, c, r, "LOCK", "help"), ask(t, c, r, "LOCKPROXY", "HELP")
		_, lines, _ := strings.Cut(lock, " ")
		for _, form := range []string{"LOCK <key>", "UNLOCK <key>", "EXTEND <key>", "LOCKINFO <key>"} {
			if !strings.Contains(lock, "+"+form) {
				t.Errorf("%s: LOCK HELP lacks %s: %s", w, form, lock)
			}
		}
		if !strings.HasSuffix(proxy, lines) || !strings.Contains(proxy, "+ADMIT <master> [FORCE]") {
			t.Errorf("%s: LOCKPROXY HELP: %s", w, proxy)
		}
		if asked := locker.take(); asked != nil {
			t.Errorf("%s: asked %q", w, asked)
		}
	}
}

// TestKeysGivenBack: a grant of several keys that cannot be delivered is given back with all of
// them.
func TestKeysGivenBack(t *testing.T) {
	want := []string{fmt.Sprintf("abandon %q %v", "a", aToken), fmt.Sprintf("abandon %q %v", "b", aToken)}
	c, r, locker, _ := start(t, func(o *Options) {
		o.Permission = &twicePermission{second: func() (string, error) { return "no right", nil }}
	})
	// the first request is about a; the second, about b, refuses
	if got := ask(t, c, r, "LOCK", "a", "5s", "KEYS", "1", "b"); got != "-NOPERM no right" || locker.take() != nil {
		t.Errorf("the right to one of two keys: %s", got)
	}
	late := &latePermission{refuse: "lock:b"}
	c, r, locker, _ = start(t, func(o *Options) { o.Permission = late })
	if got := ask(t, c, r, "LOCK", "a", "5s", "KEYS", "1", "b", "WAIT", "1s"); got != "-NOPERM no right" {
		t.Errorf("after the wait: %s", got)
	}
	if asked := locker.take(); len(asked) != 3 || !slices.Equal(asked[1:], want) {
		t.Errorf("asked %q, want %q after the acquire", asked, want)
	}
}

// latePermission permits each key once, and then refuses one of them.
type latePermission struct {
	Rights // nil
	refuse string
	seen   bool
}

func (p *latePermission) MayWrite(_ context.Context, _, key string) (string, error) {
	if key == p.refuse && p.seen {
		return "no right", nil
	}
	p.seen = p.seen || key == p.refuse
	return "", nil
}

func (p *latePermission) Known(string, string) (string, bool) { return "", false }

// TestSharedKeepsSession: EXTEND with SHARED of a session lock leaves it a session lock; UNLOCK of
// some of its keys ends the renewal.
func TestSharedKeepsSession(t *testing.T) {
	locker := &fakeLocker{held: true}
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, MaxTTL: time.Minute,
		Tunable: Tunable{SessionMaxHold: time.Hour, SessionTimeout: time.Minute}})
	c := serve(t, byHandler, service, locker, resp.Options{})
	r := bufio.NewReader(c)
	ask(t, c, r, "LOCK", "a", "5s", "SESSION")
	if got := ask(t, c, r, "EXTEND", "a", aToken.String(), "5s", "SHARED"); got != ":1" ||
		service.Counts().SessionLocks != 1 {
		t.Errorf("got %s, %d session locks", got, service.Counts().SessionLocks)
	}
	ask(t, c, r, "UNLOCK", "a", aToken.String(), "KEYS", "1", "b")
	if n := service.Counts().SessionLocks; n != 0 {
		t.Errorf("%d session locks after UNLOCK", n)
	}
	locker.take()
	ask(t, c, r, "LOCK", "a", "5s", "KEYS", "2", "b", "c", "SESSION")
	c.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		locker.mu.Lock()
		n := len(locker.asked)
		locker.mu.Unlock()
		if n == 4 || time.Now().After(deadline) {
			break
		}
	}
	asked := locker.take()
	for i, key := range []string{"a", "b", "c"} {
		if want := fmt.Sprintf("abandon %q %v", key, aToken); len(asked) != 4 || asked[i+1] != want {
			t.Fatalf("asked %q, want %s", asked, want)
		}
	}
}
