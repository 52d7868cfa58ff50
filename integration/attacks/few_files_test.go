package attacks

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestSilentClientsLeaveFiles: silent clients cannot take the open files that the proxy needs.
// While they stay, the proxy reaches restarted masters, grants locks and answers health checks.
func TestSilentClientsLeaveFiles(t *testing.T) {
	t.Parallel()
	const files = 256
	servers := lab.StartCluster(t, 3)
	operators, config := lab.FreeAddr(t), filepath.Join(t.TempDir(), "lockproxy.yaml")
	setMaxClients := func(n int) {
		if err := os.WriteFile(config, fmt.Appendf(nil, "max-clients: %d\n", n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setMaxClients(10)
	p := lab.StartProxyWithFiles(t, files, append(servers.Flags, "--config", config, "--admin-listen", operators)...)
	p.WaitVoting(t)
	desk := lab.Dial(t, p.Addr)
	desk.Unlock("job", desk.Lock("job", "60s"))
	if got := desk.Counter("max_clients"); got != 10 || strings.Contains(p.Log.String(), "max-clients is lowered") {
		t.Errorf("%d clients may connect, want the 10 of max-clients", got)
	}
	setMaxClients(10_000)
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "the reload", lab.Patience, func() bool { return p.Says("settings reloaded") })
	most := desk.Counter("max_clients")
	if want := fmt.Sprintf(`"max_clients":10000,"lowered_to":%d,"files_allowed":%d`, most, files); !p.Says(want) {
		t.Errorf("the log does not say %s", want)
	}
	if most < 16 || most > files/2 {
		t.Fatalf("%d clients may connect with %d open files", most, files)
	}

	// Every other client uses the upstream before it falls silent.
	var silent []*lab.Client
	for i := range files {
		host := lab.Dial(t, p.Addr)
		if silent = append(silent, host); i%2 == 0 || i >= most {
			continue
		}
		if got := host.Do("PING"); got != "+PONG\r\n" && i < most-1 { // desk is one of the clients
			t.Fatalf("client %d of %d: %q", i, most, got)
		}
	}
	lab.WaitFor(t, "as many clients as may be", lab.Patience, func() bool { return desk.Counter("connected_clients") == most })
	for range files {
		lab.Dial(t, operators) // one that had to go does not matter
	}
	for _, host := range silent[files-10:] {
		host.Want("-ERR max number of clients reached\r\n")
		host.WantClosed()
	}

	for _, m := range servers.Masters {
		m.RestartEmpty(t)
	}
	lab.WaitFor(t, "a lock on the new masters", lab.Patience, func() bool {
		token, reply, err := desk.TryLock("job", "60s")
		if token == "" {
			t.Logf("LOCK: %q, %v", reply, err)
			lab.Pass(t, 200*time.Millisecond)
			return false
		}
		return desk.Do("UNLOCK", "job", token) == ":1\r\n"
	})
	for _, path := range []string{"/healthz", "/readyz?locks"} {
		response, err := (&http.Client{Timeout: lab.Patience}).Get("http://" + operators + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
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
			t.Errorf("the log says %q", bad)
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

// TestTooFewFiles: a proxy with room for fewer than 16 clients does not start.
func TestTooFewFiles(t *testing.T) {
	t.Parallel()
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	p := lab.Launch(t, "lockproxy", lab.Tool(t, "sh"), "-c", `ulimit -n 64; exec "$0" "$@"`, path, "--listen", "127.0.0.1:0", "--upstream", lab.FreeAddr(t))
	lab.WaitFor(t, "the end", lab.Patience, func() bool { return !p.Running() })
	if text := p.Log.String(); p.Cmd.ProcessState.ExitCode() != 1 || !strings.Contains(text, "the limit of 64 open files, less ") || !strings.Contains(text, "at least 16 are needed") {
		t.Errorf("%v: %s", p.Err, text)
	}
}
