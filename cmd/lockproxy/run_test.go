package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// output collects the output of a run. It is readable while the run goes on.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// ready is the address in the ready line, once it is there.
func (o *output) ready() string {
	for line := range strings.Lines(o.String()) {
		var entry struct {
			Msg    string
			Listen []string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "ready" && len(entry.Listen) > 0 {
			return entry.Listen[0]
		}
	}
	return ""
}

// orMemory is an environment that asks for servers in memory, unless args name others.
func orMemory(args []string) []string {
	if text := strings.Join(args, " "); strings.Contains(text, "--upstream") || strings.Contains(text, "--masters") {
		return nil
	}
	return []string{"LOCKPROXY_EMBEDDED=true"}
}

// started runs lockproxy in this process until stop, which returns run's error. stop may be called
// twice.
func started(t *testing.T, args ...string) (address string, log *output, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	log = &output{}
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = run(ctx, append([]string{"--listen", "127.0.0.1:0"}, args...), orMemory(args), io.Discard, log)
	}()
	stop = func() error {
		cancel(errors.New("test is over"))
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("run does not end")
		}
		return err
	}
	t.Cleanup(func() { stop() })
	eventually(t, "the ready line", func() bool {
		select {
		case <-ended:
			t.Fatalf("run ended: %v\n%s", err, log)
		default:
		}
		address = log.ready()
		return address != ""
	})
	return address, log, stop
}

func TestRunAnswersAndEnds(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		stdout string
		err    string
	}{
		"help":    {[]string{"--help"}, "--max-ttl", ""},
		"version": {[]string{"--version"}, "lockproxy ", ""},
		"check": {[]string{"--check", "--masters", "a:1,b:1"}, "warning: 2 masters survive no more failures than 1",
			""},
		"wrong": {[]string{"--check", "--max-clients=0", "--min-ttl=2m"}, "",
			"settings:\n  min-ttl 120s exceeds max-ttl 60s\n  max-clients 0 is under 1"},
		"no servers": {[]string{"--upstream-user=u"}, "", "no server is named"},
		"in use": {[]string{"--listen", "192.0.2.1:1", "--allow-open"}, "",
			"listen 192.0.2.1:1: bind: cannot assign requested address"},
		"open": {[]string{"--listen", "0.0.0.0:0"}, "", "listen 0.0.0.0:0 lets other machines use the servers in memory"},
		"unasked": {[]string{"--listen", "0.0.0.0:0", "--upstream", "127.0.0.1:1"}, "",
			"cannot ask upstream 127.0.0.1:1 whether it needs a password (connection refused)"},
		"no audit": {[]string{"--check", "--audit-log=/none/audit", "--tls-client-ca=/none", "--tls-cert=/c",
			"--tls-key=/k", "--listen=rediss://127.0.0.1:0"}, "",
			"/none: no such file or directory\n  audit-log /none/audit: no such file or directory"},
		"no files": {[]string{"--listen", "rediss://127.0.0.1:0", "--tls-cert=/none", "--tls-key=/none"}, "",
			"no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr output
			err := run(t.Context(), c.args, orMemory(c.args), &stdout, &stderr)
			if !strings.Contains(stdout.String(), c.stdout) {
				t.Errorf("printed %q, want %q", stdout.String(), c.stdout)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}

func TestEmbeddedDefaultEndToEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	address, log, stop := started(t)
	eventually(t, "the notice behind the ready line", func() bool {
		_, notice, _ := strings.Cut(log.String(), `"msg":"ready"`)
		_, notice, found := strings.Cut(notice, "This lockproxy is for trying out")
		return found && strings.Contains(notice, "--help\n") // a third master may join after it
	})
	url := regexp.MustCompile(`In a browser, who holds what: (http://127\.0\.0\.1:[0-9]+/)\n`)
	page := url.FindStringSubmatch(log.String())
	if page == nil {
		t.Fatalf("the notice names no page:\n%s", log)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if shown, err := client.Get(page[1]); err != nil || shown.Body.Close() != nil || shown.StatusCode != 200 {
		t.Errorf("the page: %v %v", shown, err)
	}
	for _, protocol := range []int{2, 3} {
		lockAndRelay(t, address, protocol, log)
	}
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if text := log.String(); !strings.Contains(text, `"cause":"test is over"`) ||
		!strings.Contains(text, `"msg":"ended"`) ||
		strings.Contains(text, "panicked") {
		t.Errorf("log:\n%s", text)
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// lockAndRelay takes locks and sends commands of Redis in one version of the protocol.
func lockAndRelay(t *testing.T, address string, protocol int, log *output) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol, MaxRetries: -1})
	defer client.Close()
	ctx := t.Context()
	key := fmt.Sprintf("job-%d", protocol)
	token, err := client.Do(ctx, "LOCK", key, "5s").Text()
	if err != nil || len(token) != 57 {
		t.Fatalf("LOCK: %q %v\n%s", token, err, log)
	}
	if _, err := client.Do(ctx, "LOCK", key, "5000").Text(); !errors.Is(err, redis.Nil) {
		t.Errorf("held: %v", err)
	}
	if n, err := client.Do(ctx, "UNLOCK", key, token).Int(); n != 1 || err != nil {
		t.Errorf("UNLOCK: %d %v", n, err)
	}
	start := time.Now()
	next, err := client.Do(ctx, "LOCK", key, "1s").Text()
	if err != nil || next <= token {
		t.Errorf("the later token %q is not greater than %q: %v", next, token, err)
	}
	eventually(t, "expiry in real time", func() bool {
		return client.Do(ctx, "LOCK", key, "5s").Err() == nil
	})
	if d := time.Since(start); d < 950*time.Millisecond {
		t.Errorf("a lock of 1s was free after %v", d)
	}
	if n, err := client.Do(ctx, "UNLOCK", key, next).Int(); n != 0 || err != nil {
		t.Errorf("UNLOCK with an expired token: %d %v", n, err)
	}
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	if got, err := client.Get(ctx, "k").Result(); got != "v" || err != nil {
		t.Errorf("GET: %q %v", got, err)
	}
	if keys, err := client.Keys(ctx, "lock*").Result(); len(keys) != 0 || err != nil {
		t.Errorf("lock keys on the upstream: %q %v", keys, err)
	}
}

// Bytes that crash a redcon or a miniredis process, or make it take all memory; afterwards all
// goes on.
func TestEmbeddedDefaultSurvivesAttacks(t *testing.T) {
	address, log, _ := started(t)
	for _, attack := range []string{
		"*0\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*1\r\n$99999999999999\r\n", "*1000000000\r\n", "*2147483647\r\n$4\r\n",
		"$0\r\n", "$-5\r\n\r\n",
		"*1\r\n$536870913\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9223372036854775807\r\n", "\x00\x00\x00\x00\r\n",
		"$9 PING\r\n", "*\r\n", "*1\r\n*1\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\n\r\n", strings.Repeat("a", 70000), "LOCK job\r\n",
		"\"unbalanced\r\n",
		"*3\r\n$4\r\nLOCK\r\n$1\r\na\r\n$4\r\n5000\r\n*0\r\n*-1\r\n", "*1\r\n$4\r\nEVAL\r\n*2\r\n$5\r\nSSCAN\r\n$1\r\nx\r\n",
		"*3\r\n$4\r\nEVAL\r\n$34\r\nlocal t = {} t[1] = t return t    \r\n$1\r\n0\r\n",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, attack)
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
		conn.Close()
		client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatalf("after %.40q: %v\n%s", attack, err, log)
		}
		client.Close()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > 256<<20 {
		t.Errorf("%d MB in use", memory.HeapAlloc>>20)
	}
}

func TestRunStartsWithoutItsServers(t *testing.T) {
	address, log, stop := started(t, "--masters", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--drain-timeout", "1s")
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	if err := client.Get(t.Context(), "k").Err(); err == nil ||
		err.Error() != "ERR upstream 127.0.0.1:1: connection refused" {
		t.Errorf("GET: %v\n%s", err, log)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// blocked is a stderr whose writes wait until goOn is closed.
type blocked struct{ goOn chan struct{} }

func (b *blocked) Write(p []byte) (int, error) {
	<-b.goOn
	return len(p), nil
}

// TestBlockedStderrDelaysNoLock: while stderr blocks, locks are granted, renewed and released, and
// the proxy can end.
func TestBlockedStderrDelaysNoLock(t *testing.T) {
	out := &blocked{goOn: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	socket := filepath.Join(t.TempDir(), "s")
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--embedded", "--listen", "unix://" + socket, "--log-level", "debug", "--audit-log",
			"log", "--drain-timeout", "0s", "--master-timeout", "1s"}, nil, io.Discard, out)
	}()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1, PoolSize: 2})
	defer client.Close()
	eventually(t, "the first grant", func() bool { return client.Do(ctx, "LOCK", "a", "1s").Err() == nil })
	holder := client.Conn()
	defer holder.Close()
	const ttl = 6 * time.Second
	if err := holder.Do(ctx, "LOCK", "job", ttl.String(), "SESSION").Err(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < ttl+time.Second; { // meanwhile more is logged than there is room for
		if client.Do(ctx, "LOCK", "job", ttl.String()).Err() == nil {
			t.Fatal("a session lock was not renewed")
		}
	}
	cancel(errors.New("test is over"))
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("run does not end")
	}
	close(out.goOn)
}

// eventually polls until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
