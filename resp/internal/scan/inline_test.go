package scan

import (
	"slices"
	"testing"
)

func TestSplitInline(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
		bad  bool
	}{
		{in: ""}, {in: " \t "}, {in: "PING", want: []string{"PING"}}, {in: "\tSET a  b ", want: []string{"SET", "a", "b"}},
		{in: `"\x41"`, want: []string{"A"}}, {in: `"\xzz"`, want: []string{"xzz"}}, {in: `'a\'b'`, want: []string{"a'b"}}, {in: `'a\nb'`, want: []string{`a\nb`}},
		{in: `"\n\r\t\b\a\q\""`, want: []string{"\n\r\t\b\aq\""}}, {in: `""`, want: []string{""}}, {in: `a"b c"`, want: []string{"ab c"}},
		{in: "a\vb", want: []string{"a\vb"}}, {in: "\va", want: []string{"a"}},
		{in: `"a"b`, bad: true}, {in: `"a`, bad: true}, {in: `'a`, bad: true}, {in: `'a'b`, bad: true}, {in: `"a\`, bad: true},
		{in: `"a" b`, want: []string{"a", "b"}}, {in: "'a'\v'b'", want: []string{"a", "b"}},
	} {
		args, err := splitInline([]byte(tt.in))
		var got []string
		for _, a := range args {
			got = append(got, string(a))
		}
		if (err != nil) != tt.bad || !slices.Equal(got, tt.want) {
			t.Errorf("splitInline(%q) = %q, %v; want %q, bad %v", tt.in, got, err, tt.want, tt.bad)
		}
	}
}

// TestBlankLine: of a line that has blanks only the upstream gets the end, as of an empty one. An
// upstream that gets only what was made anew does not see either.
func TestBlankLine(t *testing.T) {
	for _, blank := range []string{" ", "\t", "\r", "\v\f "} {
		for _, end := range []string{"\r\n", "\n"} {
			for _, strict := range []bool{false, true} {
				if blank == "\r" && end == "\n" {
					continue // that is an empty line
				}
				q := Requests{Strict: strict}
				if n, ev := q.Scan([]byte(blank + end)); n != 0 || ev != Drop || q.Dropped != len(blank) {
					t.Errorf("%q, strict %v: %d bytes, event %d, %d dropped; want the blanks dropped", blank+end, strict, n, ev, q.Dropped)
				}
				want := More
				if strict {
					want = Drop
				}
				if _, ev := q.Scan([]byte(end)); ev != want || q.Ended != 0 {
					t.Errorf("behind %q, strict %v: event %d, %d requests", blank, strict, ev, q.Ended)
				}
			}
		}
	}
	for _, empty := range []string{"\r\n", "\n"} {
		q := Requests{}
		if n, ev := q.Scan([]byte(empty)); n != len(empty) || ev != More || q.Ended != 0 {
			t.Errorf("%q: %d bytes, event %d, %d requests", empty, n, ev, q.Ended)
		}
	}
}
