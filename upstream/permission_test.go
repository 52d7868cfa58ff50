package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// acl is a Permission that asks redis with the given credentials.
func acl(t *testing.T, opts Options, user, password string) *Permission {
	t.Helper()
	opts.User, opts.Password = user, password
	p := NewPermission(New(opts))
	t.Cleanup(func() { p.Close() })
	return p
}

func TestMayWrite(t *testing.T) {
	opts := redisServer(t, "--requirepass", "hush", "--user", "asker", "on", ">asks", "+acl|dryrun", "--user", "app",
		"on", ">p", "~lock:app:*", "+@all",
		"--user", "reader", "on", ">p", "~*", "+get")
	for _, tt := range []struct{ name, user, key, want string }{
		{"all", "default", "lock:any", ""},
		{"own key", "app", "lock:app:1", ""},
		{"binary key", "app", "lock:app:\r\n\x00\xff", ""},
		{"other key", "app", "lock:other", "This user has no permissions to access the 'lock:other' key"},
		{"command", "reader", "lock:app:1", "This user has no permissions to run the 'set' command"},
		{"nobody", "nobody", "lock:app:1", "User 'nobody' not found"},
		{"strange name", "a b", "lock:app:1", "User 'a b' not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for asker, password := range map[string]string{"": "hush", "asker": "asks"} {
				if got, err := acl(t, opts, asker, password).MayWrite(t.Context(), tt.user, tt.key); err != nil || got != tt.want {
					t.Errorf("%s, asked by %q: got %q, %v; want %q", tt.name, asker, got, err, tt.want)
				}
			}
		})
	}
	for _, tt := range []struct{ name, user, password, want string }{
		{"no credentials", "", "", "NOAUTH"},
		{"not allowed to ask", "reader", "p", "NOPERM this user has no permissions to run the 'acl|dryrun' command"},
		{"wrong password", "", "x", "WRONGPASS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := acl(t, opts, tt.user, tt.password)
			for _, err := range []error{p.Check(t.Context()),
				func() error { _, err := p.MayWrite(t.Context(), "default", "k"); return err }()} {
				if got := Reason(err); !strings.HasPrefix(got, tt.want) {
					t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
				}
			}
		})
	}
	if err := acl(t, opts, "asker", "asks").Check(t.Context()); err != nil {
		t.Errorf("Check by one who may ask: %v", err)
	}
}

// TestMayConfigure: only who may CONFIG SET is an administrator, however the right is given.
func TestMayConfigure(t *testing.T) {
	opts := redisServer(t, "--requirepass", "hush", "--user", "asker", "on", ">asks", "+acl|dryrun",
		"--user", "admin", "on", ">p", "+@admin", "--user", "config", "on", ">p", "+config|set",
		"--user", "app", "on", ">p", "~*", "&*", "+@all", "-@dangerous", "--user", "reader", "on", ">p", "~*", "+@all",
		"-config", "+config|get")
	p := acl(t, opts, "asker", "asks")
	const refused = "This user has no permissions to run the 'config|set' command"
	for user, want := range map[string]string{"default": "", "admin": "", "config": "", "app": refused, "reader": refused,
		"asker": refused, "nobody": "User 'nobody' not found"} {
		t.Run(user, func(t *testing.T) {
			if got, err := p.MayConfigure(t.Context(), user); err != nil || got != want {
				t.Errorf("%s: got %q, %v; want %q", user, got, err, want)
			}
			// the right to a key is another
			if got, err := p.MayWrite(t.Context(), user, ""); err != nil ||
				(got == "") != (user == "default" || user == "app" || user == "reader") {
				t.Errorf("%s: SET: got %q, %v", user, got, err)
			}
		})
	}
	renamed := redisServer(t, "--rename-command", "CONFIG", "")
	if got, err := acl(t, renamed, "", "").MayConfigure(t.Context(), "default"); err != nil ||
		!strings.Contains(got, "not found") {
		t.Errorf("without CONFIG: got %q, %v", got, err)
	}
}

// aclServer answers ACL DRYRUN as answer says, "" for not at all, and counts the questions.
func aclServer(asked *atomic.Int32, answer func(user, key string) string) Options {
	return Options{Name: "fake", Addr: "10.0.0.1:1", DialTimeout: 5 * time.Second,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				for r := bufio.NewReader(server); ; {
					line := request(r)
					words := strings.Fields(line)
					switch {
					case line == "":
						return
					case words[0] == "hello":
						io.WriteString(server, "-ERR unknown command 'hello'\r\n")
						continue
					case words[0] != "acl":
						io.WriteString(server, "+OK\r\n")
						continue
					}
					asked.Add(1)
					text := answer(words[2], words[4])
					if text == "" {
						io.Copy(io.Discard, r)
						return
					}
					io.WriteString(server, text)
				}
			}()
			return client, nil
		}}
}

func TestVerdictIsRememberedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var reply atomic.Value
		reply.Store("+OK\r\n")
		p := NewPermission(New(aclServer(&asked, func(string, string) string { return reply.Load().(string) })))
		defer p.Close()
		expect := func(user, key, want string, questions int32) {
			t.Helper()
			got, err := p.MayWrite(t.Context(), user, key)
			if err != nil || got != want || asked.Load() != questions {
				t.Errorf("%s, %s: got %q %v after %d questions, want %q after %d", user, key, got, err, asked.Load(), want,
					questions)
			}
		}
		known := func(user, key, want string) { // Known sends no question: expect counts them
			t.Helper()
			refusal, known := p.Known(user, key)
			if got := fmt.Sprintf("%s%v", refusal, known); got != want {
				t.Errorf("of %s, %s is known %s, want %s", user, key, got, want)
			}
		}
		known("a", "k", "false")
		expect("a", "k", "", 1)
		known("a", "k", "true")
		known("a", "l", "false")
		reply.Store("$2\r\nno\r\n")
		expect("a", "l", "no", 2)
		known("a", "l", "notrue")
		expect("b", "k", "no", 3)
		time.Sleep(verdictLasts - time.Millisecond)
		known("a", "k", "true")
		expect("a", "k", "", 3)
		time.Sleep(time.Millisecond)
		known("a", "k", "false")
		expect("a", "k", "no", 4)
		reply.Store("-LOADING Redis is loading\r\n")
		time.Sleep(time.Hour)
		expect("a", "k", "no", 5) // the last known answer
		reply.Store("")
		start := time.Now()
		for range 3 { // the first waits for an answer, the others know that there is none
			expect("a", "k", "no", 6)
		}
		if d := time.Since(start); d != askTime {
			t.Errorf("without an answer it took %v, want %v", d, askTime)
		}
		if _, err := p.MayWrite(t.Context(), "c", "k"); err == nil || asked.Load() != 6 {
			t.Errorf("what nobody knows, asked of a silent upstream: %v after %d questions", err, asked.Load())
		}
		reply.Store("+OK\r\n")
		time.Sleep(askTime)
		expect("c", "k", "", 7)
		time.Sleep(time.Hour)
	})
}

func TestVerdictIsAskedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		p := NewPermission(New(aclServer(&asked, func(string,
			string) string {
			time.Sleep(100 * time.Millisecond)
			return "$2\r\nno\r\n"
		})))
		defer p.Close()
		gone := errors.New("client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(gone) })
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := p.MayWrite(ctx, "a", "k"); !errors.Is(err, gone) { // asks first, and leaves
				t.Errorf("got %v, want the caller's cause", err)
			}
		})
		synctest.Wait()
		for range 1000 {
			wg.Go(func() {
				if got, err := p.MayWrite(t.Context(), "a", "k"); got != "no" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		wg.Wait()
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

// TestVerdictsAreBounded: a client that asks for ever new keys does not fill the memory.
func TestVerdictsAreBounded(t *testing.T) {
	var g generations
	key := strings.Repeat("k", 2048)
	for i := range 10 * generationSize {
		g.put(subject{user: "user", key: fmt.Sprint(key, i)}, ruling{})
	}
	if n := len(g.young) + len(g.old); n > 2*generationSize {
		t.Errorf("%d verdicts are kept", n)
	}
	if _, ok := g.get(subject{user: "user", key: fmt.Sprint(key, 10*generationSize-generationSize/2)}); !ok {
		t.Error("a late one is forgotten")
	}
}

// TestNeverKnownIsRefusedSoon: if the upstream never answers, no caller waits longer than a
// second, and all share the question.
func TestNeverKnownIsRefusedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		u := New(fake(&asked, func() string { return "" }))
		u.opts.DialTimeout = 5 * time.Second
		for _, want := range []time.Duration{time.Second, 0, 0} {
			start := time.Now()
			if _, err := u.AuthRequired(t.Context()); err == nil || time.Since(start) != want || asked.Load() != 1 {
				t.Errorf("got %v after %v and %d questions, want an error after %v and 1", err, time.Since(start), asked.Load(),
					want)
			}
		}
		start := time.Now()
		if _, err := u.ServesWithoutAuth(t.Context()); err == nil || time.Since(start) != 4*time.Second {
			t.Errorf("the start learned %v after %v, want an error when the question ends", err, time.Since(start))
		}
		time.Sleep(time.Minute)
	})
}
