package clients

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// redis-cli works in all its modes: a command, several from its input, RESP3, repeats, --scan,
// --bigkeys, --memkeys, --hotkeys. TestRedisCliPipeInserts covers --pipe.
func TestRedisCliWorksInAllModes(t *testing.T) {
	t.Parallel()
	cli := lab.Tool(t, "redis-cli")
	c := lab.StartCluster(t, 3)
	host, port, _ := net.SplitHostPort(c.Addr)
	run := func(input string, args ...string) string {
		t.Helper()
		cmd := exec.Command(cli, append([]string{"-h", host, "-p", port}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("redis-cli %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, version := range [][]string{nil, {"-3"}} {
		token := run("", append(version, "LOCK", "cli", "30s")...)
		if lab.TokenOf(lab.Bulk(token)) == "" {
			t.Fatalf("LOCK: got %q", token)
		}
		if got := run("", append(version, "LOCK", "cli", "30s")...); got != "" { // without a terminal redis-cli prints nil as an empty line
			t.Errorf("LOCK of a held key: got %q", got)
		}
		if got := run("", append(version, "LOCKINFO", "cli")...); !strings.Contains(got, "held") || !strings.Contains(got, "masters") {
			t.Errorf("LOCKINFO: got %q", got)
		}
		if got := run("", append(version, "UNLOCK", "cli", token)...); got != "1" {
			t.Errorf("UNLOCK: got %q", got)
		}
	}
	got := strings.Fields(run("SET a 1\nLOCK input 30s\nGET a\nLOCK input 30s\nMULTI\nGET a\nEXEC\nLOCK other 30s\n"))
	if len(got) != 7 || got[0] != "OK" || len(got[1]) != 57 || got[2] != "1" || got[3] != "OK" || got[4] != "QUEUED" || got[5] != "1" || len(got[6]) != 57 {
		t.Errorf("commands from the input: got %q", got)
	}
	if got := run("", "-r", "5", "-i", "0.01", "INCR", "n"); got != "1\n2\n3\n4\n5" {
		t.Errorf("-r 5: got %q", got)
	}
	filler := lab.Dial(t, c.Addr)
	for i := range 500 {
		filler.Send(lab.Encode("RPUSH", fmt.Sprintf("list:%d", i), "x", "y") + lab.Encode("SET", fmt.Sprintf("string:%d", i), strings.Repeat("x", i)))
	}
	for range 500 {
		filler.Want(":2\r\n+OK\r\n")
	}
	if n := len(strings.Fields(run("", "--scan", "--pattern", "list:*"))); n != 500 {
		t.Errorf("--scan: got %d keys", n)
	}
	for flag, want := range map[string]string{"--bigkeys": "has 499 bytes", "--memkeys": "Sampled 1002 keys", "--hotkeys": "LFU"} {
		cmd := exec.Command(cli, "-h", host, "-p", port, flag) // --hotkeys fails because of the server's eviction policy
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), want) || err != nil && flag != "--hotkeys" {
			t.Errorf("%s: %v, want %q in\n%s", flag, err, want, out)
		}
	}
	if got := run("", "--eval", "/dev/null"); strings.Contains(got, "ERR") {
		t.Errorf("--eval: got %q", got)
	}
	if got := run("", "-3", "HELLO"); !strings.Contains(got, "proto") {
		t.Errorf("HELLO: got %q", got)
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
