package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkRedis measures the processor time that Redis takes for one acquire and one release, by
// the kind of lock and the number of operations in a packet.
func BenchmarkRedis(b *testing.B) {
	for kind, terms := range map[string]Terms{
		"exclusive": {},
		"shared":    {Mode: Shared},
		"limit":     {Mode: Limited, Limit: 10, Try: [2]int{3, 7}},
		"keys":      {},
	} {
		for _, n := range []int{1, 16, MaxOps} {
			b.Run(fmt.Sprint(kind, "/ops=", n), func(b *testing.B) { benchmarkPairs(b, kind, &terms, n) })
		}
	}
}

func benchmarkPairs(b *testing.B, kind string, terms *Terms, n int) {
	const record = "A 0123456789abcdef0123456789abcdef01234567 0123456789abcdef 12-0-0123456789abcdef"
	s := startRedis(b)
	s.must("SCRIPT", "LOAD", Packet.Body)
	s.must("HSET", testState, "record", record)
	for i := range Counters {
		s.must("HSET", testState, i, 3671294823219200)
	}
	var acquires, releases []*Op
	for i := range n {
		key := fmt.Sprint("lock:job-", i)
		at, terms := TokenAt{key, mine}, *terms
		if kind == "keys" {
			for _, more := range []string{"a", "b", "c"} {
				terms.More = append(terms.More, key+more)
				terms.Counters = append(terms.Counters, CounterOf(key+more))
				releases = append(releases, &Op{Kind: Release, TokenAt: TokenAt{key + more, mine}, Publish: true})
			}
		}
		acquires = append(acquires, &Op{Kind: Acquire, TokenAt: at, Counter: CounterOf(key), TTL: 20 * time.Second,
			Owner: "127.0.0.1:54321", Terms: &terms})
		releases = append(releases, &Op{Kind: Release, TokenAt: at, Publish: true, Terms: &terms})
	}
	packets := append([][]*Op{acquires}, slices.Collect(slices.Chunk(releases, MaxOps))...)
	var packet []byte
	var r Reply
	before := s.processorTime()
	for b.Loop() {
		for _, ops := range packets {
			packet = fenced.AppendPacket(packet[:0], batch(b, ops...), record, false)
			s.send(packet)
			s.receive(&r)
			p, ok := ParsePacket(&r, len(ops))
			if !ok || p.Results[len(ops)-1].Kind == ':' && p.Results[len(ops)-1].Int < 1 {
				b.Fatal(text(&r))
			}
		}
	}
	used := s.processorTime() - before
	b.ReportMetric(float64(used.Nanoseconds())/1000/float64(b.N*n), "redis-us/pair")
}

// processorTime returns the processor time of the server, in user mode and in the kernel.
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
