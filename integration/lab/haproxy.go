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
// address. It does not interpret the bytes. A benchmark measures it in the same run, to separate
// the cost of the machine from that of the proxy.
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
