package quorum

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"lockproxy/quorum/internal/dice"
	"lockproxy/quorum/internal/fake"
)

// BenchmarkAcquire is a LOCK and its UNLOCK, one after the other, on real servers of this machine.
// parallel: many callers, each on a key of its own.
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
			key := (*dice.Dice)(nil).Nonce()
			for pb.Next() {
				benchPair(b, q, key)
			}
		})
	})
}

// BenchmarkPair is the same before masters in memory: it measures the quorum's own time and
// allocations.
func BenchmarkPair(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("masters=%d/callers=%d", n, callers), func(b *testing.B) {
				q := dialQuorum(b, make([]string, n), func(o *Options) {
					for i := range o.Masters {
						m := fake.New(fmt.Sprintf("run-%d", i))
						m.Quiet = true
						o.Masters[i].Addr, o.Masters[i].Dial = "memory", m.Dial
					}
				})
				b.ReportAllocs()
				b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))
				b.RunParallel(func(pb *testing.PB) {
					key := (*dice.Dice)(nil).Nonce()
					for pb.Next() {
						benchPair(b, q, key)
					}
				})
			})
		}
	}
}

// benchPair tries again if the machine was too slow for the master timeout.
func benchPair(b *testing.B, q *Quorum, key string) {
	for {
		lease, err := q.Acquire(b.Context(), Request{Key: key, TTL: 20 * time.Second})
		if err == nil {
			_, _ = q.Release(b.Context(), []string{key}, lease.Token, 0)
			return
		}
	}
}
