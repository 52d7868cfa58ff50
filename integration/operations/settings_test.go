package operations

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// Settings that only the whole program shows.

func TestMaxClientsRefusesFurtherClients(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 1, "--max-clients", "3")
	var hosts []*lab.Client
	// the one that waited for the first lock
	lab.WaitFor(t, "the first connection free again", lab.Patience, func() bool {
		host := lab.Dial(t, c.Addr)
		if host.Do("PING") == "+PONG\r\n" {
			hosts = append(hosts, host)
		}
		return len(hosts) == 3
	})
	over := lab.Dial(t, c.Addr)
	over.Want("-ERR max number of clients reached\r\n")
	over.WantClosed()
	hosts[0].Close()
	lab.WaitFor(t, "room for another", lab.Patience, func() bool {
		reply, err := lab.Dial(t, c.Addr).Conn.Ask("PING")
		return err == nil && reply == "+PONG\r\n"
	})
}

// A proxy that other machines can reach must not bypass the protected mode of an upstream without
// a password.
func TestOpenListenerNeedsSetting(t *testing.T) {
	t.Parallel()
	open, protected := lab.StartRedis(t), lab.StartRedis(t, "--requirepass", "secret")
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, upstream := range []string{open.Addr, "redis://:secret@" + protected.Addr} {
		p := lab.Launch(t, "lockproxy", path, "--listen", "0.0.0.0:0", "--upstream", upstream, "--restart-guard", "off")
		if !lab.Poll(lab.Patience, func() bool { return !p.Running() }) || p.Cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("open listener in front of %s: running %v, want exit code 1", upstream, p.Running())
		}
		if text := p.Log.String(); !strings.Contains(text, "allow-open") || strings.Contains(text, "secret") {
			t.Errorf("got %q, want the setting that allows it, and no password", text)
		}
	}
	lab.StartProxy(t, "--listen", "0.0.0.0:0", "--upstream", protected.Addr, "--restart-guard", "off")
	lab.StartProxy(t, "--listen", "0.0.0.0:0", "--upstream", open.Addr, "--allow-open=true", "--restart-guard", "off")
}

func TestUnixSocketsWorkBothWays(t *testing.T) {
	t.Parallel()
	cli := lab.Tool(t, "redis-cli")
	upstream, listen := filepath.Join(t.TempDir(), "redis.sock"), filepath.Join(t.TempDir(), "lockproxy.sock")
	lab.StartRedis(t, "--unixsocket", upstream)
	lab.StartProxy(t, "--listen", "unix://"+listen, "--upstream", "unix://"+upstream, "--restart-guard", "off")
	run := func(args ...string) string {
		out, err := exec.Command(cli, append([]string{"-s", listen}, args...)...).Output()
		if err != nil {
			t.Fatalf("redis-cli %q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := run("SET", "a", "1"); got != "OK" {
		t.Errorf("SET: got %q", got)
	}
	token := ""
	lab.WaitFor(t, "first lock", lab.Patience, func() bool {
		token = run("LOCK", "job",
			"60s")
		return lab.TokenOf(lab.Bulk(token)) != ""
	})
	if got := run("UNLOCK", "job", token); got != "1" {
		t.Errorf("UNLOCK: got %q", got)
	}
}

// No token, password or value reaches the log at any level.
func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--log-level", "debug")
	host := lab.Dial(t, c.Addr)
	secrets := []string{"hunter2-password", "hunter2-value"}
	host.Do("AUTH", secrets[0])
	host.Do("HELLO", "3", "AUTH", "default", secrets[0])
	host.Do("SET", "a", secrets[1])
	host.Do("CONFIG", "SET", "masterauth", secrets[0])
	for i := range 10 {
		token := host.Lock(fmt.Sprintf("job-%d", i), "60s")
		host.Do("UNLOCK", fmt.Sprintf("job-%d", i), "0000000000000001:"+strings.Repeat("0", 40))
		host.Unlock(fmt.Sprintf("job-%d", i), token)
		secrets = append(secrets, token[17:])
	}
	c.Masters[0].Pause(t)
	c.Masters[1].Kill()
	secrets = append(secrets, "f00f00f00f00f00f00f00f00f00f00f00f00f00f")
	host.Do("LOCK", "job", "60s")
	host.Do("UNLOCK", "job", "0000000000000001:"+secrets[len(secrets)-1])
	c.Stop(t)
	for _, secret := range secrets {
		if strings.Contains(c.Log.String(), secret) {
			t.Errorf("got %s in the log", secret)
		}
	}
}
