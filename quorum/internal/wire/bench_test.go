package wire

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkRedis tells the processor time that Redis takes for one acquire and one release, by the
// number of operations in a packet.
func BenchmarkRedis(b *testing.B) {
	const record = "A 0123456789abcdef0123456789abcdef01234567 0123456789abcdef 12-0-0123456789abcdef"
	for _, n := range []int{1, 16, MaxOps} {
		b.Run(fmt.Sprint("ops=", n), func(b *testing.B) {
			s := startRedis(b)
			s.must("SCRIPT", "LOAD", Packet.Body)
			s.must("HSET", testState, "record", record)
			for i := range Slots {
				s.must("HSET", testState, i, 3671294823219200)
			}
			var acquires, releases []*Op
			for i := range n {
				key := fmt.Sprint("lock:job-", i)
				at := TokenAt{key, mine}
				acquires = append(acquires, &Op{Kind: Acquire, TokenAt: at, Slot: Slot(key), TTL: 20 * time.Second})
				releases = append(releases, &Op{Kind: Release, TokenAt: at, Publish: true})
			}
			var packet []byte
			var r Reply
			before := s.processorTime()
			for b.Loop() {
				for _, ops := range [][]*Op{acquires, releases} {
					packet = fenced.AppendPacket(packet[:0], ops, record, false)
					s.send(packet)
					s.receive(&r)
					if p, ok := ParsePacket(&r, n); !ok || p.Results[n-1].Int < 1 {
						b.Fatal(text(&r))
					}
				}
			}
			used := s.processorTime() - before
			b.ReportMetric(float64(used.Microseconds())/float64(b.N*n), "redis-us/pair")
		})
	}
}

// processorTime is what the server has used, in user mode and in the kernel.
func (s *server) processorTime() (sum time.Duration) {
	s.t.Helper()
	for line := range strings.Lines(s.must("INFO", "cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}
