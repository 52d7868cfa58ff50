package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// FreeAddr finds a loopback port below those that the system gives to outgoing connections: one of these could
// otherwise sit on the port of a killed server, or even connect to itself there.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 11000+rand.IntN(21000))
		if _, taken := handedOut.LoadOrStore(addr, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// handedOut holds the addresses that freeAddr returned, so that parallel tests never share one.
var handedOut sync.Map
