package scan

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
)

func TestSplitInline(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
		bad  bool
	}{
		{in: ""}, {in: " \t "}, {in: "PING", want: []string{"PING"}}, {in: "\tSET a  b ", want: []string{"SET", "a", "b"}},
		{in: `"\x41"`, want: []string{"A"}}, {in: `"\xzz"`, want: []string{"xzz"}}, {in: `'a\'b'`, want: []string{"a'b"}},
		{in: `'a\nb'`, want: []string{`a\nb`}},
		{in: `"\n\r\t\b\a\q\""`, want: []string{"\n\r\t\b\aq\""}}, {in: `""`, want: []string{""}},
		{in: `a"b c"`, want: []string{"ab c"}},
		{in: "a\vb", want: []string{"a\vb"}}, {in: "\va", want: []string{"a"}},
		{in: `"a"b`, bad: true}, {in: `"a`, bad: true}, {in: `'a`, bad: true}, {in: `'a'b`, bad: true},
		{in: `"a\`, bad: true},
		{in: `"a" b`, want: []string{"a", "b"}}, {in: "'a'\v'b'", want: []string{"a", "b"}},
	} {
		t.Run(strconv.Quote(tt.in), func(t *testing.T) {
			args, err := splitInline([]byte(tt.in))
			var got []string
			for _, a := range args {
				got = append(got, string(a))
			}
			if (err != nil) != tt.bad || !slices.Equal(got, tt.want) {
				t.Errorf("splitInline(%q) = %q, %v; want %q, bad %v", tt.in, got, err, tt.want, tt.bad)
			}
		})
	}
}

// TestBlankLine: the upstream gets a line of blanks without the blanks.
func TestBlankLine(t *testing.T) {
	for _, blank := range []string{" ", "\t", "\r", "\v\f "} {
		for _, end := range []string{"\r\n", "\n"} {
			if blank == "\r" && end == "\n" {
				continue // that is an empty line
			}
			t.Run(fmt.Sprintf("%q", blank+end), func(t *testing.T) {
				var q Requests
				if n, ev := q.Scan([]byte(blank + end)); n != 0 || ev != Drop || q.Dropped != len(blank) {
					t.Errorf("%d bytes, event %d, %d dropped; want the blanks dropped", n, ev, q.Dropped)
				}
				if n, ev := q.Scan([]byte(end)); n != len(end) || ev != More || q.Ended != 0 {
					t.Errorf("after it %d bytes, event %d, %d requests", n, ev, q.Ended)
				}
			})
		}
	}
}

func TestEmptyLine(t *testing.T) {
	for _, empty := range []string{"\r\n", "\n"} {
		t.Run(fmt.Sprintf("%q", empty), func(t *testing.T) {
			var q Requests
			if n, ev := q.Scan([]byte(empty)); n != len(empty) || ev != More || q.Ended != 0 {
				t.Errorf("%d bytes, event %d, %d requests", n, ev, q.Ended)
			}
		})
	}
}
