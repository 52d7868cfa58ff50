package netpoll

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// manySockets returns loops that give way after each batch, and more sockets than one look finds,
// each with a byte to read.
func manySockets(t *testing.T, use func(other net.Conn)) (*Pollers, *worker, []net.Conn) {
	t.Helper()
	ls, w := handLoops(t)
	var conns []*Socket
	var others []net.Conn
	for range 4 * eventsAtOnce {
		c, other := adopted(t, ls, "tcp")
		conns, others = append(conns, c), append(others, other)
		collect(c, func() bool {
			ls.Yield()
			use(other)
			return false
		})
	}
	settle(t, w, conns...)
	for i, c := range conns {
		bring(t, c, others[i], "x")
	}
	return ls, w, others
}

// A worker that gives way while more sockets are ready than it has found, or while some are in the
// queue, does not forget those. Nor do two.
func TestWorkerComesBack(t *testing.T) {
	for _, workers := range []int{1, 2} {
		var used atomic.Int64
		ls, _, others := manySockets(t, func(net.Conn) { used.Add(1) })
		run(ls, workers)
		eventually(t, "all sockets are used", func() bool { return int(used.Load()) == len(others) })
		for range 20 {
			used.Store(0)
			for _, other := range others {
				other.Write([]byte("x"))
			}
			eventually(t, "all sockets are used again", func() bool { return int(used.Load()) == len(others) })
		}
	}
}

// Other goroutines run even if every look finds as many sockets as it can.
func TestWorkerGivesWayBesideMany(t *testing.T) {
	var done atomic.Bool
	_, w, _ := manySockets(t, func(other net.Conn) {
		if !done.Load() { // there is always more
			other.Write([]byte("x"))
		}
	})
	gaveWay := make(chan bool)
	go func() { gaveWay <- w.work() }()
	defer done.Store(true)
	within(t, "pause of the worker", gaveWay)
}

// Bytes that come while a worker ends its work are read like all others, however many there are at
// a time, and however many workers.
func TestNoWakeUpIsLost(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		ls := freeLoops(t, workers)
		echo := func() net.Conn {
			c, other := adopted(t, ls, "tcp")
			var buf Buffer
			c.Watch(&buf, func() bool {
				c.TryWrite(buf.Bytes())
				buf.Skip(len(buf.Bytes()))
				return false
			}, func(error) {})
			other.SetDeadline(time.Now().Add(patience))
			return other
		}
		var callers sync.WaitGroup
		ask := func(conns []net.Conn, rounds int) {
			callers.Go(func() { roundTrips(t, conns, rounds) })
		}
		for range 4 {
			ask([]net.Conn{echo()}, 1000)
		}
		var many []net.Conn
		for range 2*eventsAtOnce + 10 {
			many = append(many, echo())
		}
		ask(many, 10)
		callers.Wait()
	}
}

// roundTrips sends a byte over all and waits for all, again and again.
func roundTrips(t *testing.T, conns []net.Conn, rounds int) {
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
}
