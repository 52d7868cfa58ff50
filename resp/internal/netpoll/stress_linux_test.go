package netpoll

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patternAt returns byte i of all streams.
func patternAt(i int) byte { return byte(i ^ i>>8 ^ i>>16) }

func pattern(from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = patternAt(from + i)
	}
	return b
}

// wildReader reads a Socket in all ways in turn, and goes on after each interruption.
type wildReader struct {
	c      *Socket
	random *rand.Rand
	buf    Buffer
	read   int
	wrong  error // a byte that is not that of the pattern
}

// check compares the bytes that came. It stops now and then.
func (r *wildReader) check() (stop bool) {
	for _, b := range r.buf.Bytes() {
		if b != patternAt(r.read) && r.wrong == nil {
			r.wrong = fmt.Errorf("wrong byte at %d", r.read)
		}
		r.read++
	}
	r.buf.Skip(len(r.buf.Bytes()))
	return r.random.IntN(4) == 0
}

// once reads in one of the ways.
func (r *wildReader) once() error {
	switch r.random.IntN(6) {
	case 0:
		b := make([]byte, 1+r.random.IntN(5000))
		n, err := r.c.Read(b)
		copy(r.buf.Room(), b[:n])
		r.buf.Grew(n)
		r.check()
		r.buf.Release()
		return err
	case 1:
		return Receive(r.c, &r.buf, r.check)
	case 2:
		_, err := r.c.ReadInto(&r.buf)
		r.check()
		r.buf.Release()
		return err
	}
	end := make(chan error, 2)
	r.c.Watch(&r.buf, r.check, func(err error) { end <- err })
	return <-end
}

// all reads to the end, and returns its error.
func (r *wildReader) all() error {
	for r.wrong == nil {
		err := r.once()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			r.c.SetReadDeadline(time.Time{})
			continue
		}
		if err != nil {
			return err
		}
	}
	return r.wrong
}

// However a socket is interrupted, and others before it that had its descriptor, every byte comes
// in its place, and no reader waits for bytes that have come.
func TestSocketsUnderFire(t *testing.T) {
	for _, workers := range []int{1, 3} {
		ls := freeLoops(t, workers)
		var all sync.WaitGroup
		for worker := range uint64(8) {
			all.Go(func() {
				network, address := "tcp", "127.0.0.1:0"
				if worker%4 == 0 {
					network, address = "unix", fmt.Sprintf("%s/%d", t.TempDir(), worker)
				}
				ln, err := net.Listen(network, address)
				if err != nil {
					t.Error(err)
					return
				}
				defer ln.Close()
				for round := range uint64(20) {
					underFire(t, ls, ln, rand.New(rand.NewPCG(worker, round)))
				}
			})
		}
		stuck := time.AfterFunc(2*time.Minute, func() { panic("a reader waits for ever") }) // shows who
		all.Wait()
		stuck.Stop()
		for fd, c := range ls.conns {
			if c != nil {
				t.Errorf("descriptor %d is left", fd)
			}
		}
	}
}

// dialAdopted returns both sides of a connection over ln, the accepted one watched by ls.
func dialAdopted(ls *Pollers, ln net.Listener) (c *Socket, other net.Conn, err error) {
	other, err = net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	accepted, err := ln.Accept()
	if err != nil {
		return nil, nil, err
	}
	c, ok := ls.Adopt(accepted)
	if !ok {
		return nil, nil, errors.New("not adopted")
	}
	return c, other, nil
}

// underFire sends both ways over one connection and interrupts, closes or resets it meanwhile.
func underFire(t *testing.T, ls *Pollers, ln net.Listener, random *rand.Rand) {
	c, other, err := dialAdopted(ls, ln)
	if err != nil {
		t.Error(err)
		return
	}
	defer other.Close()
	defer c.Close()
	size, end := random.IntN(1<<random.IntN(22)), random.IntN(4)
	seeds := [4]uint64{random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()}
	chance := func(i int) *rand.Rand { return rand.New(rand.NewPCG(seeds[i], 0)) }
	var wg sync.WaitGroup
	reader := &wildReader{c: c, random: chance(0)}
	var readErr error
	wg.Go(func() { readErr = reader.all() })
	wg.Go(func() { // the other side's end is the end of its input, or a reset in the middle
		sendWildly(other.Write, size, chance(1), func(random *rand.Rand) bool {
			if end != 1 || random.IntN(8) != 0 {
				return false
			}
			if tcp, ok := other.(*net.TCPConn); ok {
				tcp.SetLinger(0)
			}
			other.Close()
			return true
		})
		CloseWrite(other)
	})
	wg.Go(func() { // the other direction
		sendWildly(func(b []byte) (int, error) {
			if len(b)%2 == 0 {
				return c.TryWrite(b)
			}
			return c.Write(b)
		}, size, chance(2), func(*rand.Rand) bool { return false })
		c.CloseWrite()
	})
	back, backErr := 0, error(nil)
	wg.Go(func() { back, backErr = readPattern(other) })
	stop := make(chan struct{})
	var fire sync.WaitGroup
	fire.Go(func() { interruptWildly(c, chance(3), end == 2, stop) })
	wg.Wait()
	close(stop)
	fire.Wait()
	switch read := reader.read; {
	case (end == 0 || end == 3) && (readErr != io.EOF || backErr != io.EOF || read != size || back != size):
		t.Errorf("read %d and wrote %d of %d bytes: %v, %v", read, back, size, readErr, backErr)
	case readErr == io.EOF, end == 1 && errors.Is(readErr, syscall.ECONNRESET),
		end == 1 && errors.Is(readErr, syscall.EPIPE):
	case end == 2 && errors.Is(readErr, net.ErrClosed):
	default:
		t.Errorf("end %d: read %d of %d bytes, %v", end, read, size, readErr)
	}
}

// sendWildly writes size bytes of the pattern in pieces, until quit is true after one.
func sendWildly(write func([]byte) (int, error), size int, random *rand.Rand, quit func(*rand.Rand) bool) {
	for sent := 0; sent < size; {
		n, err := write(pattern(sent, min(size-sent, 1+random.IntN(40000))))
		if sent += n; err != nil || quit(random) {
			return
		}
	}
}

// readPattern reads to the end, and returns how many bytes of the pattern came.
func readPattern(c net.Conn) (read int, err error) {
	b := make([]byte, 20000)
	for {
		n, err := c.Read(b)
		for _, at := range b[:n] {
			if at != patternAt(read) {
				return read, fmt.Errorf("wrong byte at %d", read)
			}
			read++
		}
		if err != nil {
			return read, err
		}
	}
}

// interruptWildly sets deadlines, and perhaps closes c, until stop.
func interruptWildly(c *Socket, random *rand.Rand, closes bool, stop chan struct{}) {
	tick := time.NewTicker(50 * time.Microsecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		switch random.IntN(3) {
		case 0:
			c.SetReadDeadline(time.Unix(1, 0))
		case 1:
			c.SetReadDeadline(time.Now().Add(time.Duration(random.IntN(200)) * time.Microsecond))
		case 2:
			c.SetReadDeadline(time.Time{})
		}
		if closes && i == 20 {
			c.Close()
		}
	}
}
