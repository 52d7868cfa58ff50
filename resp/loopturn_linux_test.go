package resp

import (
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// turnLoop returns a loop that runs only when the test says so, and two sockets whose bytes it carries to use. ends gets with which error, or
// panic, carrying ended; that must be when the test has.
func turnLoop(t *testing.T, use func(k *sock) (stop bool)) (l *loop, socks [2]*sock, others [2]net.Conn, ends [2]chan any) {
	t.Helper()
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		all.Wait()
		l.close()
	})
	for i := range socks {
		k, other := sockOn(t, l, "tcp")
		socks[i], others[i], ends[i] = k, other, make(chan any, 1)
		all.Go(func() { ends[i] <- carriedBy(k, use) })
	}
	for turn := 0; socks[0].waits() != gateWatched || socks[1].waits() != gateWatched; turn++ { // the first events only say that they can be written to
		if turn == 10000 {
			t.Fatal("the loop was not asked to carry")
		}
		l.turn()
		time.Sleep(time.Millisecond)
	}
	return l, socks, others, ends
}

// carriedBy lets the loop carry k's bytes, and returns the error or the panic with which that ended.
func carriedBy(k *sock, use func(k *sock) (stop bool)) (end any) {
	defer func() {
		if failed := recover(); failed != nil {
			end = failed
		}
	}()
	var x inbox
	return k.receive(&x, func(bool) bool {
		x.skip(len(x.bytes()))
		return use(k)
	}, true)
}

// waits tells who waits for bytes.
func (k *sock) waits() gateState {
	k.in.mu.Lock()
	defer k.in.mu.Unlock()
	return k.in.state
}

// unread is how many bytes wait in the socket.
func (k *sock) unread(t *testing.T) int {
	n, err := unix.IoctlGetInt(k.fd, unix.SIOCINQ)
	if err != nil {
		t.Error(err)
	}
	return n
}

// bring writes to both sockets and waits until the bytes are there.
func bring(t *testing.T, socks [2]*sock, others [2]net.Conn) {
	t.Helper()
	for i, other := range others {
		if _, err := other.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); socks[i].unread(t) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the bytes do not come")
			}
		}
	}
}

// What is met together is read before any of it is used: so what that makes the loop write goes out close together.
func TestAllIsReadBeforeUse(t *testing.T) {
	var socks [2]*sock
	used := 0
	l, socks, others, _ := turnLoop(t, func(*sock) bool {
		used++
		for _, k := range socks {
			if n := k.unread(t); n != 0 {
				t.Errorf("used while %d bytes of the same turn are unread", n)
			}
		}
		return false
	})
	bring(t, socks, others)
	if _, carried := l.turn(); carried != 2 || used != 2 {
		t.Errorf("carried %d, used %d, want 2", carried, used)
	}
}

// A loop that always finds more goes on, though not for ever, and gives way at once where others wait: a goroutine that it woke, or
// commands that are busy.
func TestLoopGivesWay(t *testing.T) {
	for _, c := range []struct {
		name        string
		busy, wakes bool
		fewest      int
		most        int
	}{
		{"alone", false, false, 4, carriedInRow + 1},
		{"beside busy commands", true, false, 2, 2},
		{"having woken a goroutine", false, true, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var socks [2]*sock
			var others [2]net.Conn
			carried := 0
			l, socks, others, _ := turnLoop(t, func(k *sock) (stop bool) {
				carried++
				i := 0
				if k == socks[1] {
					i = 1
				}
				if _, err := others[i].Write([]byte("x")); err != nil { // there is always more
					t.Error(err)
				}
				return c.wakes && i == 1
			})
			l.busy = func() bool { return c.busy }
			most := 0
			for try := 0; try < 100 && most < c.fewest; try++ { // on a busy machine the next byte may be late
				for _, k := range socks {
					if k.waits() != gateWatched {
						t.Fatal("not watched")
					}
				}
				bring(t, socks, others)
				carried = 0
				l.work()
				if carried > c.most {
					t.Fatalf("carried %d, want %d at most", carried, c.most)
				}
				most = max(most, carried)
			}
			if most < c.fewest {
				t.Errorf("carried %d, want %d at least", most, c.fewest)
			}
		})
	}
}
