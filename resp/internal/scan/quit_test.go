package scan

import (
	"strconv"
	"testing"
)

func TestQuitFinder(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want bool
	}{
		{"QUIT\r\n", true}, {"PING\r\n*1\r\n$4\r\nquit\r\n", true}, {"LOCK a 1\r\n*1\r\n$4\r\nLOCK\r\nQUIT\r\n", true},
		{"*2\r\n$4\r\nQUIT\r\n$1\r\nx\r\n", true},
		{" \t\r\n \nQUIT\r\n", true}, {"PING\r\n \r\n", false}, {"PING\r\n", false}, {"ECHO QUIT\r\n", false},
		{"*2\r\n$4\r\nECHO\r\n$8\r\n\r\nQUIT\r\n\r\n", false}, {"QUI", false}, {"*1x\r\nQUIT\r\n", false}, {"", false},
	} {
		t.Run(strconv.Quote(tt.in), func(t *testing.T) {
			var whole, bytes QuitFinder
			got := false
			for i := range len(tt.in) {
				got = bytes.Feed([]byte{tt.in[i]}) || got
			}
			if w := whole.Feed([]byte(tt.in)); w != tt.want || got != tt.want {
				t.Errorf("found %v whole and %v bytewise, want %v", w, got, tt.want)
			}
		})
	}
}
