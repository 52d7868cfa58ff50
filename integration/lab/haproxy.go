package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const haproxyConfig = `global
  nbthread 2
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen redis
  bind %s
  server redis %s
`

// StartHAProxy starts HAProxy before a server, in TCP mode with two threads, and returns its
// address: what a relay that knows nothing of Redis does, measured in the same run, tells what of
// a figure is the machine's doing.
func StartHAProxy(t testing.TB, upstream string) (addr string) {
	t.Helper()
	path := Tool(t, "haproxy")
	addr = FreeAddr(t)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, haproxyConfig, addr, upstream), 0o600); err != nil {
		t.Fatal(err)
	}
	Launch(t, "haproxy", path, "-db", "-f", file)
	WaitFor(t, "haproxy", Patience, func() bool {
		c, err := Connect(addr)
		if err != nil {
			return false
		}
		defer c.Close()
		reply, err := c.Ask("PING")
		return err == nil && reply == "+PONG\r\n"
	})
	return addr
}
