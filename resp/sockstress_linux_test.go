package resp

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

// patternAt is what stands at place i of all streams.
func patternAt(i int) byte { return byte(i ^ i>>8 ^ i>>16) }

func pattern(from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = patternAt(from + i)
	}
	return b
}

// readWildly reads k to its end in all ways in turn, whatever wakes it, and returns how many bytes of the pattern came.
func readWildly(k *sock, random *rand.Rand) (read int, err error) {
	var x inbox
	var wrong error
	use := func(mayBlock bool) (stop bool) {
		for _, c := range x.bytes() {
			if c != patternAt(read) && wrong == nil {
				wrong = fmt.Errorf("wrong byte at %d", read)
			}
			read++
		}
		x.skip(len(x.bytes()))
		return random.IntN(4) == 0
	}
	for wrong == nil {
		switch random.IntN(4) {
		case 0:
			b := make([]byte, 1+random.IntN(5000))
			var n int
			n, err = k.Read(b)
			copy(x.room(), b[:n])
			x.w += n
			use(true)
		case 1:
			err = k.receive(&x, use, false)
		default:
			err = k.receive(&x, use, true)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			k.SetReadDeadline(time.Time{})
		case err != nil:
			return read, err
		}
	}
	return read, wrong
}

// TestSocksUnderFire: whatever happens to a socket, and to others before it that had its descriptor, every byte comes in its place, and
// nobody waits for what has come.
func TestSocksUnderFire(t *testing.T) {
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var loop sync.WaitGroup
	loop.Go(l.run)
	defer loop.Wait()
	defer l.set.Close()
	const workers, rounds = 8, 30
	var all sync.WaitGroup
	for worker := range uint64(workers) {
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
			for round := range uint64(rounds) {
				underFire(t, l, ln, rand.New(rand.NewPCG(worker, round)))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		panic("somebody waits for ever") // shows who
	}
	if len(l.socks) > 0 {
		t.Errorf("%d sockets are left", len(l.socks))
	}
}

// underFire sends both ways over one connection and wakes, closes or resets it meanwhile.
func underFire(t *testing.T, l *loop, ln net.Listener, random *rand.Rand) {
	other, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		t.Error(err)
		return
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	k := l.adopt(accepted).(*sock)
	size, end := random.IntN(1<<random.IntN(22)), random.IntN(4)
	seeds := [4]uint64{random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()}
	chance := func(i int) *rand.Rand { return rand.New(rand.NewPCG(seeds[i], 0)) }
	var wg sync.WaitGroup
	var read int
	var readErr error
	wg.Go(func() { read, readErr = readWildly(k, chance(0)) })
	wg.Go(func() { // the other side's end is the end of its input, or a reset in the middle
		random := chance(1)
		for sent := 0; sent < size; {
			n, err := other.Write(pattern(sent, min(size-sent, 1+random.IntN(40000))))
			if sent += n; err != nil {
				return
			}
			if end == 1 && random.IntN(8) == 0 {
				if tcp, ok := other.(*net.TCPConn); ok {
					tcp.SetLinger(0)
				}
				other.Close()
				return
			}
		}
		closeWrite(other)
	})
	wg.Go(func() { // the other direction
		random := chance(2)
		for sent := 0; sent < size; {
			b := pattern(sent, min(size-sent, 1+random.IntN(40000)))
			n, err := 0, error(nil)
			if random.IntN(2) == 0 {
				n, err = k.tryWrite(b)
			} else {
				n, err = k.Write(b)
			}
			if sent += n; err != nil {
				return
			}
		}
		k.CloseWrite()
	})
	back, backErr := 0, error(nil)
	wg.Go(func() {
		b := make([]byte, 20000)
		for backErr == nil {
			var n int
			n, backErr = other.Read(b)
			for _, c := range b[:n] {
				if c != patternAt(back) {
					t.Errorf("wrong byte at %d of what was written", back)
				}
				back++
			}
		}
	})
	stop := make(chan struct{})
	var fire sync.WaitGroup
	fire.Go(func() {
		random := chance(3)
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
				k.SetReadDeadline(time.Unix(1, 0))
			case 1:
				k.SetReadDeadline(time.Now().Add(time.Duration(random.IntN(200)) * time.Microsecond))
			case 2:
				k.SetReadDeadline(time.Time{})
			}
			if end == 2 && i == 20 {
				k.Close()
			}
		}
	})
	wg.Wait()
	close(stop)
	fire.Wait()
	k.Close()
	other.Close()
	switch {
	case (end == 0 || end == 3) && (readErr != io.EOF || backErr != io.EOF || read != size || back != size):
		t.Errorf("read %d and wrote %d of %d bytes", read, back, size)
	case readErr == io.EOF, end == 1 && errors.Is(readErr, syscall.ECONNRESET), end == 1 && errors.Is(readErr, syscall.EPIPE):
	case end == 2 && errors.Is(readErr, net.ErrClosed):
	default:
		t.Errorf("end %d: read %d of %d bytes, %v", end, read, size, readErr)
	}
}
