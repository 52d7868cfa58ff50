package integration

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Large values and long pipelines: constant memory, back-pressure, no deadlock.

// memoryBound is what a proxy may ever use in these tests, in MB. The race detector's shadow memory comes on top.
var memoryBound = map[bool]int{false: 100, true: 300}[raceEnabled]

// TestLargeValue passes 256 MB in and out again.
func TestLargeValue(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host := dial(t, c.addr)
	host.timeout = 60 * time.Second * slack
	const size, piece = 256 << 20, 1 << 20
	block := bytes.Repeat([]byte("*2\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$-1"), piece/16)[:piece]
	host.send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n", size))
	for range size / piece {
		host.send(string(block))
	}
	host.send("\r\n" + encode("LOCK", "behind", "60s") + encode("STRLEN", "big"))
	host.want("+OK\r\n")
	token := tokenOf(host.frame())
	host.want(integer(size))

	host.send(encode("GET", "big") + encode("UNLOCK", "behind", token) + encode("PING"))
	host.want(fmt.Sprintf("$%d\r\n", size))
	if err := host.SetReadDeadline(time.Now().Add(host.timeout)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, piece)
	for i := range size / piece {
		if _, err := io.ReadFull(host.br, got); err != nil || !bytes.Equal(got, block) {
			t.Fatalf("MB %d of the value differs (%v)", i, err)
		}
	}
	host.want("\r\n:1\r\n+PONG\r\n")
	if peak := c.memory(t, "VmHWM"); peak > memoryBound {
		t.Errorf("the proxy used up to %d MB for a value of 256 MB, want under %d", peak, memoryBound)
	}
	wantNoStray(t, c.masters, c.proxy)
}

// TestSlowReader: a client that reads nothing makes its own replies wait in Redis, not in the proxy.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host, other := dial(t, c.addr), dial(t, c.addr)
	host.wantDo("+OK\r\n", "SET", "big", strings.Repeat("x", 1<<20))
	for range 100 {
		host.send(encode("GET", "big"))
	}
	host.send(encode("LOCK", "job", "60s"))
	for i := range 20 {
		key := fmt.Sprintf("other-%d", i)
		other.unlock(key, other.lock(key, "60s"))
		pauseBetween(t, 10*time.Millisecond)
	}
	if peak := c.memory(t, "VmHWM"); peak > memoryBound {
		t.Errorf("the proxy used up to %d MB for a client that does not read", peak)
	}
	for range 100 {
		if got := len(host.frame()); got != 1<<20+12 {
			t.Fatalf("a reply of %d bytes", got)
		}
	}
	host.unlock("job", tokenOf(host.frame()))
}

// TestWriteFirst: a client that writes 39 MB of commands, with LOCKs among them, before it reads anything. That
// works on Redis; a proxy that stops reading while it waits to place a reply would block both for ever.
func TestWriteFirst(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	for name, locks := range map[string]int{"one in the middle": 1, "many": 50} {
		t.Run(name, func(t *testing.T) {
			host := dial(t, c.addr)
			host.timeout = 20 * time.Second * slack
			const total = 1_000_000
			command := "*3\r\n$3\r\nSET\r\n$8\r\nkey-----\r\n$3\r\nval\r\n"
			part := strings.Repeat(command, total/(locks+1))
			host.send(part)
			for i := range locks {
				host.send(encode("LOCK", fmt.Sprintf("%s-%d", name, i), "60s"))
				host.send(part)
			}
			replies := strings.Repeat("+OK\r\n", total/(locks+1))
			host.want(replies)
			var tokens []string
			for range locks {
				tokens = append(tokens, tokenOf(host.frame()))
				host.want(replies)
			}
			for i, token := range tokens {
				host.unlock(fmt.Sprintf("%s-%d", name, i), token)
			}
		})
	}
	if peak := c.memory(t, "VmHWM"); peak > memoryBound {
		t.Errorf("the proxy used up to %d MB", peak)
	}
}

// TestRedisCliPipe: the mass insertion of redis-cli, which writes inline and binary commands without waiting.
func TestRedisCliPipe(t *testing.T) {
	t.Parallel()
	cli := tool(t, "redis-cli")
	c := startCluster(t, 3)
	_, port, _ := strings.Cut(c.addr, ":")
	var input strings.Builder
	for i := range 50_000 {
		input.WriteString(encode("SET", fmt.Sprintf("key-%d", i), "value"))
		if i%5000 == 0 {
			input.WriteString(encode("LOCK", fmt.Sprintf("job-%d", i), "60s"))
		}
	}
	cmd := exec.Command(cli, "-p", port, "--pipe")
	cmd.Stdin = strings.NewReader(input.String())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "errors: 0, replies: 50010") {
		t.Errorf("redis-cli --pipe: %v\n%s", err, out)
	}
	if got := c.upstream.do(t, "DBSIZE"); got != ":50000\r\n" {
		t.Errorf("the upstream has %q keys", got)
	}
}
