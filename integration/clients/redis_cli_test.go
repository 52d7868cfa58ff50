package clients

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// redisCli runs redis-cli with the address of a cluster.
type redisCli struct{ program, host, port string }

func newRedisCli(t *testing.T, addr string) redisCli {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	return redisCli{lab.Tool(t, "redis-cli"), host, port}
}

func (c redisCli) command(args ...string) *exec.Cmd {
	return exec.Command(c.program, append([]string{"-h", c.host, "-p", c.port}, args...)...)
}

// run returns the output without spaces around it. A fault of redis-cli is an error.
func (c redisCli) run(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := c.command(args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("redis-cli %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// redis-cli works in all its modes: a command, several from its input, RESP3, repeats, --scan,
// --bigkeys, --memkeys, --hotkeys. TestRedisCliPipeInserts covers --pipe.
func TestRedisCliWorksInAllModes(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	cli := newRedisCli(t, c.Addr)
	wantLockCommands(t, cli)
	wantLockCommands(t, cli, "-3")
	got := strings.Fields(cli.run(t, "SET a 1\nLOCK input 30s\nGET a\nLOCK input 30s\nMULTI\nGET a\nEXEC\nLOCK other 30s\n"))
	if len(got) != 7 || len(got[1]) != 57 || len(got[6]) != 57 ||
		got[0] != "OK" || !slices.Equal(got[2:6], []string{"1", "OK", "QUEUED", "1"}) {
		t.Errorf("commands from the input: got %q", got)
	}
	if got := cli.run(t, "", "-r", "5", "-i", "0.01", "INCR", "n"); got != "1\n2\n3\n4\n5" {
		t.Errorf("-r 5: got %q", got)
	}
	wantScans(t, cli, c.Addr)
	if got := cli.run(t, "", "--eval", "/dev/null"); strings.Contains(got, "ERR") {
		t.Errorf("--eval: got %q", got)
	}
	if got := cli.run(t, "", "-3", "HELLO"); !strings.Contains(got, "proto") {
		t.Errorf("HELLO: got %q", got)
	}
}

// wantLockCommands: redis-cli, with these flags, prints the replies of LOCK, LOCKINFO and UNLOCK.
func wantLockCommands(t *testing.T, cli redisCli, flags ...string) {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		return cli.run(t, "", slices.Concat(flags, args)...)
	}
	token := run("LOCK", "cli", "30s")
	if lab.TokenOf(lab.Bulk(token)) == "" {
		t.Fatalf("LOCK: got %q", token)
	}
	if got := run("LOCK", "cli", "30s"); got != "" { // without a terminal redis-cli prints nil as an empty line
		t.Errorf("LOCK of a held key: got %q", got)
	}
	if got := run("LOCKINFO", "cli"); !strings.Contains(got, "held") || !strings.Contains(got, "masters") {
		t.Errorf("LOCKINFO: got %q", got)
	}
	if got := run("UNLOCK", "cli", token); got != "1" {
		t.Errorf("UNLOCK: got %q", got)
	}
}

// wantScans: redis-cli sees all of 1,000 new keys with each of its flags that scan.
func wantScans(t *testing.T, cli redisCli, addr string) {
	t.Helper()
	filler := lab.Dial(t, addr)
	for i := range 500 {
		filler.Send(lab.Encode("RPUSH", fmt.Sprintf("list:%d", i), "x", "y") + lab.Encode("SET", fmt.Sprintf("string:%d", i),
			strings.Repeat("x", i)))
	}
	for range 500 {
		filler.Want(":2\r\n+OK\r\n")
	}
	if n := len(strings.Fields(cli.run(t, "", "--scan", "--pattern", "list:*"))); n != 500 {
		t.Errorf("--scan: got %d keys", n)
	}
	for flag, want := range map[string]string{"--bigkeys": "has 499 bytes", "--memkeys": "Sampled 1002 keys",
		"--hotkeys": "LFU"} {
		out, err := cli.command(flag).CombinedOutput() // --hotkeys fails because of the server's eviction policy
		if !strings.Contains(string(out), want) || err != nil && flag != "--hotkeys" {
			t.Errorf("%s: %v, want %q in\n%s", flag, err, want, out)
		}
	}
}

// redis-cli prints the lines of MONITOR while locks come and go on its own and other connections.
func TestRedisCliMonitorPrintsUpstreamCommands(t *testing.T) {
	t.Parallel()
	cli := lab.Tool(t, "redis-cli")
	c := lab.StartCluster(t, 3)
	host, port, _ := net.SplitHostPort(c.Addr)
	p := lab.Launch(t, "redis-cli", cli, "-h", host, "-p", port, "MONITOR")
	lab.WaitFor(t, "monitor", lab.Patience, func() bool { return strings.HasPrefix(p.Log.String(), "OK\n") })
	other := lab.Dial(t, c.Addr)
	for i := range 50 {
		key := fmt.Sprintf("key-%d", i)
		token := other.Lock(key, "30s")
		other.WantDo("+OK\r\n", "SET", key, "1")
		other.Unlock(key, token)
	}
	lab.WaitFor(t, "50 lines", lab.Patience, func() bool { return strings.Count(p.Log.String(), `"SET" "key-`) == 50 })
	if strings.Contains(p.Log.String(), "LOCK") {
		t.Error("the monitor saw a lock command on the upstream")
	}
}

// With command-hints, redis-cli shows the arguments of a lock command as they are typed at a
// terminal.
func TestRedisCliShowsHints(t *testing.T) {
	t.Parallel()
	lab.Tool(t, "redis-cli")
	script := lab.Tool(t, "script")
	c := lab.StartCluster(t, 1, "--command-hints", "on")
	host, port, _ := net.SplitHostPort(c.Addr)
	for _, flags := range []string{"", " -3"} {
		keys := filepath.Join(t.TempDir(), "keys")
		if out, err := exec.Command(lab.Tool(t, "mkfifo"), keys).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		line := fmt.Sprintf("exec %s -qfec 'stty cols 150; TERM=xterm exec redis-cli -h %s -p %s%s' /dev/null < %s", script,
			host, port, flags, keys)
		p := lab.Launch(t, "redis-cli", "sh", "-c", line)
		typed, err := os.OpenFile(keys, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer typed.Close()
		lab.WaitFor(t, "the prompt", lab.Patience, func() bool { return strings.Contains(p.Log.String(), port+"> ") })
		for _, hint := range []string{"LOCK key ttl [KEYS n key [key ...]] [SHARED|LIMIT n] [WAIT timeout]",
			"UNLOCK key token [KEYS"} {
			word, rest, _ := strings.Cut(hint, " ")
			fmt.Fprint(typed, "\x15", word, " ") // ^U empties the line
			lab.WaitFor(t, "the hint of "+word+flags, lab.Patience, func() bool {
				return strings.Contains(p.Log.String(), rest)
			})
		}
	}
}
