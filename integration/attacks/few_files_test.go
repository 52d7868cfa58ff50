package attacks

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/lab"
)

// TestSilentClientsLeaveFiles: silent clients cannot take the open files that the proxy needs.
// While they stay connected, the proxy reaches restarted masters, grants locks and answers health
// checks.
func TestSilentClientsLeaveFiles(t *testing.T) {
	t.Parallel()
	const files = 256
	servers := lab.StartCluster(t, 3)
	operators, config := lab.FreeAddr(t), filepath.Join(t.TempDir(), "lockproxy.yaml")
	setMaxClients(t, config, 10)
	p := lab.StartProxyWithFiles(t, files, append(servers.Flags, "--config", config, "--admin-listen", operators)...)
	p.WaitVoting(t)
	desk := lab.Dial(t, p.Addr)
	desk.Unlock("job", desk.Lock("job", "60s"))
	if got := desk.Counter("max_clients"); got != 10 || strings.Contains(p.Log.String(), "max-clients is lowered") {
		t.Errorf("max_clients: got %d, want 10 as set, not lowered", got)
	}
	setMaxClients(t, config, 10_000)
	most := lowerMaxClients(t, p, desk, files)

	silent := connectSilent(t, p.Addr, files, most)
	lab.WaitFor(t, "as many clients as the proxy allows", lab.Patience, func() bool {
		return desk.Counter("connected_clients") == most
	})
	for range files {
		lab.Dial(t, operators) // the admin server may close some of these
	}
	for _, host := range silent[files-10:] {
		host.Want("-ERR max number of clients reached\r\n")
		host.WantClosed()
	}

	for _, m := range servers.Masters {
		m.RestartEmpty(t)
	}
	lab.WaitFor(t, "a lock on the new masters", lab.Patience, func() bool {
		token, _, _ := desk.TryLock("job", "60s")
		return token != "" && desk.Do("UNLOCK", "job", token) == ":1\r\n"
	})
	wantHealthy(t, operators)
	for i, host := range silent[:most-1] { // all at the same time
		if err := host.Put(lab.Encode("PING")); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
	for _, host := range silent[:most-1] {
		host.Want("+PONG\r\n")
	}
	for _, bad := range []string{"too many open files", "cannot accept a connection"} {
		if strings.Contains(p.Log.String(), bad) {
			t.Errorf("the log has %q, want no shortage of files", bad)
		}
	}
	for _, host := range silent {
		host.Close()
	}
	lab.WaitFor(t, "room for a new connection", lab.Patience, func() bool {
		reply, err := lab.Dial(t, p.Addr).Ask("PING")
		return err == nil && reply == "+PONG\r\n"
	})
}

// setMaxClients writes a configuration file with max-clients.
func setMaxClients(t testing.TB, config string, n int) {
	t.Helper()
	if err := os.WriteFile(config, fmt.Appendf(nil, "max-clients: %d\n", n), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lowerMaxClients lets the proxy read 10,000 as max-clients, which its limit on open files lowers.
// It returns how many clients may connect.
func lowerMaxClients(t testing.TB, p *lab.Proxy, desk *lab.Client, files int) (most int) {
	t.Helper()
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "the reload", lab.Patience, func() bool { return p.Says("settings reloaded") })
	most = desk.Counter("max_clients")
	if want := fmt.Sprintf(`"max_clients":10000,"lowered_to":%d,"files_allowed":%d`, most, files); !p.Says(want) {
		t.Errorf("the log lacks %s", want)
	}
	if most < 16 || most > files/2 {
		t.Fatalf("max_clients: got %d with %d open files, want 16 to %d", most, files, files/2)
	}
	return most
}

// connectSilent connects n clients, more than the proxy accepts. Every other client that it
// accepts uses the upstream before it falls silent.
func connectSilent(t testing.TB, addr string, n, most int) (silent []*lab.Client) {
	t.Helper()
	for i := range n {
		host := lab.Dial(t, addr)
		if silent = append(silent, host); i%2 == 0 || i >= most {
			continue
		}
		if got := host.Do("PING"); got != "+PONG\r\n" && i < most-1 { // the test has one more connection
			t.Fatalf("PING of client %d of %d: got %q, want +PONG", i, most, got)
		}
	}
	return silent
}

// wantHealthy fails unless both health checks answer 200.
func wantHealthy(t testing.TB, operators string) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz?locks"} {
		response, err := (&http.Client{Timeout: lab.Patience}).Get("http://" + operators + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s, want 200", path, response.Status)
		}
	}
}

// TestProxyWithoutFilesForSixteenClientsDoesNotStart: the error names the limit on open files.
func TestProxyWithoutFilesForSixteenClientsDoesNotStart(t *testing.T) {
	t.Parallel()
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	p := lab.Launch(t, "lockproxy", lab.Tool(t, "sh"), "-c", `ulimit -n 64; exec "$0" "$@"`,
		path, "--listen", "127.0.0.1:0", "--upstream", lab.FreeAddr(t))
	lab.WantExit(t, p, 1)
	for _, want := range []string{"the limit of 64 open files, less ", "at least 16 are needed"} {
		if text := p.Log.String(); !strings.Contains(text, want) {
			t.Errorf("got %s, want %q in it", text, want)
		}
	}
}
