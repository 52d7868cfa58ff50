package attacks

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestWaiterWithLongPipelineLeavesNothing: a client waits for a lock, sends many more commands and
// leaves. It loses its place in the queue, and the proxy frees the memory of its commands. The
// proxy may disconnect it before that if it has sent more than 64 MB.
func TestWaiterWithLongPipelineLeavesNothing(t *testing.T) {
	upstream := lab.StartRedis(t)
	for name, leave := range map[string]func(c *lab.Conn){
		"FIN": func(c *lab.Conn) { c.Close() },
		"RST": func(c *lab.Conn) { c.Reset() },
		"end of input, then RST": func(c *lab.Conn) {
			_ = c.CloseWrite()
			lab.Pass(t, 100*time.Millisecond)
			c.Reset()
		},
	} {
		for size, megabytes := range map[string]int{"32 MB": 32, "80 MB": 80} {
			if megabytes > 64 && name != "RST" && !lab.IsLong() {
				continue // the proxy disconnects the client, however it leaves
			}
			t.Run(name+" after "+size, func(t *testing.T) {
				wantWaiterForgotten(t, upstream, name+" "+size, megabytes, leave)
			})
		}
	}
}

// wantWaiterForgotten lets one client wait for key, send some megabytes and leave, and another
// wait after it.
func wantWaiterForgotten(t *testing.T, upstream *lab.Redis, key string, megabytes int, leave func(*lab.Conn)) {
	admin := lab.FreeAddr(t)
	p := lab.StartPlainProxy(t, "--upstream", upstream.Addr, "--restart-guard", "off", "--admin-listen", admin)
	p.WaitVoting(t)
	o, desk := &lab.Operators{T: t, Addr: admin}, lab.Dial(t, p.Addr)
	before := o.LiveHeap()
	token := desk.Lock(key, "60s")
	first := lab.Dial(t, p.Addr)
	first.WantDo("+PONG\r\n", "PING")
	first.Send(lab.Encode("LOCK", key, "60s", "WAIT", "50s"))
	desk.WaitWaiting(1)
	second := lab.Dial(t, p.Addr)
	second.Timeout = time.Minute
	granted := second.Later("LOCK", key, "60s", "WAIT", "50s")
	desk.WaitWaiting(2)

	megabyte := strings.Repeat(lab.Encode("SET", "filler", strings.Repeat("x", 1000)), 1000)
	for range megabytes {
		if first.Put(megabyte) != nil { // the proxy has disconnected it
			break
		}
	}
	leave(first.Conn)
	desk.WaitWaiting(1)
	if !lab.Poll(lab.Patience, func() bool { return o.LiveHeap() < before+8 }) {
		t.Errorf("live heap: got %.0f MB after the client has left, want %.0f MB as before, and 8 at most",
			o.LiveHeap(), before)
	}
	desk.Unlock(key, token)
	lab.WantToken(t, "the next waiter", granted)
}
