package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports for servers lie below the range of outgoing connections: otherwise a connection could sit
// on the port of a killed server, or even connect to itself there.
const (
	firstPort  = 11000
	blockPorts = 250
	blockCount = 84
)

// ports hands out the addresses of this process. Test binaries run side by side, so each takes
// whole blocks of ports: it listens on the first port of a block for as long as it runs, and hands
// out the others, each once.
var ports struct {
	sync.Mutex
	guards     []net.Listener
	next, last int // of the current block
}

// FreeAddr finds a free loopback port, and gives it to no other test.
func FreeAddr(t testing.TB) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for {
		if ports.next >= ports.last && !takeBlockLocked() {
			t.Fatal("no free port")
		}
		addr := loopback(ports.next)
		ports.next++
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
}

// takeBlockLocked makes a block of ports ours, the first one that is free from a random one on.
func takeBlockLocked() bool {
	start := rand.IntN(blockCount)
	for i := range blockCount {
		first := firstPort + (start+i)%blockCount*blockPorts
		if guard, err := net.Listen("tcp", loopback(first)); err == nil {
			ports.guards = append(ports.guards, guard)
			ports.next, ports.last = first+1, first+blockPorts
			return true
		}
	}
	return false
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
