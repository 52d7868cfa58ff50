package netpoll

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ring is some sockets that a worker serves which runs when the test says so.
type ring struct {
	ls     *Pollers
	w      *worker
	conns  []*Socket
	others []net.Conn
	ends   []*watching
	used   []int // numbers of the sockets, in the order of use
}

// newRing returns n watched sockets. use gets the number of the one that was read.
func newRing(t *testing.T, n int, network string, use func(i int) (stop bool)) *ring {
	t.Helper()
	r := &ring{}
	r.ls, r.w = handLoops(t)
	for i := range n {
		c, other := adopted(t, r.ls, network)
		r.conns, r.others = append(r.conns, c), append(r.others, other)
		r.ends = append(r.ends, collect(c, func() bool {
			r.used = append(r.used, i)
			return use != nil && use(i)
		}))
	}
	settle(t, r.w, r.conns...)
	return r
}

// bring gives each of the sockets a byte to read, in this order.
func (r *ring) bring(t *testing.T, numbers ...int) {
	t.Helper()
	for _, i := range numbers {
		bring(t, r.conns[i], r.others[i], "x")
	}
}

// batches makes the worker serve batches until n uses are counted.
func (r *ring) batches(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d uses", n), func() bool {
		r.w.serveBatch()
		return len(r.used) >= n
	})
}

// The worker reads all sockets of a batch before it processes one: so the writes that they cause
// leave close together.
func TestAllIsReadBeforeUse(t *testing.T) {
	var r *ring
	whole := 0
	r = newRing(t, 3, "tcp", func(int) bool {
		left := 0
		for _, c := range r.conns {
			left += c.unread(t)
		}
		if left == 0 {
			whole++
		}
		return false
	})
	for range 20 { // on a busy machine a batch may be cut
		whole, r.used = 0, nil
		r.bring(t, 0, 1, 2)
		r.batches(t, 3)
		if whole == 3 {
			return
		}
	}
	t.Error("used while bytes of the same batch are unread")
}

// Sockets are used in the order in which they became ready.
func TestOrderOfReadiness(t *testing.T) {
	r := newRing(t, 6, "tcp", nil)
	for _, order := range [][]int{{0, 1, 2, 3, 4, 5}, {5, 3, 1, 0, 2, 4}, {2, 5, 4, 1, 3, 0}} {
		r.used = nil
		r.bring(t, order...)
		r.batches(t, len(order))
		if !slices.Equal(r.used, order) {
			t.Errorf("used %v, want %v", r.used, order)
		}
	}
}

// writeForEver writes piece again and again, until c is closed.
func writeForEver(c net.Conn, piece []byte) {
	for err := error(nil); err == nil; {
		_, err = c.Write(piece)
	}
}

// distinct reports whether no number is there twice.
func distinct(numbers []int) bool {
	sorted := slices.Sorted(slices.Values(numbers))
	return len(slices.Compact(sorted)) == len(numbers)
}

// flooded waits until both transfers have bytes to read.
func (r *ring) flooded(t *testing.T) {
	t.Helper()
	for i := range 2 {
		eventually(t, "a transfer goes on", func() bool { return r.conns[i].unread(t) > 0 })
	}
}

// ping brings a byte to the third socket, and serves batches until that is read: before it, each
// other socket at most once.
func (r *ring) ping(t *testing.T) {
	t.Helper()
	r.flooded(t)
	r.bring(t, 2)
	since := len(r.used)
	for range 2000 {
		r.w.serveBatch()
		if at := slices.Index(r.used[since:], 2); at >= 0 {
			if before := r.used[since : since+at]; !distinct(before) {
				t.Fatalf("served after %v", before)
			}
			return
		}
		r.flooded(t)
	}
	t.Fatal("a ping was not served")
}

// A transfer keeps its place in the line: a socket that becomes ready is served after one piece of
// each other.
func TestTransfersDoNotKeepOthersWaiting(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			r := newRing(t, 3, network, nil)
			piece := make([]byte, 1<<20)
			for i := range 2 {
				go writeForEver(r.others[i], piece)
			}
			r.flooded(t)
			r.batches(t, 4)
			const pings = 50
			for range pings {
				r.ping(t)
			}
			for _, c := range r.conns {
				c.Close()
			}
			if len(r.used) < 3*pings {
				t.Errorf("%d uses: the transfers do not go on", len(r.used))
			}
		})
	}
}

// A socket is read once in a batch, one piece at most.
func TestOnePieceABatch(t *testing.T) {
	r := newRing(t, 1, "unix", nil)
	bring(t, r.conns[0], r.others[0], strings.Repeat("x", ChunkSize+10))
	r.w.serveBatch()
	if n := len(r.ends[0].text()); n == 0 || n > ChunkSize || len(r.used) != 1 {
		t.Errorf("%d bytes in %d pieces", n, len(r.used))
	}
	eventually(t, "the rest", func() bool {
		r.w.serveBatch()
		return len(r.ends[0].text()) == ChunkSize+10
	})
}

// A worker serves one batch at a time. A socket that becomes ready later is served after all
// others.
func TestBatchIsBounded(t *testing.T) {
	const n = 2*batchSize + 3
	r := newRing(t, n, "tcp", nil)
	var order []int
	for i := range n {
		r.bring(t, i)
		order = append(order, i)
	}
	for len(r.used) < n {
		before := len(r.used)
		if r.w.serveBatch(); len(r.used) == before || len(r.used) > before+batchSize {
			t.Fatalf("used %d in one turn", len(r.used)-before)
		}
		if before == 0 { // ready later, so after all others, though the first of them
			r.bring(t, 0)
			order = append(order, 0)
		}
	}
	r.batches(t, n+1)
	if !slices.Equal(r.used, order) {
		t.Errorf("used %v, want %v", r.used, order)
	}
}

// Sockets that are closed while they wait in the queue end as such, once.
func TestUnservedMayBeClosed(t *testing.T) {
	const n = batchSize + 4
	r := newRing(t, n, "tcp", nil)
	for i := range n {
		r.bring(t, i)
	}
	if r.w.serveBatch(); len(r.used) != batchSize || len(r.ls.ready) != n-batchSize {
		t.Fatalf("used %d, %d are in the queue", len(r.used), len(r.ls.ready))
	}
	for _, c := range r.conns {
		c.Close()
	}
	for range 4 {
		r.w.serveBatch()
	}
	for i, e := range r.ends {
		if err := within(t, "the end", e.end); err != net.ErrClosed || len(e.end) > 0 {
			t.Errorf("number %d: %v", i, err)
		}
	}
	if len(r.ls.ready) != 0 || len(r.used) != batchSize {
		t.Errorf("%d are in the queue, %d were used", len(r.ls.ready), len(r.used))
	}
}

// expectEnd fails unless the watch of socket i ended with want, or goes on if want is errNone.
func (r *ring) expectEnd(t *testing.T, i int, want error) {
	t.Helper()
	end := r.ends[i].end
	if want == errNone {
		if s := stateOf(&r.conns[i].in); s != gateWatched || len(end) > 0 {
			t.Errorf("number %d is in state %d, want it to be watched", i+1, s)
		}
		r.conns[i].Close()
		want = net.ErrClosed
	}
	err := within(t, "the end of watching", end)
	if failed, ok := err.(*PanicError); ok {
		err = failed.Value.(error)
	}
	if err != want || len(end) > 0 {
		t.Errorf("number %d ended with %v, want %v", i+1, err, want)
	}
}

// Bytes that were read and not yet processed belong to their socket, even if another socket of the
// same batch closes or interrupts it: they are processed once, and then ended gets the cause.
func TestOneOfABatchMeddlesWithAnother(t *testing.T) {
	for _, c := range []struct {
		name          string
		meddle        func(c, another *Socket) (stop bool)
		first, second error // errNone: it is still watched
	}{
		{"closes it", func(_, another *Socket) bool { another.Close(); return false }, errNone, net.ErrClosed},
		{"closes both", func(c, another *Socket) bool { another.Close(); c.Close(); return false }, net.ErrClosed,
			net.ErrClosed},
		{"closes itself and stops", func(c, _ *Socket) bool { c.Close(); return true }, nil, errNone},
		{"interrupts it", func(_, another *Socket) bool { another.SetReadDeadline(time.Unix(1, 0)); return false }, errNone,
			os.ErrDeadlineExceeded},
		{"interrupts it in vain", func(_, another *Socket) bool {
			another.SetReadDeadline(time.Unix(1, 0))
			another.SetReadDeadline(time.Time{})
			return false
		}, errNone, errNone},
		{"panics", func(_, _ *Socket) bool { panic(errPanic) }, errPanic, errNone},
		{"stops", func(_, _ *Socket) bool { return true }, nil, errNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r *ring
			r = newRing(t, 2, "tcp", func(i int) bool {
				return len(r.used) == 1 && c.meddle(r.conns[i], r.conns[1-i])
			})
			r.bring(t, 0, 1)
			r.batches(t, 2)
			r.w.serveBatch()
			if !slices.Equal(r.used, []int{0, 1}) {
				t.Fatalf("used %v, want each once", r.used)
			}
			r.expectEnd(t, 0, c.first)
			r.expectEnd(t, 1, c.second)
		})
	}
}

var (
	errNone  = errors.New("none")
	errPanic = errors.New("as told")
)

// A descriptor that is free again within a batch may be that of another socket before the batch
// ends. Bytes that were read before are not mixed with those of the new socket.
func TestDescriptorIsReusedWithinABatch(t *testing.T) {
	accepted, other := connected(t, "tcp")
	if _, err := other.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	var newcomer *Socket
	var old int
	var r *ring
	r = newRing(t, 2, "tcp", func(i int) bool {
		if len(r.used) > 1 {
			return false
		}
		another := r.conns[1-i]
		old = another.fd
		for fd := 0; fd < old; { // a new descriptor is the lowest that is free
			var err error
			if fd, err = unix.Dup(2); err != nil {
				t.Error(err)
				return false
			}
			t.Cleanup(func() { unix.Close(fd) })
		}
		another.Close()
		newcomer, _ = r.ls.Adopt(accepted)
		return false
	})
	r.bring(t, 0, 1)
	r.batches(t, 2)
	defer newcomer.Close()
	if newcomer.fd != old {
		t.Errorf("the newcomer has the descriptor %d, want %d", newcomer.fd, old)
	}
	if n := newcomer.unread(t); n != 3 || r.ends[0].text()+r.ends[1].text() != "xx" {
		t.Errorf("%d bytes of the newcomer are unread, want 3", n)
	}
	w := collect(newcomer, nil)
	eventually(t, "the newcomer's bytes", func() bool {
		r.w.serveBatch()
		return w.text() == "new"
	})
}

// closeAll closes the sockets.
func (r *ring) closeAll() {
	for _, c := range r.conns {
		c.Close()
	}
}

// watchAgain watches socket i again if that has ended; then each piece ends the watch, and brings
// the next.
func (r *ring) watchAgain(t *testing.T, i int) {
	if len(r.ends[i].end) > 0 {
		r.ends[i] = collect(r.conns[i], func() bool {
			r.used = append(r.used, i)
			bring(t, r.conns[i], r.others[i], "x")
			return true
		})
	}
}

// A worker that always finds more goes on, though not for ever, and gives way at once if a
// goroutine that it woke waits.
func TestWorkerGivesWay(t *testing.T) {
	for _, c := range []struct {
		name         string
		wakes        bool
		stops        bool
		fewest, most int // uses in a row
	}{
		{"alone", false, false, 4, servedInRow + 1},
		{"having woken a goroutine", true, false, 2, 2},
		{"having ended a watch", false, true, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r *ring
			r = newRing(t, 2, "tcp", func(i int) bool {
				if len(r.used) < 1000 {
					bring(t, r.conns[i], r.others[i], "x") // there is always more
				}
				if c.wakes {
					r.ls.Yield()
				}
				return c.stops && i == 1
			})
			defer r.closeAll()
			most := 0
			r.bring(t, 0, 1)
			for try := 0; try < 100 && most < c.fewest; try++ { // on a busy machine a batch may be cut
				r.used = nil
				r.w.work()
				most = max(most, len(r.used))
				r.watchAgain(t, 1)
			}
			if most < c.fewest || most > c.most {
				t.Errorf("used %d, want %d to %d", most, c.fewest, c.most)
			}
		})
	}
}

// If no more bytes come, the worker parks after one more look.
func TestWorkerParks(t *testing.T) {
	r := newRing(t, 1, "tcp", nil)
	r.bring(t, 0)
	r.w.batches = 0
	if r.w.work(); len(r.used) != 1 || r.w.batches != 2 {
		t.Errorf("used %d in %d batches, want 1 and 2", len(r.used), r.w.batches)
	}
	if r.w.batches = 0; r.w.work() || r.w.batches != 1 {
		t.Errorf("%d batches for nothing, want 1", r.w.batches)
	}
}

// A goroutine that waits to write does not have to wait for the loop either.
func TestWorkerGivesWayToWriter(t *testing.T) {
	ls, w := handLoops(t)
	c, other := adopted(t, ls, "tcp")
	w.serveBatch() // notes that it can be written to
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, 16<<20))
		c.CloseWrite()
		written <- err
	}()
	waitState(t, &c.out)
	go io.Copy(io.Discard, other)
	gaveWay := false
	eventually(t, "all is written", func() bool {
		woken := ls.woken.Load()
		waits := stateOf(&c.out) == gateWaiting
		w.serveBatch()
		woke := ls.woken.Load() != woken
		if waits && !c.wants.Load() && !woke { // a writer that waits again already proves no fault
			t.Error("a writer was woken and the loop does not know")
		}
		gaveWay = gaveWay || woke
		return len(written) > 0
	})
	if err := <-written; err != nil || !gaveWay {
		t.Errorf("the loop gave way: %v, %v", gaveWay, err)
	}
}
