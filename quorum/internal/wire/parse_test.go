package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// shape is everything about a reply, for comparing.
func shape(r *Reply) string {
	var s strings.Builder
	s.WriteString(fmt.Sprintf("%c null=%v int=%d %q", r.Kind, r.Null, r.Int, r.Text))
	for i := range r.Elems {
		s.WriteString(" [" + shape(&r.Elems[i]) + "]")
	}
	return s.String()
}

func TestParse(t *testing.T) {
	long := strings.Repeat("x", maxBulk)
	for _, c := range []struct{ in, want string }{
		{"+OK\r\n", "OK"},
		{"+\r\n", ""},
		{"-ERR no\r\n", "!ERR no"},
		{"-@user_script: 86: -OOM command not allowed.  \r\n", "!OOM command not allowed."},
		{"-@user_script: 86: Unknown Redis command\r\n", "!ERR Unknown Redis command"},
		{"-@user_script: \r\n", "!ERR "},
		{":42\r\n", "42"},
		{":-2\r\n", "-2"},
		{":-0\r\n", "0"},
		{":007\r\n", "7"},
		{":9223372036854775807\r\n", "9223372036854775807"},
		{":-9223372036854775808\r\n", "-9223372036854775808"},
		{":9223372036854775808\r\n", "bad"},
		{"$5\r\na\r\nbc\r\n", "a\r\nbc"},
		{"$0\r\n\r\n", ""},
		{"$-1\r\n", "nil"},
		{fmt.Sprintf("$%d\r\n%s\r\n", maxBulk, long), long},
		{fmt.Sprintf("$%d\r\n", maxBulk+1), "bad"},
		{"*0\r\n", "[]"},
		{"*-1\r\n", "nil"},
		{"*3\r\n:1\r\n$1\r\nx\r\n-ERR no\r\n", "[1 x !ERR no]"},
		{"*2\r\n$-1\r\n*2\r\n:1\r\n*-1\r\n", "bad"}, // three deep
		{"*2\r\n$-1\r\n*2\r\n:1\r\n+x\r\n", "[nil [1 x]]"},
		{fmt.Sprintf("*%d\r\n%s", maxElems, strings.Repeat(":1\r\n", maxElems)),
			"[" + strings.Repeat("1 ", maxElems-1) + "1]"},
		{fmt.Sprintf("*%d\r\n", maxElems+1), "bad"},
		{"+" + strings.Repeat("x", maxLine-3) + "\r\n", strings.Repeat("x", maxLine-3)},
		{"+" + strings.Repeat("x", maxLine-2) + "\r\n", "bad"},
		{strings.Repeat("x", maxLine), "bad"},
		{"", "more"}, {"+", "more"}, {"+OK", "more"}, {"+OK\r", "more"}, {"$3\r\nab", "more"}, {"$3\r\nabc\r", "more"},
		{"*2\r\n:1\r\n", "more"}, {"*2\r\n:1\r\n:", "more"}, {"*1\r\n$3\r\nab", "more"},
		{"hello\r\n", "bad"}, {"\r\n", "bad"}, {"\n", "bad"}, {"+OK\n", "bad"}, {"%1\r\n", "bad"}, {"_\r\n", "bad"},
		{":\r\n", "bad"}, {":-\r\n", "bad"}, {":+1\r\n", "bad"}, {":x\r\n", "bad"}, {":1 \r\n", "bad"},
		{":123456789012345678x\r\n", "bad"}, {":+123456789012345678\r\n", "bad"},
		{"$3\r\nabcd\r\n", "bad"}, {"$3\r\nabc\n\r", "bad"}, {"$-2\r\n", "bad"}, {"$x\r\n", "bad"},
		{"$99999999999999999999\r\n", "bad"},
		{"*-2\r\n", "bad"}, {"*x\r\n", "bad"}, {"*1\r\n:x\r\n", "bad"}, {"*1\r\nx\r\n", "bad"},
	} {
		t.Run(fmt.Sprintf("%.40q", c.in), func(t *testing.T) {
			var r Reply
			n, err := Parse([]byte(c.in+":77\r\n"), &r) // a second reply follows
			got := text(&r)
			switch {
			case err != nil:
				got = "bad"
				if !errors.Is(err, ErrUnparsable) || n != 0 {
					t.Errorf("%d, %v", n, err)
				}
			case n != len(c.in):
				got = fmt.Sprint(n, " bytes of ", got)
			}
			if c.want == "more" {
				if n, err = Parse([]byte(c.in), &r); n != 0 || err != nil {
					t.Errorf("%d, %v, want more", n, err)
				}
			} else if got != c.want {
				t.Errorf("%.60q, want %.60q", got, c.want)
			}
		})
	}
}

// A reader of a reply that never ends needs a bound.
func TestParseBound(t *testing.T) {
	one := fmt.Sprintf("$%d\r\n%s\r\n", maxBulk, strings.Repeat("x", maxBulk))
	all := []byte("*8\r\n" + strings.Repeat(one, 8))
	var r Reply
	for _, size := range []int{maxReply, maxReply + 1, len(all)} {
		n, err := Parse(all[:size], &r)
		if n != 0 || (err != nil) != (size > maxReply) {
			t.Errorf("%d bytes: %d, %v", size, n, err)
		}
	}
}

// A Reply is good for one reply after the other, and then takes no memory.
func TestParseAgain(t *testing.T) {
	var used Reply
	replies := []string{"*3\r\n$1\r\nx\r\n*1\r\n-ERR no\r\n:7\r\n", ":1\r\n",
		"*4\r\n$-1\r\n*2\r\n:1\r\n:2\r\n:0\r\n+x\r\n",
		"$-1\r\n", "*1\r\n*0\r\n", "*-1\r\n", "-ERR\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n"}
	for _, in := range replies {
		var fresh Reply
		_, _ = Parse([]byte(in), &fresh)
		_, _ = Parse([]byte(in), &used)
		if shape(&used) != shape(&fresh) {
			t.Errorf("%q: %s, and into a fresh one %s", in, shape(&used), shape(&fresh))
		}
	}
	packet := []byte("*67\r\n:1\r\n:1700000000\r\n:123456\r\n" + strings.Repeat(":3671294823219200\r\n", 64))
	if n := testing.AllocsPerRun(100, func() { _, _ = Parse(packet, &used) }); n != 0 {
		t.Errorf("%.0f allocations for a packet's reply", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, in := range []string{"+OK\r\n:1\r\n", "*2\r\n:1\r\n$1\r\n5\r\n", "$3\r\nabc\r\n", "-ERR\r\n", "*-1\r\n",
		"$-1\r\n",
		"*3\r\n*2\r\n:1\r\n$-1\r\n+x\r\n-y\r\n", ":-9223372036854775808\r\n", "*2\r\n*1\r\n*0\r\n:1\r\n", "$2\r\nabc\r\n",
		"*1\r\n\n"} {
		f.Add([]byte(in), 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		var r Reply
		n, err := Parse(in, &r)
		if n < 0 || n > len(in) || n > 0 && err != nil || err != nil && !errors.Is(err, ErrUnparsable) {
			t.Fatalf("%q: %d, %v", in, n, err)
		}
		if at = min(max(at, 0), len(in)); n > 0 {
			at = min(at, n-1)
		}
		// Some of it first: either it is wrong already, or the rest is waited for.
		again := Reply{Elems: []Reply{{Kind: '$', Null: true, Int: 5, Text: "x", Elems: make([]Reply, 3)}}}
		n2, err2 := Parse(in[:at], &again)
		if n2 != 0 || err2 != nil && err == nil {
			t.Fatalf("%q: %d, %v, but its first %d bytes: %d, %v", in, n, err, at, n2, err2)
		}
		if n == 0 {
			return
		}
		// Exactly the reply, into another that was used.
		if n2, err2 = Parse(in[:n], &again); n2 != n || err2 != nil || shape(&again) != shape(&r) {
			t.Fatalf("%q: %s, then %d, %v, %s", in[:n], shape(&r), n2, err2, shape(&again))
		}
	})
}
