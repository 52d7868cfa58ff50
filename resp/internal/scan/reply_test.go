package scan

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// frames cuts in into top-level frames, given to the scanner in pieces of the given size.
func frames(in string, size int) (got []string, first []byte, broken bool) {
	var s Replies
	var buf []byte
	frame := ""
	for len(in) > 0 {
		n := min(size, len(in))
		buf = append(buf, in[:n]...)
		in = in[n:]
		for len(buf) > 0 {
			n, ended := s.Next(buf)
			frame += string(buf[:n])
			buf = buf[n:]
			if ended {
				got, first, frame = append(got, frame), append(first, s.First), ""
			} else if n == 0 {
				break
			}
		}
	}
	return got, first, s.Broken()
}

func TestReplyScanner(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frames []string
		first  string
	}{
		{"simple", []string{"+OK\r\n", "-ERR x\r\n", ":5\r\n", ":-5\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", ",inf\r\n",
			"(123456789012345678901234567890\r\n"}, "+-::_#,,("},
		{"blobs", []string{"$0\r\n\r\n", "$-1\r\n", "$5\r\na\r\nbc\r\n", "=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n"}, "$$$=!"},
		{"arrays", []string{"*0\r\n", "*-1\r\n", "*2\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n", "~2\r\n+a\r\n_\r\n",
			"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "%0\r\n"}, "***~%%"},
		{"pushes", []string{">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n", "+OK\r\n"}, ">+"},
		{"attributes", []string{"|1\r\n+ttl\r\n:3600\r\n$1\r\na\r\n", "*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:2\r\n:3\r\n",
			"|0\r\n:1\r\n", "|1\r\n+a\r\n+b\r\n|1\r\n+c\r\n+d\r\n*1\r\n:1\r\n"}, "$*:*"},
		{"unknown type is a line", []string{"@foo\r\n", "+OK\r\n"}, "@+"},
		{"deep", []string{strings.Repeat("*1\r\n", maxDepth) + ":1\r\n", "+OK\r\n"}, "*+"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, 1 << 20} {
				got, first, broken := frames(strings.Join(tt.frames, ""), size)
				if !slices.Equal(got, tt.frames) || string(first) != tt.first || broken {
					t.Errorf("in pieces of %d: got %q of types %q, broken %v; want %q of types %q", size, got, first,
						broken, tt.frames, tt.first)
				}
			}
		})
	}
	for _, in := range []string{"$x\r\n", "*99999999999999999999\r\n", strings.Repeat("*1\r\n", maxDepth+2), "$-2\r\n",
		"$?\r\n",
		"%4611686018427387904\r\n", "|4611686018427387904\r\n", "*1\r\n%4611686018427387904\r\n"} {
		if _, _, broken := frames(in+"\r\n-ERR 123\r\n", 1); !broken {
			t.Errorf("%.40q: not taken for broken", in)
		}
	}
}

func TestPassScalars(t *testing.T) {
	for in, want := range map[string]int{
		"+OK\r\n:12\r\n$3\r\nabc\r\n$0\r\n\r\n$-1\r\n": 5, "$3\r\nabc\r\n-ERR\r\n:1\r\n": 1, "*0\r\n:1\r\n": 0,
		">1\r\n:1\r\n":      0,
		":1\r\n$3\r\nabc\r": 1, ":1\r\n+OK\r": 1, "$-2\r\n": 0, "$12345678\r\n": 0, "_\r\n": 0, ":0\r0\n+OK\r\n": 2,
		":1\n": 1,
	} {
		t.Run(strconv.Quote(in), func(t *testing.T) {
			if _, got := new(Replies).PassScalars([]byte(in)); got != want {
				t.Errorf("passed over %d replies, want %d", got, want)
			}
		})
	}
}

func FuzzReplyScanner(f *testing.F) {
	for _, in := range []string{"*2\r\n:1\r\n$3\r\nabc\r\n", "|1\r\n+a\r\n+b\r\n%1\r\n+k\r\n_\r\n", ">1\r\n+x\r\n",
		"$-1\r\n*-1\r\n-ERR x\r\n", ":0\r0\n"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		whole, _, b1 := frames(in, len(in)+1)
		bytes, _, b2 := frames(in, 1)
		if b1 != b2 || !slices.Equal(whole, bytes) {
			t.Errorf("%q: in one piece %q (broken %v), byte by byte %q (broken %v)", in, whole, b1, bytes, b2)
		}
		n, replies := new(Replies).PassScalars([]byte(in))
		if replies > len(whole) || strings.Join(whole[:replies], "") != in[:n] {
			t.Errorf("%q: passed over %d replies, %d bytes; want the first of %q", in, replies, n, whole)
		}
	})
}
