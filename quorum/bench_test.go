package quorum

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// BenchmarkAcquire is a LOCK and its UNLOCK, one after the other, on real servers of this machine. parallel: many callers,
// each on a key of its own.
func BenchmarkAcquire(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		b.Run(fmt.Sprintf("masters=%d", n), func(b *testing.B) {
			_, addrs := startMasters(b, n)
			q := dialQuorum(b, addrs)
			b.ReportAllocs()
			for b.Loop() {
				benchPair(b, q, "job")
			}
		})
	}
	b.Run("masters=5/parallel", func(b *testing.B) {
		_, addrs := startMasters(b, 5)
		q := dialQuorum(b, addrs)
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			key := (*dice)(nil).newSecret()
			for pb.Next() {
				benchPair(b, q, key)
			}
		})
	})
}

// BenchmarkPair is the same before masters that cost next to nothing and allocate nothing: what is left is the quorum's own time, and its
// allocations for a LOCK and its UNLOCK.
func BenchmarkPair(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		for _, fencing := range []bool{true, false} {
			b.Run(fmt.Sprintf("masters=%d/fencing=%v", n, fencing), func(b *testing.B) {
				q := dialQuorum(b, startBenchMasters(b, n), func(o *Options) { o.Fencing = fencing })
				b.ReportAllocs()
				for b.Loop() {
					benchPair(b, q, "job")
				}
			})
		}
	}
	for _, callers := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("masters=5/callers=%d", callers), func(b *testing.B) {
			q := dialQuorum(b, startBenchMasters(b, 5))
			b.ReportAllocs()
			b.SetParallelism(callers / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				key := (*dice)(nil).newSecret()
				for pb.Next() {
					benchPair(b, q, key)
				}
			})
		})
	}
}

// benchPair tries again where the machine was too slow for the master timeout.
func benchPair(b *testing.B, q *Quorum, key string) {
	for {
		lease, err := q.Acquire(b.Context(), Request{Key: key, TTL: 20 * time.Second})
		if err == nil {
			_, _ = q.Release(b.Context(), key, lease.Token)
			return
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	e := encoder{stateKey: testState, fencing: true}
	c := command{op: opAcquire, key: "lock:some-job", secret: mine, ttl: 10 * time.Second}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = e.append(out[:0], &c, false, "")
	}
}

func BenchmarkSlot(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		slot("lock:some-job-of-usual-length")
	}
}
