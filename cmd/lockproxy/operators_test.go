package main

import (
	"context"
	"crypto/tls"
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
	"time"

	"lockproxy/resp/respio"
	"lockproxy/upstream"
)

// TestEmbeddedDefaultServesOperators: the HTTP server works without any real server, and its
// goroutines end.
func TestEmbeddedDefaultServesOperators(t *testing.T) {
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
	eventually(t, "ready", func() bool { return get("/readyz") == "200 ready\n" })
	for path, want := range map[string]string{"/": "<title>lockproxy</title>", "/metrics": "lockproxy_masters 5",
		"/locks":     `{"cursor":"0","locks":[],"quorum":true,"seen":5,"masters":5}`,
		"/log-level": `{"level":"info"}`} {
		t.Run(path, func(t *testing.T) {
			if got := get(path); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, want) {
				t.Errorf("%s: %.200s", path, got)
			}
		})
	}
	stream, err := client.Get("http://" + found[1] + "/events") // must not keep the process from ending
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	stream.Body.Close()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestAdminListenInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = run(t.Context(), []string{"--embedded", "--listen", "127.0.0.1:0", "--admin-listen", ln.Addr().String()}, nil,
		io.Discard, io.Discard)
	if want := "admin-listen " + ln.Addr().String() + ": bind: address already in use"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDialKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {fmt.Errorf("dial: %w", context.Canceled), ""},
		{fmt.Errorf("dial: %w", os.ErrDeadlineExceeded), "timeout"}, {context.DeadlineExceeded, "timeout"},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "refused"},
		{syscall.ENOENT, "refused"},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, "dns"}, {&upstream.ReplyError{Text: "WRONGPASS"}, "auth"},
		{io.EOF, "closed"},
		{fmt.Errorf("dial x: %w", &upstream.HandshakeError{Err: errors.New("bad certificate")}), "tls"},
		{errors.New("what"), "other"},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			if got := dialKind(c.err); got != c.want {
				t.Errorf("%v is %q, want %q", c.err, got, c.want)
			}
		})
	}
}

func TestReadPong(t *testing.T) {
	for line, want := range map[string]string{"+PONG\r\n": "", "-NOAUTH Authentication required.\r\n": "",
		"-NOPERM no\r\n": "", "-LOADING Redis is loading\r\n": "LOADING Redis is loading",
		"-MASTERDOWN x\r\n": "MASTERDOWN x", "HTTP/1.1 400\r\n": "unexpected reply to PING"} {
		t.Run(line, func(t *testing.T) {
			got := ""
			if err := readPong(respio.NewReader(strings.NewReader(line), pingLimits)); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%q: %q, want %q", line, got, want)
			}
		})
	}
}

// TestAdminListenTLS: https:// takes the listeners' certificate and, with tls-client-ca, asks
// clients for theirs; a Unix socket has its mode.
func TestAdminListenTLS(t *testing.T) {
	ours := newAuthority(t)
	cert, key := ours.issue("server", time.Now().Add(time.Hour))
	clientCert, clientKey := ours.issue("client", time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		flags  []string
		config *tls.Config
		err    string
	}{
		"plain":              {nil, ours.client("server", "", ""), ""},
		"mutual":             {[]string{"--tls-client-ca", ours.ca}, ours.client("server", clientCert, clientKey), ""},
		"mutual, none shown": {[]string{"--tls-client-ca", ours.ca}, ours.client("server", "", ""), "certificate required"},
		"other name":         {nil, ours.client("other", "", ""), "not other"},
	} {
		t.Run(name, func(t *testing.T) {
			_, log, stop := started(t,
				append([]string{"--admin-listen", "https://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--admin-token",
					"t"}, c.flags...)...)
			addr := regexp.MustCompile(`"admin_listen":"([0-9.:]+)","tls":true,"token":true`).FindStringSubmatch(log.String())
			if addr == nil {
				t.Fatalf("%s: no address in the log:\n%s", name, log)
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.config, DisableKeepAlives: true}}
			resp, err := client.Get("https://" + addr[1] + "/healthz")
			if c.err == "" && (err != nil || resp.StatusCode != 200) ||
				c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s: got %v, want error %q", name, err, c.err)
			}
			if resp != nil {
				resp.Body.Close()
			}
			stop()
		})
	}
	socket := t.TempDir() + "/admin.sock"
	_, _, stop := started(t, "--admin-listen", "unix://"+socket)
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info, err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}
	resp, err := client.Get("http://any.name/metrics")
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("through the socket: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	stop()
}
