package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sockPair returns a socket that a loop watches, and the other side of it.
func sockPair(t *testing.T, network string) (*sock, net.Conn) {
	t.Helper()
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run()
	}()
	t.Cleanup(func() {
		l.set.Close()
		<-ended
		l.close()
	})
	return sockOn(t, l, network)
}

// sockOn is sockPair with a socket that l watches.
func sockOn(t *testing.T, l *loop, network string) (*sock, net.Conn) {
	t.Helper()
	accepted, other := connected(t, network)
	k, ok := l.adopt(accepted).(*sock)
	if !ok {
		t.Fatal("the loop did not take the socket")
	}
	t.Cleanup(func() { k.Close() })
	return k, other
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

// received is what receive gave, until it ended with err.
func received(k *sock, onLoop bool) (got []byte, err error) {
	var x inbox
	use := func(bool) bool {
		got = append(got, x.bytes()...)
		x.skip(len(x.bytes()))
		return false
	}
	for err == nil {
		err = k.receive(&x, use, onLoop)
	}
	return got, err
}

// eachWay runs f for both kinds of sockets, carried by the loop and by a goroutine.
func eachWay(t *testing.T, f func(t *testing.T, network string, onLoop bool)) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) { f(t, network, false) })
		t.Run(network+" on the loop", func(t *testing.T) { f(t, network, true) })
	}
}

// The end of input that comes with the last bytes is told by one event for both. Nothing may wait for another.
func TestEndOfInputWithBytes(t *testing.T) {
	eachWay(t, func(t *testing.T, network string, onLoop bool) {
		for range 50 {
			k, other := sockPair(t, network)
			go func() {
				other.Write([]byte("last words"))
				other.Close()
			}()
			if got, err := received(k, onLoop); string(got) != "last words" || err != io.EOF {
				t.Fatalf("got %q, %v", got, err)
			}
		}
	})
}

func TestResetIsToldAsSuch(t *testing.T) {
	k, other := sockPair(t, "tcp")
	other.(*net.TCPConn).SetLinger(0)
	other.Close()
	if _, err := received(k, true); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

// A read ends in front of urgent data, with more behind it.
func TestUrgentData(t *testing.T) {
	k, other := sockPair(t, "tcp")
	raw, err := other.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		for _, part := range []struct {
			text  string
			flags int
		}{{"before", 0}, {"!", syscall.MSG_OOB}, {"behind", 0}} {
			if err := syscall.Sendto(int(fd), []byte(part.text), part.flags, nil); err != nil {
				t.Error(err)
			}
		}
	})
	var x inbox
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.receive(&x, func(bool) bool { return len(x.bytes()) == len("beforebehind") }, true)
	}()
	within(t, "both sides of the urgent byte", done)
	if string(x.bytes()) != "beforebehind" {
		t.Errorf("got %q", x.bytes())
	}
}

func TestSockDeadlines(t *testing.T) {
	eachWay(t, func(t *testing.T, network string, onLoop bool) {
		k, other := sockPair(t, network)
		errs := make(chan error)
		go func() {
			_, err := received(k, onLoop)
			errs <- err
		}()
		waitState(t, &k.in)
		k.SetReadDeadline(time.Unix(1, 0))
		if err := within(t, "the deadline that has passed", errs); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := k.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read behind the deadline: %v", err)
		}
		k.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := received(k, onLoop); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline to come: %v", err)
		}
		k.SetReadDeadline(time.Now().Add(time.Millisecond))
		k.SetReadDeadline(time.Time{})
		other.Write([]byte("a"))
		other.Close()
		if got, err := received(k, onLoop); string(got) != "a" || err != io.EOF {
			t.Errorf("without a deadline: %q, %v", got, err)
		}
	})
}

// TestTwoReaders: the second of two who wait is told; the first goes on.
func TestTwoReaders(t *testing.T) {
	eachWay(t, func(t *testing.T, network string, onLoop bool) {
		k, other := sockPair(t, network)
		first := make(chan string)
		go func() {
			got, err := received(k, onLoop)
			first <- fmt.Sprintf("%q %v", got, err)
		}()
		waitState(t, &k.in)
		if _, err := k.Read(make([]byte, 1)); err != errTwoWait {
			t.Errorf("the second got %v", err)
		}
		other.Write([]byte("a"))
		other.Close()
		if got := within(t, "the first", first); got != `"a" EOF` {
			t.Errorf("the first got %s", got)
		}
	})
}

// waitState waits until somebody waits at the gate.
func waitState(t *testing.T, g *gate) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		g.mu.Lock()
		state := g.state
		g.mu.Unlock()
		if state != gateIdle {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
}

func TestSockClose(t *testing.T) {
	eachWay(t, func(t *testing.T, network string, onLoop bool) {
		k, _ := sockPair(t, network)
		errs := make(chan error)
		go func() {
			_, err := received(k, onLoop)
			errs <- err
		}()
		go func() {
			for {
				if _, err := k.Write(make([]byte, 1<<20)); err != nil {
					errs <- err
					return
				}
			}
		}()
		waitState(t, &k.in)
		waitState(t, &k.out)
		k.Close()
		for range 2 {
			if err := within(t, "the close", errs); !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
		_, read := k.Read(make([]byte, 1))
		_, written := k.Write([]byte("a"))
		_, tried := k.tryWrite([]byte("a"))
		raw, _ := k.SyscallConn()
		control := raw.Control(func(uintptr) { t.Error("the descriptor of a closed socket was given away") })
		for _, err := range []error{read, written, tried, control, k.Close(), k.CloseWrite()} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("behind the close: %v", err)
			}
		}
	})
}

// A socket takes what it can; the rest waits for the other side.
func TestSockWrite(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		k, other := sockPair(t, network)
		all := make([]byte, 16<<20)
		for i := range all {
			all[i] = byte(i >> 8)
		}
		n, err := k.tryWrite(all)
		if n == 0 || n == len(all) || err != nil {
			t.Fatalf("%s: took %d bytes at once, %v", network, n, err)
		}
		written := make(chan error)
		go func() {
			_, err := k.Write(all[n:])
			k.CloseWrite()
			written <- err
		}()
		waitState(t, &k.out)
		got, err := io.ReadAll(other)
		if err != nil || !bytes.Equal(got, all) {
			t.Errorf("%s: read %d bytes of %d, %v", network, len(got), len(all), err)
		}
		if err := within(t, "the write", written); err != nil {
			t.Error(network, err)
		}
	}
}

// What panics on the loop panics where the loop was asked to carry, and the loop goes on.
func TestPanicOnLoop(t *testing.T) {
	k, other := sockPair(t, "tcp")
	got := make(chan any)
	go func() {
		defer func() { got <- recover() }()
		k.receive(new(inbox), func(mayBlock bool) bool { panic("as told") }, true)
	}()
	waitState(t, &k.in)
	other.Write([]byte("a"))
	if p, _ := within(t, "the panic", got).(string); !strings.Contains(p, "as told") || !strings.Contains(p, "loop_linux_test.go") {
		t.Errorf("got %v, want the panic and where it was", p)
	}
	other.Write([]byte("b"))
	other.Close()
	if got, err := received(k, true); string(got) != "b" || err != io.EOF {
		t.Errorf("afterwards: %q, %v", got, err)
	}
}

// A loop never waits for one client: neither for one that does not read, nor for one that sends without end.
func TestLoopServesAll(t *testing.T) {
	network, upstream := startRedis(t)
	r := startRelay(t, network, upstream, nil)
	r.server.loops.once.Do(func() { // all on one
		l, err := newLoop()
		if err != nil {
			t.Fatal(err)
		}
		r.server.loops.all = []*loop{l}
		r.server.loops.wg.Go(l.run)
	})
	value := strings.Repeat("x", 1<<20)
	c := r.dial()
	c.send("SET big " + value[:60000] + "\r\n")
	c.expect("+OK\r\n")
	for range 2 {
		r.dial().send(strings.Repeat("GET big\r\n", 200)) // 12 MB that it does not read
		sender := r.dial()
		go func() {
			for {
				if _, err := io.WriteString(sender.Conn, "*3\r\n$3\r\nSET\r\n$5\r\nother\r\n$1048576\r\n"+value+"\r\n"); err != nil {
					return
				}
			}
		}()
	}
	for range 30 {
		c.send("ECHO a\r\n")
		c.expect("$1\r\na\r\n")
		c.send("LOCK a\r\n")
		c.expect("$5\r\nown:a\r\n")
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	for sess := range r.server.sessions {
		if sess.loop == nil || !sess.looped {
			t.Error("a connection is not carried by a loop")
		}
	}
}

// Once both sockets are there, nobody but the loop waits for bytes, and what one side is slow to take comes whole.
func TestLoopCarries(t *testing.T) {
	network, upstream := startRedis(t)
	r := startRelay(t, network, upstream, nil)
	value := strings.Repeat("x", 60000)
	c := r.dial()
	c.send("SET big " + value + "\r\n")
	c.expect("+OK\r\n")
	sess := r.server.all()[0]
	sess.mu.Lock()
	sides := []net.Conn{sess.client, sess.up}
	sess.mu.Unlock()
	for _, side := range sides {
		in := &side.(*sock).in
		waitState(t, in)
		in.mu.Lock()
		if in.state != gateWatched {
			t.Errorf("state %d, want the loop to watch", in.state)
		}
		in.mu.Unlock()
	}
	c.send(strings.Repeat("GET big\r\n", 200)) // 12 MB, more than the sockets hold
	for deadline := time.Now().Add(10 * time.Second); !sess.pace.writing.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing waits for the client")
		}
	}
	for range 200 {
		c.expect("$60000\r\n" + value + "\r\n")
	}
	c.send("LOCK a\r\nPING\r\n")
	c.expect("$5\r\nown:a\r\n+PONG\r\n")
}
