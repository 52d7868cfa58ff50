package netpoll

import (
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for an event on a busy machine.
const patience = time.Minute

// within returns the next value from ch, or fails.
func within[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("no %s after %v", what, patience)
	}
	return v
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// handLoops returns loops whose only worker runs when the test says so.
func handLoops(t *testing.T) (*Pollers, *worker) {
	t.Helper()
	ls := NewPollers()
	if err := ls.openLocked(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ls.Close)
	w := &worker{loops: ls}
	ls.workers[0] = w
	ls.load.since = time.Now().Add(time.Hour) // never judged
	return ls, w
}

// freeLoops returns loops that run with the given number of workers, which does not change.
func freeLoops(t *testing.T, workers int) *Pollers {
	t.Helper()
	ls, _ := handLoops(t)
	run(ls, workers)
	return ls
}

// run starts workers whose number does not change.
func run(ls *Pollers, workers int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.workers = make([]*worker, workers)
	ls.load = newLoad(workers, time.Now().Add(time.Hour), processTime)
	ls.load.active = workers
	_ = ls.startLocked()
}

// adopted returns a socket that ls watches, and the other side of it.
func adopted(t *testing.T, ls *Pollers, network string) (*Socket, net.Conn) {
	t.Helper()
	accepted, other := connected(t, network)
	c, ok := ls.Adopt(accepted)
	if !ok {
		t.Fatal("the loops did not take the socket")
	}
	t.Cleanup(func() { c.Close() })
	return c, other
}

// connected returns both sides of a connection.
func connected(t *testing.T, network string) (accepted, other net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = t.TempDir() + "/s"
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	other, err = net.Dial(network, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		accepted.Close()
		other.Close()
	})
	return accepted, other
}

// watching is a watch that collects the bytes that come.
type watching struct {
	buf Buffer
	end chan error // what stopped got

	mu  sync.Mutex
	got []byte
}

// collect lets the loop collect what c receives. use, if not nil, is called after each read.
func collect(c *Socket, use func() (stop bool)) *watching {
	w := &watching{end: make(chan error, 10)}
	c.Watch(&w.buf, func() bool {
		w.mu.Lock()
		w.got = append(w.got, w.buf.Bytes()...)
		w.mu.Unlock()
		w.buf.Skip(len(w.buf.Bytes()))
		return use != nil && use()
	}, func(err error) { w.end <- err })
	return w
}

func (w *watching) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.got)
}

// received returns what c receives, by a watch or a blocking Receive, until that ends.
func received(t *testing.T, c *Socket, watched bool) (got string, err error) {
	t.Helper()
	if watched {
		w := collect(c, nil)
		err = within(t, "end of watching", w.end)
		if len(w.end) > 0 {
			t.Error("told twice that watching ended")
		}
		return w.text(), err
	}
	var x Buffer
	err = Receive(c, &x, func() bool {
		got += string(x.Bytes())
		x.Skip(len(x.Bytes()))
		return false
	})
	return got, err
}

// eachWay runs f for both kinds of sockets, read by a watch and by a goroutine, with one worker
// and with two.
func eachWay(t *testing.T, f func(t *testing.T, ls *Pollers, network string, watched bool)) {
	for _, workers := range []int{1, 2} {
		for _, network := range []string{"tcp", "unix"} {
			name := network + map[int]string{1: "", 2: " with two workers"}[workers]
			t.Run(name, func(t *testing.T) { f(t, freeLoops(t, workers), network, false) })
			t.Run(name+" watched", func(t *testing.T) { f(t, freeLoops(t, workers), network, true) })
		}
	}
}

// stateOf returns who waits at the gate.
func stateOf(g *gate) gateState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}

// waitState waits until a reader, writer or watch waits at the gate, and no worker is at it.
func waitState(t *testing.T, g *gate) {
	t.Helper()
	eventually(t, "somebody waits", func() bool {
		s := stateOf(g)
		return s == gateWaiting || s == gateWatched
	})
}

// unread is how many bytes wait in the socket.
func (c *Socket) unread(t *testing.T) (n int) {
	c.control(func(fd int) {
		var err error
		if n, err = unix.IoctlGetInt(fd, unix.SIOCINQ); err != nil {
			t.Error(err)
		}
	})
	return n
}

// bring writes b to the other side and waits until it is there.
func bring(t *testing.T, c *Socket, other net.Conn, b string) {
	t.Helper()
	if _, err := other.Write([]byte(b)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bytes are there", func() bool { return c.unread(t) >= len(b) })
}

// settle serves batches until all are watched and the queue is empty.
func settle(t *testing.T, w *worker, conns ...*Socket) {
	t.Helper()
	eventually(t, "all are watched", func() bool {
		w.serveBatch()
		for _, c := range conns {
			if stateOf(&c.in) != gateWatched {
				return false
			}
		}
		found, _ := w.serveBatch()
		return found == 0
	})
}
