package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"lockproxy/upstream"
)

// TestOperatorsOfTheEmbeddedDefault: the page and the rest work without any server, and leave no goroutine behind.
func TestOperatorsOfTheEmbeddedDefault(t *testing.T) {
	before := runtime.NumGoroutine()
	_, log, stop := started(t, "--admin-listen", "127.0.0.1:0")
	found := regexp.MustCompile(`"admin_listen":"([0-9.:]+)"`).FindStringSubmatch(log.String())
	if found == nil {
		t.Fatalf("the log does not say where operators are served:\n%s", log)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) string {
		resp, err := client.Get("http://" + found[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(body))
	}
	waitFor(t, "ready", func() bool { return get("/readyz") == "200 ready\n" })
	for path, want := range map[string]string{"/": "<title>lockproxy</title>", "/metrics": "lockproxy_masters 5", "/locks": `{"cursor":"0","locks":[]}`,
		"/log-level": `{"level":"info"}`} {
		if got := get(path); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, want) {
			t.Errorf("%s: %.200s", path, got)
		}
	}
	stream, err := client.Get("http://" + found[1] + "/events") // must not keep the process from ending
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	stream.Body.Close()
	waitFor(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestAdminListenInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = run(t.Context(), []string{"--listen", "127.0.0.1:0", "--admin-listen", ln.Addr().String()}, nil, io.Discard, io.Discard)
	if want := "admin-listen " + ln.Addr().String() + ": bind: address already in use"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDialKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {fmt.Errorf("dial: %w", context.Canceled), ""}, {fmt.Errorf("dial: %w", os.ErrDeadlineExceeded), "timeout"}, {context.DeadlineExceeded, "timeout"},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "refused"}, {syscall.ENOENT, "refused"},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, "dns"}, {&upstream.ReplyError{Text: "WRONGPASS"}, "auth"}, {io.EOF, "closed"},
		{fmt.Errorf("dial x: %w", fmt.Errorf("handshake: %w", errors.New("bad certificate"))), "tls"}, {errors.New("what"), "other"},
	} {
		if got := dialKind(c.err); got != c.want {
			t.Errorf("%v is %q, want %q", c.err, got, c.want)
		}
	}
}

func TestPingError(t *testing.T) {
	for line, want := range map[string]string{"+PONG\r\n": "", "-NOAUTH Authentication required.\r\n": "", "-NOPERM no\r\n": "", "-LOADING Redis is loading\r\n": "LOADING Redis is loading",
		"-MASTERDOWN x\r\n": "MASTERDOWN x", "HTTP/1.1 400\r\n": "unexpected reply to PING"} {
		got := ""
		if err := pingError(line); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
