package operations

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The tests run the procedures of docs/operations.md in the way of an operator.

// The procedure "With a pause, all at once" works: each message names the next step, only locks
// stop, and only for the larger max-ttl.
func TestMaxTTLChangesAllAtOnce(t *testing.T) {
	t.Parallel()
	const before, after = time.Second, 2 * time.Second
	l := lab.StartGuarded(t, before, lab.Config{Proxies: 2})
	one, two := l.Proxies[0], l.Proxies[1]
	far := lab.Dial(t, two.Addr)
	lab.WaitAllVote(t, l, far)
	l.Proxies = nil
	one.Stop(t) // step 1
	one = l.StartProxy(t, "--max-ttl", "2s")
	near := lab.Dial(t, one.Addr)
	lab.WaitStates(t, near, lab.Patience, "refused", "refused", "refused")
	reply := near.Do("LOCK", "job", "1s")
	for i, s := range l.Masters {
		says := "belongs to proxies with max-ttl 1000ms (here 2000ms): set the same here, " +
			"or stop those proxies and send LOCKPROXY ADMIT " + s.Addr + " to this one"
		client, _, _ := strings.Cut(says, ", or stop") // does not read of ADMIT, which would stop all others' locks
		if !strings.HasPrefix(reply, "-NOQUORUM ") || !strings.Contains(reply, client) || strings.Contains(reply, "ADMIT") ||
			lab.ReasonOf(near, i) != says || !one.Says(says) {
			t.Errorf("master %d: LOCK: got %q, LOCKPROXY MASTERS: got %q", i+1, reply, lab.ReasonOf(near, i))
		}
	}
	lab.UnlockSurely(t, far, "job", lab.LockSoon(t, far, "job"))
	held := lab.LockSoon(t, far, "held", "1s")
	start := time.Now()
	for _, i := range []string{"1", "2", "3"} { // step 2
		refused := near.Do("LOCKPROXY", "ADMIT", "master", i) // the other proxy still runs
		named := regexp.MustCompile(`^-ERR \S+ is connected to proxies with max-ttl 1000ms \(here 2000ms\) at 127\.0\.0\.1:\d+: ` +
			"stop them first, or add FORCE, which ends their locks\r\n$")
		if !named.MatchString(refused) {
			t.Fatalf("ADMIT without FORCE: got %q", refused)
		}
		near.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", "master", i, "FORCE")
	}
	lab.WaitStates(t, far, lab.Patience, "refused", "refused", "refused")
	if reply := far.Do("LOCK", "job", "1s"); !strings.HasPrefix(reply, "-NOQUORUM ") ||
		!strings.Contains(reply, "set the same here") {
		t.Errorf("LOCK through the old proxy: got %q, want NOQUORUM", reply)
	}
	far.WantDo("+OK\r\n", "SET", "a", "1")
	far.Do("UNLOCK", "held", held)
	lab.WaitFor(t, "the release", lab.Patience, func() bool { return lab.Holders(t, l.Masters, "held") == 0 })
	two.Stop(t) // step 3
	far = lab.Dial(t, l.StartProxy(t, "--max-ttl", "2s").Addr)
	for _, c := range []*lab.Client{near, far} { // step 4
		lab.WaitStates(t, c, after+lab.Patience, "voting", "voting", "voting")
	}
	if took := time.Since(start); took < after {
		t.Errorf("the masters voted %v after ADMIT, want at least %v", took, after)
	}
	lab.UnlockSurely(t, near, "job", lab.LockSoon(t, near, "job", "2s"))
}

// The procedure "Without a pause, one application after the other" works.
func TestMaxTTLChangesByPrefix(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, 10*time.Second, lab.Config{})
	old := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, old)
	token := lab.LockSoon(t, old, "held", "10s")
	host := lab.Dial(t, l.StartProxy(t, "--max-ttl", "20s", "--key-prefix", "next:").Addr)
	host.Unlock("job", lab.LockSoon(t, host, "job", "20s"))
	lab.WaitAllVote(t, l, old)
	old.WantDo(":1\r\n", "EXTEND", "held", token, "10s")
	host.Unlock("held", host.Lock("held", "20s")) // the two namespaces do not exclude each other
	old.Unlock("held", token)
}

// During the rotation of the masters' password no lock fails.
func TestMastersPasswordRotates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "masters")
	write := func(password string) {
		if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	upstream, masters := lab.StartRedis(t), lab.StartMasters(t, 3, "--requirepass", "old")
	ask := func(password string, args ...string) {
		t.Helper()
		for _, s := range masters {
			if got := lab.AskAs(t, s, password, args...); strings.HasPrefix(got, "-") {
				t.Fatalf("%q: got %q", args, got)
			}
		}
	}
	p := lab.StartProxy(t, "--upstream", upstream.Addr, "--masters", strings.Join(lab.Addrs(masters), ","),
		"--masters-password-file", path)
	p.WaitVoting(t)
	host := lab.Dial(t, p.Addr)
	token := host.Lock("held", "60s")
	works := func() { t.Helper(); host.Unlock("job", host.Lock("job", "10s")) }

	ask("old", "ACL", "SETUSER", "default", ">new") // step 1
	works()
	write("new") // step 2
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "the reload", lab.Patience, func() bool {
		return strings.Contains(p.Log.String(), "passwords reloaded")
	})
	works()
	ask("new", "ACL", "SETUSER", "default", "<old") // step 3
	works()
	for i, s := range masters { // step 4
		lab.AskAs(t, s, "new", "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		works()
		lab.WaitFor(t, "the master", lab.Patience, func() bool { return lab.ReasonOf(host, i) == "" })
	}
	host.WantDo(":1\r\n", "EXTEND", "held", token, "60s")
}

// During the upgrade of a proxy with a Unix socket, each connection to the link finds a proxy.
func TestUnixSocketUpgradeLosesNoConnection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link, next := filepath.Join(dir, "lockproxy.sock"), filepath.Join(dir, "next")
	s, port := lab.StartRedis(t), lab.FreeAddr(t)
	begin := func(name string) *lab.Proxy {
		return lab.StartProxy(t, "--upstream", s.Addr, "--restart-guard", "off", "--reuse-port", "--listen",
			port+",unix://"+filepath.Join(dir, name))
	}
	old := begin("a.sock") // step 1
	if err := os.Symlink("a.sock", link); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan string, 1)
	go func() { done <- connectOften(link, stop) }()
	begin("b.sock") // step 2
	if err := os.Symlink("b.sock", next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, link); err != nil { // step 3
		t.Fatal(err)
	}
	lab.Pass(t, 100*time.Millisecond) // for a client that resolved the old link
	old.Stop(t)                       // step 4
	close(stop)
	if wrong := <-done; wrong != "" {
		t.Error(wrong)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*.sock")); err != nil || len(names) != 2 {
		t.Errorf("got files %q, %v, want b.sock and the link", names, err)
	}
	if wrong := connectOnce(link); wrong != "" {
		t.Error(wrong)
	}
}

// connectOften connects to a Unix socket and sends PING until stop is closed. It returns the first
// fault, or "".
func connectOften(path string, stop <-chan struct{}) string {
	for {
		select {
		case <-stop:
			return ""
		case <-time.After(5 * time.Millisecond):
		}
		if wrong := connectOnce(path); wrong != "" {
			return wrong
		}
	}
}

func connectOnce(path string) string {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(lab.Patience)); err != nil {
		return err.Error()
	}
	reply := make([]byte, 7)
	if _, err = conn.Write([]byte("PING\r\n")); err == nil {
		_, err = conn.Read(reply)
	}
	switch {
	case err != nil:
		return err.Error()
	case string(reply) != "+PONG\r\n":
		return string(reply)
	}
	return ""
}
