package respio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var limits = Limits{Line: 64, Text: 1 << 20, Elems: 1000, Depth: 4, Reply: 2 << 20, RESP3: true}

// show writes a reply in one line.
func show(r *Reply) string {
	switch {
	case r.Null:
		return "null"
	case r.Kind == ':':
		return fmt.Sprint(":", r.Int)
	case strings.IndexByte("*~>%", r.Kind) < 0:
		return string(r.Kind) + r.Text
	}
	var list []string
	for i := range r.Elems {
		list = append(list, show(&r.Elems[i]))
	}
	return string(r.Kind) + "(" + strings.Join(list, " ") + ")"
}

var replies = []struct{ name, bytes, want string }{
	{"status", "+OK\r\n", "+OK"},
	{"error", "-ERR x y\r\n", "-ERR x y"},
	{"error of a script", "-@user_script: 86: -OOM command not allowed.  \r\n", "-OOM command not allowed."},
	{"integer", ":-42\r\n", ":-42"},
	{"text", "$5\r\na\r\nbc\r\n", "$a\r\nbc"},
	{"empty text", "$0\r\n\r\n", "$"},
	{"null text", "$-1\r\n", "null"},
	{"null array", "*-1\r\n", "null"},
	{"array", "*2\r\n:1\r\n*1\r\n$1\r\na\r\n", "*(:1 *($a))"},
	{"empty array", "*0\r\n", "*()"},
	{"null", "_\r\n", "null"},
	{"double", ",1.5\r\n", ",1.5"},
	{"boolean", "#t\r\n", "#t"},
	{"big number", "(123\r\n", "(123"},
	{"verbatim", "=6\r\ntxt:ab\r\n", "=txt:ab"},
	{"bulk error", "!5\r\nERR x\r\n", "-ERR x"},
	{"map", "%1\r\n+a\r\n~2\r\n:1\r\n:2\r\n", "%(+a ~(:1 :2))"},
	{"push", ">2\r\n+lock\r\n+lost\r\n", ">(+lock +lost)"},
	{"attribute", "|1\r\n+ttl\r\n:1\r\n*1\r\n|1\r\n+k\r\n+v\r\n:7\r\n", "*(:7)"},
	{"deepest", "*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "*(*(*(*(:1))))"},
}

func TestRepliesAreParsedWhole(t *testing.T) {
	for _, c := range replies {
		t.Run(c.name, func(t *testing.T) {
			var r Reply
			if n, err := limits.Parse([]byte(c.bytes+"+next\r\n"), &r); n != len(c.bytes) || err != nil || show(&r) != c.want {
				t.Errorf("parsed %d bytes, %v: %q, want %q", n, err, show(&r), c.want)
			}
			for end := range len(c.bytes) {
				if n, err := limits.Parse([]byte(c.bytes[:end]), &r); n != 0 || err != nil {
					t.Errorf("of %q: %d, %v, want more", c.bytes[:end], n, err)
				}
			}
		})
	}
}

// TestReaderReadsNoByteMore: the bytes after a reply stay in the stream, however they arrive.
func TestReaderReadsNoByteMore(t *testing.T) {
	for _, c := range replies {
		for name, stream := range map[string]func(*strings.Reader) io.Reader{
			"bytes":    func(s *strings.Reader) io.Reader { return s },
			"buffered": func(s *strings.Reader) io.Reader { return bufio.NewReader(s) },
			"pieces":   func(s *strings.Reader) io.Reader { return iotest.OneByteReader(s) },
			"stream":   func(s *strings.Reader) io.Reader { return io.MultiReader(s) },
		} {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				in := stream(strings.NewReader(c.bytes + c.bytes + "rest"))
				reader, reply := NewReader(in, limits), Reply{Elems: make([]Reply, 3)}
				if err := reader.Read(&reply); err != nil || show(&reply) != c.want {
					t.Errorf("read %q, %v, want %q", show(&reply), err, c.want)
				}
				if frame, err := reader.AppendFrame([]byte("x")); err != nil || string(frame) != "x"+c.bytes {
					t.Errorf("frame %q, %v", frame, err)
				}
				if rest, _ := io.ReadAll(in); string(rest) != "rest" {
					t.Errorf("left in the stream: %q", rest)
				}
			})
		}
	}
}

func TestMalformedRepliesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		bytes string
		want  error
	}{
		"other protocol":         {"HTTP/1.1 400\r\n", ErrMalformed},
		"empty line":             {"\r\n", ErrMalformed},
		"no carriage return":     {"+OK\n", ErrMalformed},
		"no number":              {"$x\r\n", ErrMalformed},
		"no length":              {"*\r\n", ErrMalformed},
		"signed length":          {"$+1\r\na\r\n", ErrMalformed},
		"negative length":        {"$-2\r\n", ErrMalformed},
		"null map":               {"%-1\r\n", ErrMalformed},
		"text without end":       {"$2\r\nabcd\r\n", ErrMalformed},
		"no integer":             {":1x\r\n", ErrMalformed},
		"long line":              {"+" + strings.Repeat("x", 62) + "\r\n", ErrTooLarge},
		"endless line":           {strings.Repeat("x", 100), ErrTooLarge},
		"long text":              {"$1048577\r\n", ErrTooLarge},
		"too many elements":      {"*1001\r\n", ErrTooLarge},
		"too many entries":       {"%501\r\n", ErrTooLarge},
		"too many for an int":    {"%9223372036854775807\r\n", ErrTooLarge},
		"deep":                   {strings.Repeat("*1\r\n", 5), ErrTooLarge},
		"attributes without end": {strings.Repeat("|0\r\n", 20), ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var r Reply
			if n, err := limits.Parse([]byte(c.bytes), &r); n != 0 || !errors.Is(err, c.want) {
				t.Errorf("parsed %d, %v, want %v", n, err, c.want)
			}
			if err := NewReader(strings.NewReader(c.bytes), limits).Read(&r); !errors.Is(err, c.want) {
				t.Errorf("read: %v, want %v", err, c.want)
			}
		})
	}
}

// TestOnlyRESP2: a client that has not asked for RESP3 gets none.
func TestOnlyRESP2(t *testing.T) {
	old := limits
	old.RESP3 = false
	for _, c := range replies {
		t.Run(c.name, func(t *testing.T) {
			var r Reply
			_, err := old.Parse([]byte(c.bytes), &r)
			err2 := NewReader(strings.NewReader(c.bytes), old).Read(&r)
			if want := strings.IndexByte("+-:$*", c.bytes[0]) >= 0; (err == nil) != want || (err2 == nil) != want {
				t.Errorf("parsed %v, read %v", err, err2)
			}
		})
	}
}

func TestReaderCutOff(t *testing.T) {
	var r Reply
	if err := NewReader(strings.NewReader(""), limits).Read(&r); err != io.EOF {
		t.Errorf("an empty stream: %v", err)
	}
	for _, c := range replies {
		t.Run(c.name, func(t *testing.T) {
			for end := 1; end < len(c.bytes); end++ {
				reader := NewReader(strings.NewReader(c.bytes[:end]), limits)
				if frame, err := reader.AppendFrame(nil); err != io.ErrUnexpectedEOF || string(frame) != c.bytes[:end] {
					t.Errorf("%q: %q, %v", c.bytes[:end], frame, err)
				}
			}
		})
	}
}

// TestReplyIsBounded: a reply of many parts, each within its limit, is not.
func TestReplyIsBounded(t *testing.T) {
	one := fmt.Sprintf("$%d\r\n%s\r\n", 1<<20, strings.Repeat("x", 1<<20))
	for name, all := range map[string]string{
		"texts": "*3\r\n" + strings.Repeat(one, 3),
		"lines": "*1000\r\n" + strings.Repeat("*1000\r\n"+strings.Repeat(":1\r\n", 1000), 1000),
	} {
		t.Run(name, func(t *testing.T) {
			var r Reply
			if n, err := limits.Parse([]byte(all), &r); n != 0 || err != ErrTooLarge {
				t.Errorf("parsed %d, %v", n, err)
			}
			if n, err := limits.Parse([]byte(all)[:limits.Reply], &r); n != 0 || err != nil {
				t.Errorf("of the largest reply but the end: %d, %v", n, err)
			}
			frame, err := NewReader(strings.NewReader(all), limits).AppendFrame(nil)
			if !errors.Is(err, ErrTooLarge) || len(frame) > limits.Reply {
				t.Errorf("read %d bytes, %v", len(frame), err)
			}
		})
	}
}

// TestAnnouncedLengthTakesNoMemory: a text takes memory as it arrives.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	frame, err := NewReader(strings.NewReader("$1048576\r\nabc"), limits).AppendFrame(nil)
	if err != io.ErrUnexpectedEOF || string(frame) != "$1048576\r\nabc" || cap(frame) > 2*maxSpare {
		t.Errorf("%.20q, %v, memory of %d bytes", frame, err, cap(frame))
	}
}

func TestFields(t *testing.T) {
	for _, in := range []string{"*4\r\n+a\r\n:1\r\n$1\r\nb\r\n$-1\r\n", "%2\r\n+a\r\n+1\r\n+b\r\n*0\r\n",
		"*5\r\n+a\r\n:1\r\n+b\r\n_\r\n+c\r\n"} {
		var r Reply
		if _, err := limits.Parse([]byte(in), &r); err != nil {
			t.Fatal(err)
		}
		if m := r.Fields(); len(m) != 2 || m["a"] != "1" || m["b"] != "" {
			t.Errorf("%q: %v", in, m)
		}
	}
}

func TestAppendCommand(t *testing.T) {
	long := strings.Repeat("x", 100)
	got := AppendCommand([]byte("a"), "SET", "k\r\n", "", strings.Repeat("y", 10), long)
	want := "a*5\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n$10\r\nyyyyyyyyyy\r\n$100\r\n" + long + "\r\n"
	if string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got = AppendDigits(nil, 1<<64-1); string(got) != "$20\r\n18446744073709551615\r\n" {
		t.Errorf("%q", got)
	}
}

// FuzzReader: reading from a stream and from memory find the same reply, and the same end of it.
func FuzzReader(f *testing.F) {
	for _, c := range replies {
		f.Add([]byte(c.bytes))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var parsed, read Reply
		n, err := limits.Parse(in, &parsed)
		stream := bytes.NewReader(in)
		err2 := NewReader(stream, limits).Read(&read)
		switch {
		case n > 0 && (err2 != nil || show(&read) != show(&parsed) || stream.Len() != len(in)-n):
			t.Errorf("%q: parsed %q, read %q, %v", in, show(&parsed), show(&read), err2)
		case n == 0 && err2 == nil:
			t.Errorf("%q: read %q, parsed %v", in, show(&read), err)
		case n == 0 && err == nil && !errors.Is(err2, io.EOF) && !errors.Is(err2, io.ErrUnexpectedEOF) &&
			!errors.Is(err2, ErrTooLarge):
			t.Errorf("%q: parsed a part, read %v", in, err2)
		}
	})
}
