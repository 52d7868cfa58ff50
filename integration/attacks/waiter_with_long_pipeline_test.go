package attacks

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestWaiterLeavesBehindMuch: a client that waits for a lock, sends a lot behind that and leaves
// loses its place in the line, and its memory is given back. Beyond 64 MB it may also be sent away
// before it leaves.
func TestWaiterLeavesBehindMuch(t *testing.T) {
	upstream := lab.StartRedis(t)
	megabyte := strings.Repeat(lab.Encode("SET", "filler", strings.Repeat("x", 1000)), 1000)
	for name, leave := range map[string]func(c *lab.Conn){
		"FIN":                     func(c *lab.Conn) { c.Close() },
		"RST":                     func(c *lab.Conn) { c.Reset() },
		"end of input, then kill": func(c *lab.Conn) { _ = c.CloseWrite(); lab.Pass(t, 100*time.Millisecond); c.Reset() },
	} {
		for size, megabytes := range map[string]int{"32 MB": 32, "80 MB": 80} {
			t.Run(name+" behind "+size, func(t *testing.T) {
				key, admin := name+" "+size, lab.FreeAddr(t)
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
				lab.WaitFor(t, "both in line, or the first sent away", lab.Patience, func() bool { return desk.Counter("waiting") == 2 })
				first.Timeout = 2 * time.Second
				for range megabytes {
					if first.Put(megabyte) != nil { // it is not taken any more
						break
					}
				}
				leave(first.Conn)
				if !lab.Poll(lab.Patience, func() bool { return desk.Counter("waiting") == 1 }) {
					t.Errorf("it still waits, %v after it has left", lab.Patience)
				}
				if !lab.Poll(lab.Patience, func() bool { return o.LiveHeap() < before+8 }) {
					t.Errorf("%.0f MB of heap are kept, %.0f MB were used before", o.LiveHeap(), before)
				}
				desk.Unlock(key, token)
				select {
				case a := <-granted:
					if lab.TokenOf(a.Reply) == "" {
						t.Errorf("the next in line got %q, %v", a.Reply, a.Err)
					}
				case <-time.After(lab.Patience):
					t.Errorf("the next in line has waited for %v", lab.Patience)
				}
			})
		}
	}
}
