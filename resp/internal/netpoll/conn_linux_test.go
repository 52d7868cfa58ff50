package netpoll

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
	"unsafe"

	"golang.org/x/sys/unix"
)

// One event announces the last bytes and the end of input. No reader may wait for another event.
func TestEndOfInputWithBytes(t *testing.T) {
	eachWay(t, func(t *testing.T, ls *Pollers, network string, watched bool) {
		for range 50 {
			c, other := adopted(t, ls, network)
			go func() {
				other.Write([]byte("last words"))
				other.Close()
			}()
			if got, err := received(t, c, watched); got != "last words" || err != io.EOF {
				t.Fatalf("got %q, %v", got, err)
			}
		}
	})
}

func TestResetIsToldAsSuch(t *testing.T) {
	c, other := adopted(t, freeLoops(t, 1), "tcp")
	other.(*net.TCPConn).SetLinger(0)
	other.Close()
	if _, err := received(t, c, true); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

// A read ends before urgent data, and more bytes follow that.
func TestUrgentData(t *testing.T) {
	for range 20 {
		c, other := adopted(t, freeLoops(t, 1), "tcp")
		w := collect(c, nil)
		waitState(t, &c.in)
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
		eventually(t, "both sides of the urgent byte", func() bool { return len(w.text()) >= len("beforebehind") })
		if w.text() != "beforebehind" {
			t.Errorf("got %q", w.text())
		}
	}
}

func TestDeadlineEndsReads(t *testing.T) {
	eachWay(t, func(t *testing.T, ls *Pollers, network string, watched bool) {
		c, other := adopted(t, ls, network)
		errs := make(chan error)
		go func() {
			_, err := received(t, c, watched)
			errs <- err
		}()
		waitState(t, &c.in)
		c.SetReadDeadline(time.Unix(1, 0))
		if err := within(t, "the deadline that has passed", errs); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		_, read := c.Read(make([]byte, 1))
		_, drained := c.ReadInto(new(Buffer))
		_, again := received(t, c, watched)
		for _, err := range []error{read, drained, again} {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("behind the deadline: %v", err)
			}
		}
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := received(t, c, watched); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline to come: %v", err)
		}
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		c.SetReadDeadline(time.Time{})
		other.Write([]byte("a"))
		other.Close()
		if got, err := received(t, c, watched); got != "a" || err != io.EOF {
			t.Errorf("without a deadline: %q, %v", got, err)
		}
	})
}

// The second of two readers gets an error; the first goes on.
func TestTwoReaders(t *testing.T) {
	eachWay(t, func(t *testing.T, ls *Pollers, network string, watched bool) {
		c, other := adopted(t, ls, network)
		first := make(chan string)
		go func() {
			got, err := received(t, c, watched)
			first <- fmt.Sprintf("%q %v", got, err)
		}()
		waitState(t, &c.in)
		_, read := c.Read(make([]byte, 1))
		_, drained := c.ReadInto(new(Buffer))
		_, waited := received(t, c, false)
		_, watches := received(t, c, true)
		for i, err := range []error{read, drained, waited, watches} {
			if err != errTwoWait {
				t.Errorf("way %d: the second got %v", i, err)
			}
		}
		other.Write([]byte("a"))
		other.Close()
		if got := within(t, "the first", first); got != `"a" EOF` {
			t.Errorf("the first got %s", got)
		}
	})
}

func TestCloseEndsReadsAndWrites(t *testing.T) {
	eachWay(t, func(t *testing.T, ls *Pollers, network string, watched bool) {
		c, _ := adopted(t, ls, network)
		errs := make(chan error)
		go func() {
			_, err := received(t, c, watched)
			errs <- err
		}()
		go func() {
			for {
				if _, err := c.Write(make([]byte, 1<<20)); err != nil {
					errs <- err
					return
				}
			}
		}()
		waitState(t, &c.in)
		waitState(t, &c.out)
		c.Close()
		for range 2 {
			if err := within(t, "the close", errs); !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
		_, read := c.Read(make([]byte, 1))
		_, drained := c.ReadInto(new(Buffer))
		_, again := received(t, c, watched)
		_, written := c.Write([]byte("a"))
		_, tried := c.TryWrite([]byte("a"))
		control := c.control(func(int) { t.Error("the descriptor of a closed socket was given away") })
		deadline := c.SetDeadline(time.Now())
		for _, err := range []error{read, drained, again, written, tried, control, deadline, c.Close(), c.CloseWrite()} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("behind the close: %v", err)
			}
		}
	})
}

// A socket takes as many bytes as it can; the rest waits for the other side.
func TestWriteWaitsForRoom(t *testing.T) {
	eachWay(t, func(t *testing.T, ls *Pollers, network string, _ bool) {
		c, other := adopted(t, ls, network)
		smallBuffer := func(fd int) {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<16); err != nil {
				t.Error(err)
			}
		}
		if err := c.control(smallBuffer); err != nil {
			t.Fatal(err)
		}
		cycle := make([]byte, 1<<16)
		for i := range cycle {
			cycle[i] = byte(i >> 8)
		}
		all := bytes.Repeat(cycle, 2<<20/len(cycle))
		n, err := c.TryWrite(all)
		if n == 0 || n == len(all) || err != nil {
			t.Fatalf("took %d bytes at once, %v", n, err)
		}
		c.SetWriteDeadline(time.Now().Add(time.Millisecond))
		for err == nil { // it may take some more
			var m int
			m, err = c.Write(all[n:])
			n += m
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write until the deadline: %v", err)
		}
		c.SetWriteDeadline(time.Time{})
		written := make(chan error)
		go func() {
			_, err := c.Write(all[n:])
			c.CloseWrite()
			written <- err
		}()
		waitState(t, &c.out)
		got, err := io.ReadAll(other)
		if err != nil || !bytes.Equal(got, all) {
			t.Errorf("read %d bytes of %d, %v", len(got), len(all), err)
		}
		if err := within(t, "the write", written); err != nil {
			t.Error(err)
		}
	})
}

// A panic ends the watch and not the loop.
func TestPanicEndsWatchNotLoop(t *testing.T) {
	c, other := adopted(t, freeLoops(t, 1), "tcp")
	cause := errors.New("as told")
	w := collect(c, func() bool { panic(cause) })
	other.Write([]byte("a"))
	err := within(t, "the panic", w.end)
	failed, ok := errors.AsType[*PanicError](err)
	if !ok || failed.Value != cause || !strings.Contains(err.Error(), "conn_linux_test.go") {
		t.Errorf("got %v, want the panic and where it was", err)
	}
	other.Write([]byte("b"))
	other.Close()
	if got, err := received(t, c, true); got != "b" || err != io.EOF {
		t.Errorf("afterwards: %q, %v", got, err)
	}
}

// Bytes that came before Watch, and whose event has passed, are read without another event.
func TestWatchFindsBytes(t *testing.T) {
	for _, workers := range []int{1, 2} {
		ls := freeLoops(t, workers)
		c, other := adopted(t, ls, "tcp")
		for range 2000 {
			bring(t, c, other, "12")
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			w := collect(c, func() bool { return true })
			if err := within(t, "the byte that was left", w.end); err != nil || w.text() != "2" {
				t.Fatalf("got %q, %v", w.text(), err)
			}
		}
	}
}

// stopped may watch again: buf belongs to it.
func TestWatchAgainFromStopped(t *testing.T) {
	c, other := adopted(t, freeLoops(t, 2), "unix")
	var buf Buffer
	var got []byte
	end := make(chan error, 1)
	use := func() bool {
		got = append(got, buf.Bytes()...)
		buf.Skip(len(buf.Bytes()))
		return true
	}
	var stopped func(err error)
	stopped = func(err error) {
		if err != nil {
			end <- err
			return
		}
		c.Watch(&buf, use, stopped)
	}
	c.Watch(&buf, use, stopped)
	for i := range 500 {
		other.Write([]byte{byte(i)})
	}
	other.Close()
	if err := within(t, "the end", end); err != io.EOF || len(got) != 500 || got[499] != 499&0xff {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// What use leaves in the buffer is there at the next use, and afterwards.
func TestBytesMayStay(t *testing.T) {
	c, other := adopted(t, freeLoops(t, 1), "tcp")
	var buf Buffer
	end := make(chan error, 1)
	c.Watch(&buf, func() bool { return false }, func(err error) { end <- err })
	other.Write(bytes.Repeat([]byte("x"), 3*ChunkSize))
	other.Write([]byte("y"))
	other.Close()
	within(t, "the end", end)
	if n := len(buf.Bytes()); n != 3*ChunkSize+1 || buf.Bytes()[n-1] != 'y' {
		t.Errorf("%d bytes are left", n)
	}
}

func TestReadInto(t *testing.T) {
	c, other := adopted(t, freeLoops(t, 1), "tcp")
	var x Buffer
	if n, err := c.ReadInto(&x); n != 0 || err != nil || x.mem != nil {
		t.Errorf("read %d bytes of none, %v; memory %d", n, err, len(x.mem))
	}
	other.Write([]byte("abc"))
	eventually(t, "the bytes are read", func() bool {
		_, err := c.ReadInto(&x)
		return err == nil && string(x.Bytes()) == "abc"
	})
	other.Close()
	eventually(t, "the end is read", func() bool {
		_, err := c.ReadInto(&x)
		return err == io.EOF
	})
}

// TryRead finds bytes, and the end of input, that no loop has noticed, whether or not the read
// deadline has passed. It leaves the deadline.
func TestTryRead(t *testing.T) {
	ls, _ := handLoops(t)
	for _, passed := range []bool{false, true} {
		c, other := adopted(t, ls, "tcp")
		var x Buffer
		c.ReadInto(&x) // none are there
		if passed {
			c.SetReadDeadline(time.Unix(1, 0))
		}
		if n, err := c.TryRead(&x); n != 0 || err != nil || x.mem != nil {
			t.Errorf("read %d bytes of none, %v; memory %d", n, err, len(x.mem))
		}
		bring(t, c, other, "abc")
		if n, err := c.TryRead(&x); n != 3 || err != nil || string(x.Bytes()) != "abc" {
			t.Errorf("read %d bytes, %v: %q; want abc", n, err, x.Bytes())
		}
		other.Close()
		eventually(t, "the end is read", func() bool {
			_, err := c.TryRead(&x)
			return err == io.EOF
		})
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) != passed {
			t.Errorf("Read afterwards: %v; a deadline had passed: %v", err, passed)
		}
	}
}

// An idle connection is small: no channel, timer or buffer until they are needed.
func TestIdleIsSmall(t *testing.T) {
	c, other := adopted(t, freeLoops(t, 1), "tcp")
	w := collect(c, nil)
	other.Write([]byte("a"))
	eventually(t, "the byte is used and c watched", func() bool {
		return w.text() == "a" && stateOf(&c.in) == gateWatched
	})
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if size := unsafe.Sizeof(*c); size > 300 || c.in.wake != nil || c.out.wake != nil || c.in.timer != nil ||
		w.buf.mem != nil {
		t.Errorf("%d bytes, %v %v %v, buffer %d", size, c.in.wake, c.out.wake, c.in.timer, len(w.buf.mem))
	}
}

// Adopt leaves a connection that is not a plain socket as it is.
func TestNotAdopted(t *testing.T) {
	ls := freeLoops(t, 1)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if c, ok := ls.Adopt(a); ok || c != nil {
		t.Error("a pipe was adopted")
	}
	accepted, _ := connected(t, "tcp")
	accepted.Close()
	if _, ok := ls.Adopt(accepted); ok {
		t.Error("a closed socket was adopted")
	}
}

// A watch of a socket that is closed while it is in the queue ends with the loops at the latest.
func TestCloseOfLoopsEndsWatches(t *testing.T) {
	ls, w := handLoops(t)
	c, other := adopted(t, ls, "tcp")
	bring(t, c, other, "a")
	ended := collect(c, nil)
	w.look()
	if stateOf(&c.in) != gateRunning {
		t.Fatal("not in the queue")
	}
	c.Close()
	ls.Close()
	if err := within(t, "the end", ended.end); err != net.ErrClosed {
		t.Error(err)
	}
	accepted, _ := connected(t, "tcp")
	if _, ok := ls.Adopt(accepted); ok {
		t.Error("adopted by loops that are closed")
	}
}

// A timer that goes off while its deadline is being changed has no effect.
func TestOldDeadline(t *testing.T) {
	c, _ := adopted(t, freeLoops(t, 1), "tcp")
	w := collect(c, nil)
	c.SetReadDeadline(time.Now().Add(time.Hour))
	old := c.in.timer
	c.SetReadDeadline(time.Now().Add(2 * time.Hour))
	if c.expire(&c.in, &old); len(w.end) > 0 || c.in.timer == nil {
		t.Error("the old deadline ended the watch")
	}
	current := c.in.timer
	if c.expire(&c.in, &current); within(t, "the end", w.end) != os.ErrDeadlineExceeded {
		t.Error("the deadline is not told as such")
	}
}
