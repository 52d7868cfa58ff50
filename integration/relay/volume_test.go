package relay

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Large values and long pipelines need constant memory and cannot deadlock.

// A value of 128 MB, or 256 with INTEGRATION_LONG, passes in and out again.
func TestLargeValuePassesInConstantMemory(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	host.Timeout = 5 * time.Minute
	const piece = 1 << 20
	size := lab.Long(128<<20, 256<<20)
	block := bytes.Repeat([]byte("*2\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$-1"), piece/16)[:piece]
	host.Send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n", size))
	for range size / piece {
		host.Send(string(block))
	}
	host.Send("\r\n" + lab.Encode("LOCK", "behind", "60s") + lab.Encode("STRLEN", "big"))
	host.Want("+OK\r\n")
	token := lab.TokenOf(host.Frame())
	host.Want(lab.Integer(size))

	host.Send(lab.Encode("GET", "big") + lab.Encode("UNLOCK", "behind", token) + lab.Encode("PING"))
	host.Want(fmt.Sprintf("$%d\r\n", size))
	if err := host.SetReadDeadline(time.Now().Add(host.Timeout)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, piece)
	for i := range size / piece {
		if _, err := io.ReadFull(host.Reader, got); err != nil || !bytes.Equal(got, block) {
			t.Fatalf("MB %d of the value differs (%v)", i, err)
		}
	}
	host.Want("\r\n:1\r\n+PONG\r\n")
	if peak := c.Memory(t, "VmHWM"); peak > lab.MemoryBound {
		t.Errorf("the proxy used up to %d MB for a value of %d MB, want under %d", peak, size>>20, lab.MemoryBound)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// The replies of a client that reads nothing wait in Redis, not in the proxy.
func TestSlowReaderCostsProxyNoMemory(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host, other := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "SET", "big", strings.Repeat("x", 1<<20))
	for range 100 {
		host.Send(lab.Encode("GET", "big"))
	}
	host.Send(lab.Encode("LOCK", "job", "60s"))
	for i := range 20 {
		key := fmt.Sprintf("other-%d", i)
		other.Unlock(key, other.Lock(key, "60s"))
		lab.Pass(t, 10*time.Millisecond)
	}
	if peak := c.Memory(t, "VmHWM"); peak > lab.MemoryBound {
		t.Errorf("the proxy used up to %d MB for a client that does not read, want at most %d", peak, lab.MemoryBound)
	}
	for range 100 {
		if got := len(host.Frame()); got != 1<<20+12 {
			t.Fatalf("got a reply of %d bytes, want %d", got, 1<<20+12)
		}
	}
	host.Unlock("job", lab.TokenOf(host.Frame()))
}

// A client writes 39 MB of commands, with a LOCK in the middle, before it reads, or 20 MB after
// the first of many LOCKs. That works on Redis;
// a proxy that stops reading while it waits to insert a reply would deadlock.
func TestWritingFirstCannotDeadlock(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	for name, locks := range map[string]int{"one in the middle": 1, "many": 50} {
		total := 1_000_000
		if locks > 1 {
			total = lab.Long(500_000, total)
		}
		t.Run(name, func(t *testing.T) {
			host := lab.Dial(t, c.Addr)
			host.Timeout = 2 * time.Minute
			command := "*3\r\n$3\r\nSET\r\n$8\r\nkey-----\r\n$3\r\nval\r\n"
			part := strings.Repeat(command, total/(locks+1))
			host.Send(part)
			for i := range locks {
				host.Send(lab.Encode("LOCK", fmt.Sprintf("%s-%d", name, i), "60s"))
				host.Send(part)
			}
			replies := strings.Repeat("+OK\r\n", total/(locks+1))
			host.Want(replies)
			var tokens []string
			for range locks {
				tokens = append(tokens, lab.TokenOf(host.Frame()))
				host.Want(replies)
			}
			for i, token := range tokens {
				host.Unlock(fmt.Sprintf("%s-%d", name, i), token)
			}
		})
	}
	if peak := c.Memory(t, "VmHWM"); peak > lab.MemoryBound {
		t.Errorf("the proxy used up to %d MB, want at most %d", peak, lab.MemoryBound)
	}
}

// redis-cli --pipe inserts a million keys, with inline and binary commands and without waiting.
func TestRedisCliPipeInserts(t *testing.T) {
	t.Parallel()
	cli := lab.Tool(t, "redis-cli")
	c := lab.StartCluster(t, 3)
	_, port, _ := strings.Cut(c.Addr, ":")
	var input strings.Builder
	for i := range 50_000 {
		input.WriteString(lab.Encode("SET", fmt.Sprintf("key-%d", i), "value"))
		if i%5000 == 0 {
			input.WriteString(lab.Encode("LOCK", fmt.Sprintf("job-%d", i), "60s"))
		}
	}
	cmd := exec.Command(cli, "-p", port, "--pipe")
	cmd.Stdin = strings.NewReader(input.String())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "errors: 0, replies: 50010") {
		t.Errorf("redis-cli --pipe: %v, want success\n%s", err, out)
	}
	if got := c.Upstream.Do(t, "DBSIZE"); got != ":50000\r\n" {
		t.Errorf("got %q keys on the upstream", got)
	}
}
