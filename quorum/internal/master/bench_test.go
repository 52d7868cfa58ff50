package master

import (
	"net"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/wire"
)

// echo is a PolledConn to a master that answers at once, within the turn that writes.
type echo struct {
	net.Conn
	ops      int // in the packet that is written next
	received func(b []byte) bool
	out      []byte
}

func (*echo) Unread() bool { return false }

func (e *echo) TryWrite(b []byte) (int, error) {
	e.out = append(e.out[:0], "*"+strconv.Itoa(3+e.ops)+"\r\n:1\r\n:1700000000\r\n:0\r\n"...)
	for range e.ops {
		e.out = append(e.out, ":1\r\n"...)
	}
	return len(b), nil
}

func (e *echo) Watch(received func(b []byte) bool, _ func(error)) { e.received = received }

type nobody struct{}

func (nobody) Answered(int, *wire.Op, *Answer) {}

// BenchmarkPair is what one LOCK and one UNLOCK cost on a lane of an event loop, beside system
// calls; ops is how many operations travel together.
func BenchmarkPair(b *testing.B) {
	for _, ops := range []int{1, 16, 64} {
		b.Run("ops="+strconv.Itoa(ops), func(b *testing.B) {
			e := &echo{}
			l := New(LaneConfig{Names: []string{"m"}, Host: &host{}, Log: zap.NewNop(), Start: time.Now(),
				MaxTTL: time.Minute, Unguarded: true,
				Adopt:   func(net.Conn) (PolledConn, bool) { return e, true },
				Encoder: &wire.Encoder{StateKey: "lockproxy:state:lock:", Fencing: true}, Options: &Options{}})
			l.conn = newConn(l, e, 1)
			l.conn.watch()
			l.status.up, l.status.voting, l.packets.loaded = true, true, true
			acquire, release := op(wire.Acquire, tokenAt("job", 1)), unlock(tokenAt("job", 1))
			turn := func(ask func()) {
				for range ops {
					ask()
				}
				e.ops = ops
				l.Flush()
				e.received(e.out)
			}
			b.ReportAllocs()
			for b.Loop() {
				turn(func() { _ = l.Ask(acquire, nobody{}) })
				turn(func() { _ = l.Release(release, time.Minute, true, nobody{}) })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*ops), "ns/pair")
		})
	}
}
