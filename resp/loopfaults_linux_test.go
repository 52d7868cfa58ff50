package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// turnPair is two sockets of a loop that runs only when the test says so; each has a byte that is not read yet. The loop hands what it reads to
// act.
type turnPair struct {
	l      *loop
	socks  [2]*sock
	others [2]net.Conn
	ends   [2]chan any // of turnLoop
	used   []*sock     // in the order in which they were carried
	act    func(k, another *sock)
}

func newTurnPair(t *testing.T, act func(k, another *sock)) *turnPair {
	t.Helper()
	p := &turnPair{act: act}
	p.l, p.socks, p.others, p.ends = turnLoop(t, p.use)
	bring(t, p.socks, p.others)
	return p
}

func (p *turnPair) use(k *sock) (stop bool) {
	p.used = append(p.used, k)
	another := p.socks[0]
	if another == k {
		another = p.socks[1]
	}
	if len(p.used) == 1 {
		p.act(k, another)
	}
	return false
}

// What is read and not yet dealt with belongs to its socket, whatever another socket of the same turn does to that meanwhile: it is dealt with
// once, then whoever had the loop carry learns what was done.
func TestOneOfATurnMeddlesWithAnother(t *testing.T) {
	for _, c := range []struct {
		name          string
		meddle        func(k, another *sock)
		first, second error // nil: it is still carried
	}{
		{"closes it", func(_, another *sock) { another.Close() }, nil, net.ErrClosed},
		{"closes both", func(k, another *sock) { another.Close(); k.Close() }, net.ErrClosed, net.ErrClosed},
		{"interrupts it", func(_, another *sock) { another.SetReadDeadline(time.Unix(1, 0)) }, nil, os.ErrDeadlineExceeded},
		{"interrupts it in vain", func(_, another *sock) {
			another.SetReadDeadline(time.Unix(1, 0))
			another.SetReadDeadline(time.Time{})
		}, nil, nil},
		{"panics", func(_, _ *sock) { panic("as told") }, errors.ErrUnsupported, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTurnPair(t, c.meddle)
			if _, carried := p.l.turn(); carried != 2 || len(p.used) != 2 || p.used[0] == p.used[1] {
				t.Fatalf("carried %d, used %d, want each once", carried, len(p.used))
			}
			for i, want := range []error{c.first, c.second} {
				k := p.used[i]
				end := p.ends[0]
				if k == p.socks[1] {
					end = p.ends[1]
				}
				if want == nil {
					if k.waits() != gateWatched {
						t.Errorf("number %d is in state %d, want it to be watched", i+1, k.waits())
					}
					k.Close()
					want = net.ErrClosed
				}
				got := within(t, "the end of carrying", end)
				text, panicked := got.(string)
				if err, _ := got.(error); !panicked && !errors.Is(err, want) || panicked && (want != errors.ErrUnsupported || !strings.Contains(text, "as told")) {
					t.Errorf("number %d ended with %v, want %v", i+1, got, want)
				}
			}
		})
	}
}

// A descriptor that is free again within a turn may be that of another socket before the turn ends. What was read before is not mixed with
// what that brings.
func TestDescriptorIsReusedWithinATurn(t *testing.T) {
	accepted, other := connected(t, "tcp")
	if _, err := other.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	var newcomer *sock
	var old int
	var err error
	var p *turnPair
	p = newTurnPair(t, func(_, another *sock) {
		old = another.fd
		for fd := 0; fd < old; { // a new descriptor is the lowest that is free
			if fd, err = unix.Dup(2); err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { unix.Close(fd) })
		}
		another.Close()
		newcomer = p.l.adopt(accepted).(*sock)
	})
	p.l.turn()
	if newcomer.fd != old {
		t.Errorf("the newcomer has the descriptor %d, want %d", newcomer.fd, old)
	}
	if n := newcomer.unread(t); n != 3 || len(p.used) != 2 {
		t.Errorf("%d bytes of the newcomer are unread, want 3; used %d, want 2", n, len(p.used))
	}
	defer newcomer.Close()
	got := make(chan string)
	go func() {
		var x inbox
		newcomer.receive(&x, func(bool) bool { return true }, true)
		got <- string(x.bytes())
	}()
	for deadline := time.Now().Add(10 * time.Second); newcomer.waits() != gateWatched && newcomer.unread(t) > 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	p.l.turn()
	if text := within(t, "the newcomer's bytes", got); text != "new" {
		t.Errorf("the newcomer got %q", text)
	}
}

// A goroutine that waits to write does not have to wait for the loop either.
func TestLoopGivesWayToWriter(t *testing.T) {
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	k, other := sockOn(t, l, "tcp")
	l.turn() // tells that it can be written to
	written := make(chan error, 1)
	go func() {
		_, err := k.Write(make([]byte, 16<<20))
		k.CloseWrite()
		written <- err
	}()
	waitState(t, &k.out)
	go io.Copy(io.Discard, other)
	gaveWay := false
	for deadline := time.Now().Add(10 * time.Second); len(written) == 0 && time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		l.woke = false
		wants := k.wants.Load()
		l.turn()
		if wants && !k.wants.Load() && !l.woke { // the writer may want again already, which shows nothing
			t.Error("a writer was woken and the loop does not know")
		}
		gaveWay = gaveWay || l.woke
	}
	if err := within(t, "the write", written); err != nil || !gaveWay {
		t.Errorf("the loop gave way: %v, %v", gaveWay, err)
	}
}

// Bytes that come while a loop ends its work are told like all others, however many there are at a time.
func TestNoWakeUpIsLost(t *testing.T) {
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	var all, loop sync.WaitGroup
	loop.Go(l.run)
	t.Cleanup(func() {
		all.Wait()
		l.set.Close()
		loop.Wait()
		l.close()
	})
	echo := func() net.Conn {
		k, other := sockOn(t, l, "tcp")
		all.Go(func() {
			var x inbox
			k.receive(&x, func(bool) bool {
				k.tryWrite(x.bytes())
				x.skip(len(x.bytes()))
				return false
			}, true)
		})
		other.SetDeadline(time.Now().Add(time.Minute))
		return other
	}
	var callers sync.WaitGroup
	ask := func(conns []net.Conn, rounds int) {
		callers.Go(func() {
			b := make([]byte, 1)
			for round := range rounds {
				for pause := time.Now(); time.Since(pause) < time.Duration(round%64)*time.Microsecond; {
				}
				for _, c := range conns {
					c.Write(b)
				}
				for _, c := range conns {
					if _, err := io.ReadFull(c, b); err != nil {
						t.Errorf("round %d: %v", round, err)
						return
					}
				}
			}
		})
	}
	for range 4 {
		ask([]net.Conn{echo()}, 2000)
	}
	var many []net.Conn
	for range 2*eventsAtOnce + 10 {
		many = append(many, echo())
	}
	ask(many, 20)
	callers.Wait()
}
