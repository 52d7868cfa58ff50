package resp

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// manySocks returns a loop that is always asked to give way, and more sockets than one look tells of, which it carries to use.
func manySocks(t *testing.T, use func(other net.Conn)) (l *loop, others []net.Conn) {
	t.Helper()
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	l.busy = func() bool { return true }
	var all sync.WaitGroup
	t.Cleanup(func() {
		all.Wait()
		l.close()
	})
	socks := make([]*sock, 4*eventsAtOnce)
	for i := range socks {
		k, other := sockOn(t, l, "tcp")
		socks[i], others = k, append(others, other)
		all.Go(func() {
			var x inbox
			k.receive(&x, func(bool) bool {
				x.skip(len(x.bytes()))
				use(other)
				return false
			}, true)
		})
	}
	for turn := 0; slices.ContainsFunc(socks, func(k *sock) bool { return k.waits() != gateWatched }); turn++ {
		if turn == 10000 {
			t.Fatal("the loop was not asked to carry")
		}
		l.turn()
		time.Sleep(time.Millisecond)
	}
	for _, other := range others {
		if _, err := other.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	return l, others
}

// A loop that gives way while more sockets are ready than it was told of does not forget those.
func TestLoopComesBack(t *testing.T) {
	var carried atomic.Int64
	l, others := manySocks(t, func(net.Conn) { carried.Add(1) })
	var loop sync.WaitGroup
	loop.Go(l.run)
	defer loop.Wait()
	defer l.set.Close()
	for deadline := time.Now().Add(10 * time.Second); int(carried.Load()) < len(others); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("carried %d of %d sockets", carried.Load(), len(others))
		}
	}
}

// Others have their turn also where every look tells of as many sockets as it can.
func TestLoopGivesWayBesideMany(t *testing.T) {
	var done atomic.Bool
	l, _ := manySocks(t, func(other net.Conn) {
		if !done.Load() { // there is always more
			other.Write([]byte("x"))
		}
	})
	gaveWay := make(chan struct{})
	go func() {
		defer close(gaveWay)
		l.work()
	}()
	defer func() { <-gaveWay }()
	defer done.Store(true)
	within(t, "pause of the loop", gaveWay)
}
