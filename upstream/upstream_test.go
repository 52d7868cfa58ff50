package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/integration/redistest"
)

// scripted starts a server on loopback that runs answer for each connection; n is its number.
func scripted(t *testing.T, answer func(n int, conn net.Conn)) Options {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(n, conn)
			}()
		}
	}()
	return Options{Network: "tcp", Addr: listener.Addr().String(), DialTimeout: time.Minute}
}

// request reads one array of bulk strings.
func request(r *bufio.Reader) string {
	var words []string
	head, err := r.ReadString('\n')
	if err != nil {
		return ""
	}
	for range int(head[1] - '0') {
		r.ReadString('\n')
		word, _ := r.ReadString('\n')
		words = append(words, strings.TrimSpace(word))
	}
	return strings.Join(words, " ")
}

func TestDialLeavesTheClientsBytes(t *testing.T) {
	var seen atomic.Value
	opts := scripted(t, func(_ int, conn net.Conn) {
		r := bufio.NewReader(conn)
		auth := request(r)
		io.WriteString(conn, "+OK\r\n")
		seen.Store(auth + "|" + request(r))
		io.WriteString(conn, "+OK\r\n>2\r\n+hello\r\n+there\r\n")
		io.Copy(io.Discard, conn)
	})
	opts.User, opts.Password, opts.DB = "app", "hush", 3
	conn, err := New(opts).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := seen.Load(); got != "AUTH app hush|SELECT 3" {
		t.Errorf("server saw %q", got)
	}
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	rest := make([]byte, len(">2\r\n+hello\r\n+there\r\n"))
	if _, err := io.ReadFull(conn, rest); err != nil || string(rest) != ">2\r\n+hello\r\n+there\r\n" {
		t.Errorf("got %q %v: bytes behind the replies are the client's", rest, err)
	}
}

func TestDialHasNoDeadlineLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				request(bufio.NewReader(server))
				io.WriteString(server, "+OK\r\n")
				time.Sleep(time.Hour)
				io.WriteString(server, "x")
			}()
			return client, nil
		}
		conn, err := New(Options{Addr: "u", Password: "p", Dial: dial}).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Errorf("reading after DialTimeout: %v", err)
		}
	})
}

func TestDialFails(t *testing.T) {
	silent := scripted(t, func(_ int, conn net.Conn) { io.Copy(io.Discard, conn) })
	silent.DialTimeout = 300 * time.Millisecond
	reply := func(text string) Options {
		return scripted(t, func(_ int, conn net.Conn) {
			r := bufio.NewReader(conn)
			request(r)
			io.WriteString(conn, text)
			request(r)
		})
	}
	for name, c := range map[string]struct {
		opts Options
		want string
	}{
		"refused": {Options{Network: "tcp", Addr: redistest.FreeAddr(t)}, "connection refused"},
		"no file": {Options{Network: "unix", Addr: t.TempDir() + "/none"}, "no such file or directory"},
		"wrong": {reply("-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
			"WRONGPASS invalid username-password pair or user is disabled."},
		"quoted":   {reply("-ERR unknown command 'AUTH', with args beginning with: 'hush' \r\n"), "ERR AUTH refused"},
		"repeated": {reply("-ERR no hush here\r\n"), "ERR AUTH refused"},
		"silent":   {silent, "i/o timeout"},
		"hangs up": {scripted(t, func(_ int, conn net.Conn) { request(bufio.NewReader(conn)) }), "connection closed"},
		"endless":  {reply("-" + strings.Repeat("x", 5000)), "the reply to AUTH is larger than any server's"},
		"strange":  {reply("$-1\r\n"), "unexpected reply to AUTH"},
		"control":  {reply("-ERR a\x00b\rc\r\n"), "ERR a b c"},
		"custom dial": {Options{Addr: "x", Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil,
				errors.New("no way")
		}}, "no way"},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.Password = "hush"
			conn, err := New(c.opts).Dial(t.Context())
			if err == nil {
				conn.Close()
				t.Fatal("no error")
			}
			if got := Reason(err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("password in %q", err)
			}
		})
	}
}

func TestDialEndsWithItsCaller(t *testing.T) {
	opts := scripted(t, func(_ int, conn net.Conn) { io.Copy(io.Discard, conn) })
	opts.Password, opts.DialTimeout = "p", time.Hour // the test does not end if Dial waits for it
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := New(opts).Dial(ctx); err == nil {
		t.Error("no error")
	}
}

// fake answers Ask in a synctest bubble: replies is asked anew for each connection, "" means
// silence.
func fake(asked *atomic.Int32, replies func() string) Options {
	return Options{Addr: "u", Dial: func(context.Context, string, string) (net.Conn, error) {
		asked.Add(1)
		text := replies()
		if text == "refuse" {
			return nil, errors.New("connection refused")
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			r := bufio.NewReader(server)
			request(r)
			if got := request(r); got != "RESET" {
				panic(got)
			}
			if text == "" {
				io.Copy(io.Discard, r)
				return
			}
			io.WriteString(server, text)
		}()
		return client, nil
	}}
}

func TestAsk(t *testing.T) {
	for name, c := range map[string]struct {
		replies string
		want    GuestRules
		err     string
	}{
		"open":     {"+PONG\r\n+RESET\r\n", GuestRules{AuthRequired: false, Resets: true}, ""},
		"password": {"-NOAUTH Authentication required.\r\n+RESET\r\n", GuestRules{AuthRequired: true, Resets: true}, ""},
		"no rights": {"-NOPERM this user has no permissions\r\n-NOPERM this user has no permissions\r\n",
			GuestRules{AuthRequired: true, GuestsLimited: true, Resets: true}, ""},
		"loading": {"-LOADING Redis is loading\r\n+RESET\r\n", GuestRules{AuthRequired: false, Resets: true}, ""},
		"old": {"+PONG\r\n-ERR unknown command `RESET`, with args beginning with: \r\n",
			GuestRules{AuthRequired: false, Resets: false}, ""},
		"old, asks": {"-NOAUTH Authentication required.\r\n-ERR unknown command 'RESET'\r\n",
			GuestRules{AuthRequired: true, Resets: false}, ""},
		"other": {"+PONG\r\n-ERR Unknown or disabled command 'RESET'\r\n", GuestRules{AuthRequired: false, Resets: false},
			""},
		"protected": {"-DENIED Redis is running in protected mode\r\n", GuestRules{},
			"DENIED Redis is running in protected mode"},
		"full":      {"-ERR max number of clients reached\r\n", GuestRules{}, "ERR max number of clients reached"},
		"not redis": {"HTTP/1.1 400 Bad Request\r\n", GuestRules{}, "unexpected reply to PING"},
		"half":      {"+PONG\r\n", GuestRules{}, "connection closed"},
	} {
		t.Run(name, func(t *testing.T) {
			facts, err := New(fake(new(atomic.Int32), func() string { return c.replies })).Ask(t.Context())
			if facts != c.want || Reason(err) != c.err {
				t.Errorf("got %+v %q, want %+v %q", facts, Reason(err), c.want, c.err)
			}
		})
	}
}

const (
	closedDoor = "-NOAUTH Authentication required.\r\n+RESET\r\n"
	openDoor   = "+PONG\r\n-ERR unknown command 'RESET'\r\n"
)

func TestAuthRequiredIsRememberedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		reply := closedDoor
		u := New(fake(&asked, func() string { return reply }))
		expect := func(want bool, questions int32) {
			t.Helper()
			got, err := u.AuthRequired(t.Context())
			if err != nil || got != want || asked.Load() != questions {
				t.Errorf("got %v %v after %d questions, want %v after %d", got, err, asked.Load(), want, questions)
			}
		}
		if !u.LastFacts().Resets {
			t.Error("LastFacts before any answer: want true")
		}
		expect(true, 1)
		if !u.LastFacts().Resets {
			t.Error("LastFacts after +RESET: want true")
		}
		reply = openDoor
		time.Sleep(999 * time.Millisecond)
		expect(true, 1)
		time.Sleep(time.Millisecond)
		expect(false, 2)
		if u.LastFacts().Resets {
			t.Error("LastFacts of a server that does not know RESET: want false")
		}
		reply = "refuse"
		time.Sleep(time.Hour)
		expect(false, 3) // the last known answer
		expect(false, 3) // a dead upstream is not asked for every lock
		time.Sleep(time.Second)
		reply = closedDoor
		expect(true, 4)
	})
}

func TestAuthRequiredNeverKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		reply := "refuse"
		u := New(fake(&asked, func() string { return reply }))
		if got, err := u.AuthRequired(t.Context()); err == nil {
			t.Errorf("got %v without an answer, want an error", got)
		}
		if serves, err := u.ServesWithoutAuth(t.Context()); serves || err == nil {
			t.Errorf("got %v %v", serves, err)
		}
		reply = openDoor // and once it is there it is asked at once
		if got, err := u.AuthRequired(t.Context()); got || err != nil {
			t.Errorf("got %v %v, want false", got, err)
		}
		if serves, err := u.ServesWithoutAuth(t.Context()); !serves || err != nil {
			t.Errorf("got %v %v", serves, err)
		}
	})
}

func TestHangingUpstreamCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		reply := closedDoor
		u := New(fake(&asked, func() string { return reply }))
		u.AuthRequired(t.Context())
		reply = ""
		time.Sleep(time.Second)
		start := time.Now()
		for range 3 { // the first waits for an answer, the others know that there is none
			if got, err := u.AuthRequired(t.Context()); !got || err != nil {
				t.Errorf("got %v %v, want the last known answer", got, err)
			}
		}
		if d := time.Since(start); d != patience || asked.Load() != 2 {
			t.Errorf("took %v and %d questions, want %v and 2", d, asked.Load(), patience)
		}
		time.Sleep(7 * time.Second) // the question ends, and its word for a second too
		start = time.Now()
		got, err := u.AuthRequired(t.Context())
		synctest.Wait()
		if !got || err != nil || time.Since(start) != 0 || asked.Load() != 3 {
			t.Errorf("got %v %v after %v and %d questions, want the last known answer at once while another question goes out",
				got, err, time.Since(start), asked.Load())
		}
		time.Sleep(10 * time.Second)
	})
}

func TestOneQuestionForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		u := New(fake(&asked, func() string { time.Sleep(900 * time.Millisecond); return closedDoor }))
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("client left")
		time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
		failed := make(chan error, 1)
		go func() {
			_, err := u.AuthRequired(ctx) // asks first, and leaves
			failed <- err
		}()
		synctest.Wait()
		answers := make(chan bool, 50)
		for range cap(answers) {
			go func() {
				got, err := u.AuthRequired(t.Context())
				answers <- got && err == nil
			}()
		}
		if err := <-failed; !errors.Is(err, gone) {
			t.Errorf("got %v, want the caller's cause", err)
		}
		for range cap(answers) {
			if !<-answers {
				t.Error("an answer was lost with the caller that asked")
			}
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

// User names the user whom Dial logs in: lock-acl asks about that one until the client logs in.
func TestUserIsWhomDialLogsIn(t *testing.T) {
	login := func(user, password string) func() (string, string) {
		return func() (string, string) { return user, password }
	}
	for name, tt := range map[string]struct {
		o    Options
		want string
	}{
		"nobody":                      {Options{}, "default"},
		"address":                     {Options{User: "app", Password: "pw"}, "app"},
		"address, default user":       {Options{Password: "pw"}, "default"},
		"file":                        {Options{Login: login("app", "pw")}, "app"},
		"file, default user":          {Options{Login: login("", "pw")}, "default"},
		"a user without a password":   {Options{User: "app"}, "default"},
		"file without any password":   {Options{Login: login("app", "")}, "default"},
		"file in place of an address": {Options{User: "old", Password: "pw", Login: login("app", "pw")}, "app"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := New(tt.o).User(); got != tt.want {
				t.Errorf("got user %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTrustedServes(t *testing.T) {
	opts := Options{Addr: "h:1", Password: "p", Dial: func(context.Context, string, string) (net.Conn,
		error) {
		panic("asked")
	}}
	u := New(opts)
	if serves, err := u.ServesWithoutAuth(t.Context()); !serves || err != nil || !u.Trusted() || u.Name() != "h:1" {
		t.Errorf("got %v %v", serves, err)
	}
}

func TestReasonIsOneShortLine(t *testing.T) {
	if got := Reason(errors.New(strings.Repeat("ä\r\n", 200))); len(got) > 200 || strings.ContainsAny(got, "\r\n") {
		t.Errorf("got %q", got)
	}
	if Reason(nil) != "" || Reason(context.DeadlineExceeded) != "i/o timeout" {
		t.Error("nil or a deadline")
	}
}
