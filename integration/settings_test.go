package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Settings whose effect only the whole program shows.

func TestMaxClients(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, "--max-clients", "3")
	var hosts []*client
	waitFor(t, "the first connection free again", patience, func() bool { // the one that waited for the first lock
		host := dial(t, c.addr)
		if host.do("PING") == "+PONG\r\n" {
			hosts = append(hosts, host)
		}
		return len(hosts) == 3
	})
	over := dial(t, c.addr)
	over.want("-ERR max number of clients reached\r\n")
	over.wantClosed()
	hosts[0].Close()
	waitFor(t, "room for another", patience, func() bool {
		reply, err := dial(t, c.addr).conn.do("PING")
		return err == nil && reply == "+PONG\r\n"
	})
}

// TestOpenListener: a proxy that others can reach must not undo the protected mode of an upstream without password.
func TestOpenListener(t *testing.T) {
	t.Parallel()
	open, protected := startRedis(t), startRedis(t, "--requirepass", "secret")
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, upstream := range []string{open.addr, "redis://:secret@" + protected.addr} {
		p := launch(t, "lockproxy", path, "--listen", "0.0.0.0:0", "--upstream", upstream, "--restart-guard", "off")
		if !poll(patience, func() bool { return !p.running() }) || p.cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("open to everybody in front of %s: running %v, want exit code 1", upstream, p.running())
		}
		if text := p.log.String(); !strings.Contains(text, "allow-open") || strings.Contains(text, "secret") {
			t.Errorf("it says %q, want how to allow it and no password", text)
		}
	}
	startProxy(t, "--listen", "0.0.0.0:0", "--upstream", protected.addr, "--restart-guard", "off")
	startProxy(t, "--listen", "0.0.0.0:0", "--upstream", open.addr, "--allow-open=true", "--restart-guard", "off")
}

func TestUnixSockets(t *testing.T) {
	t.Parallel()
	cli := tool(t, "redis-cli")
	upstream, listen := filepath.Join(t.TempDir(), "redis.sock"), filepath.Join(t.TempDir(), "lockproxy.sock")
	startRedis(t, "--unixsocket", upstream)
	startProxy(t, "--listen", "unix://"+listen, "--upstream", "unix://"+upstream, "--restart-guard", "off")
	run := func(args ...string) string {
		out, err := exec.Command(cli, append([]string{"-s", listen}, args...)...).Output()
		if err != nil {
			t.Fatalf("redis-cli %q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := run("SET", "a", "1"); got != "OK" {
		t.Errorf("SET: %q", got)
	}
	token := ""
	waitFor(t, "first lock", patience, func() bool { token = run("LOCK", "job", "60s"); return tokenOf(bulk(token)) != "" })
	if got := run("UNLOCK", "job", token); got != "1" {
		t.Errorf("UNLOCK: %q", got)
	}
}

// TestNoSecretsLogged: no token, password or value reaches the log, whatever its level.
func TestNoSecretsLogged(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--log-level", "debug")
	host := dial(t, c.addr)
	secrets := []string{"hunter2-password", "hunter2-value"}
	host.do("AUTH", secrets[0])
	host.do("HELLO", "3", "AUTH", "default", secrets[0])
	host.do("SET", "a", secrets[1])
	host.do("CONFIG", "SET", "masterauth", secrets[0])
	for i := range 10 {
		token := host.lock(fmt.Sprintf("job-%d", i), "60s")
		host.do("UNLOCK", fmt.Sprintf("job-%d", i), "0000000000000001:"+strings.Repeat("0", 40))
		host.unlock(fmt.Sprintf("job-%d", i), token)
		secrets = append(secrets, token[17:])
	}
	c.masters[0].pause(t)
	c.masters[1].kill()
	secrets = append(secrets, "f00f00f00f00f00f00f00f00f00f00f00f00f00f")
	host.do("LOCK", "job", "60s")
	host.do("UNLOCK", "job", "0000000000000001:"+secrets[len(secrets)-1])
	c.stop(t)
	for _, secret := range secrets {
		if strings.Contains(c.log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
}
