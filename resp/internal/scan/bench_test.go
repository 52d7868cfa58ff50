package scan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// benchPiece is how much of a socket is read at a time.
const benchPiece = 64 << 10

// benchRequest is one request as a client library writes it.
func benchRequest(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}

// benchRequests are the requests that the benchmarks of the relay use.
func benchRequests() []struct {
	name string
	one  []byte
} {
	return []struct {
		name string
		one  []byte
	}{
		{"get", benchRequest("GET", "key:000000000001")},
		{"set=64B", benchRequest("SET", "key:000000000001", strings.Repeat("x", 64))},
		{"set=16KB", benchRequest("SET", "key:000000000001", strings.Repeat("x", 16<<10))},
		{"mset=20x64B", benchRequest(append([]string{"MSET"}, slices.Repeat([]string{strings.Repeat("x", 64)}, 40)...)...)},
	}
}

// BenchmarkRequestScanner passes over 100 requests, in the pieces in which a socket is read.
func BenchmarkRequestScanner(b *testing.B) {
	for _, request := range benchRequests() {
		b.Run(request.name, func(b *testing.B) {
			const requests = 100
			all := bytes.Repeat(request.one, requests)
			var q Requests
			b.ReportAllocs()
			b.SetBytes(int64(len(all)))
			for b.Loop() {
				q.Ended = 0
				kept := 0 // bytes before at that were not used yet
				for at := 0; at < len(all); {
					next := min(at+benchPiece, len(all))
					n, ev := q.Scan(all[at-kept : next])
					if ev != More {
						b.Fatalf("Event %d", ev)
					}
					kept, at = next-(at-kept)-n, next
				}
				if q.Ended != requests {
					b.Fatalf("%d requests", q.Ended)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/requests, "ns/request")
		})
	}
}

// TestScannersAllocateNothing: for requests and replies of all sizes.
func TestScannersAllocateNothing(t *testing.T) {
	for _, request := range benchRequests() {
		var q Requests
		if n := testing.AllocsPerRun(100, func() { q.Scan(request.one) }); n != 0 || q.Ended != 101 {
			t.Errorf("request %s: %v allocations, %d requests", request.name, n, q.Ended)
		}
	}
	reply := []byte("*2\r\n$64\r\n" + strings.Repeat("x", 64) + "\r\n%1\r\n+a\r\n:5\r\n")
	var s Replies
	if n := testing.AllocsPerRun(100, func() { s.Next(reply) }); n != 0 || s.Inside() {
		t.Errorf("reply: %v allocations, inside %v", n, s.Inside())
	}
}

// countReplies returns how many replies end in all, given to s in the pieces in which a socket is
// read.
func countReplies(s *Replies, all []byte) (seen int) {
	kept := 0 // bytes before at that were not used yet
	for at := 0; at < len(all); {
		next := min(at+benchPiece, len(all))
		piece := all[at-kept : next]
		for n, ended := 1, false; n > 0 && len(piece) > 0; piece = piece[n:] {
			if n, ended = s.Next(piece); ended {
				seen++
			}
		}
		kept, at = len(piece), next
	}
	return seen
}

// BenchmarkReplyScanner passes over 100 replies, in the pieces in which a socket is read.
func BenchmarkReplyScanner(b *testing.B) {
	for _, reply := range []struct{ name, one string }{
		{"ok", "+OK\r\n"},
		{"integer", ":12345\r\n"},
		{"bulk=64B", "$64\r\n" + strings.Repeat("x", 64) + "\r\n"},
		{"bulk=16KB", "$16384\r\n" + strings.Repeat("x", 16<<10) + "\r\n"},
		{"array=20x64B", "*20\r\n" + strings.Repeat("$64\r\n"+strings.Repeat("x", 64)+"\r\n", 20)},
		{"map=10", "%10\r\n" + strings.Repeat("$5\r\nfield\r\n:5\r\n", 10)},
	} {
		b.Run(reply.name, func(b *testing.B) {
			const replies = 100
			all := []byte(strings.Repeat(reply.one, replies))
			var s Replies
			b.ReportAllocs()
			b.SetBytes(int64(len(all)))
			for b.Loop() {
				if seen := countReplies(&s, all); seen != replies {
					b.Fatalf("%d replies", seen)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/replies, "ns/reply")
		})
	}
}
