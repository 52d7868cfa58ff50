package quorum

import (
	"errors"
	"strings"
	"testing"

	"lockproxy/plain"
	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/master"
)

// No text of a master or an operator breaks the line of an error reply.
func TestTextIsOneLine(t *testing.T) {
	e := &NoQuorumError{Answered: 1, N: 3, Needed: 2, Masters: []MasterError{
		{Index: 1, Name: "a\r\nb", Err: &master.AnswerError{Text: plain.Short("ERR x\r\n-ERR y\x00" +
			strings.Repeat("z", 500))}},
		{Index: 2, Name: "c", Err: admission.Naming([]string{"", "a\r\nb"},
			func(name func(int) string) string { return "is " + name(1) })},
	}}
	for name, show := range map[string]bool{"with names": true, "without names": false} {
		t.Run(name, func(t *testing.T) {
			if text := e.Text(show); strings.ContainsAny(text, "\r\n\x00") || len(text) > 500 {
				t.Errorf("text %q", text)
			}
		})
	}
	if !errors.Is(e, ErrNoQuorum) {
		t.Error("is not ErrNoQuorum")
	}
}

// longReason is a reason in our own words. It ends with the remedy.
type longReason struct{ master int }

func (e longReason) Error() string { return e.Text(nil) + ", or LOCKPROXY ADMIT" }

func (e longReason) Text(name func(master int) string) string {
	if name == nil {
		name = func(int) string { return "10.0.0.1:6379" }
	}
	return strings.Repeat("x", 300) + "\r\n: start " + name(e.master)
}

// What an operator should do is not cut.
func TestTextNamesRemedy(t *testing.T) {
	e := &NoQuorumError{N: 3, Needed: 2, Masters: []MasterError{{Index: 2, Name: "a", Err: longReason{2}}}}
	for _, c := range []struct {
		name string
		show bool
		want string
	}{
		{"with names", true, "  : start 10.0.0.1:6379"},
		{"without names", false, "  : start master 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if text := e.Text(c.show); !strings.HasSuffix(text, c.want) {
				t.Errorf("text %q, want it to end with %q", text, c.want)
			}
		})
	}
}
