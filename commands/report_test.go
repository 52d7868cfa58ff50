package commands

import (
	"errors"
	"fmt"
	"testing"

	"lockproxy/stat"
)

// TestReportIsOptional: without Options.Report a report costs no allocation.
func TestReportIsOptional(t *testing.T) {
	s, c := &outcomes{sharedOptions: &sharedOptions{}}, &call{}
	if n := testing.AllocsPerRun(100, func() {
		s.report(c)
		s.reportUndelivered(c)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDenialByType: the outcome depends on the type of the error, never on its text.
func TestDenialByType(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want stat.Outcome
	}{
		{"no login", errNoAuth, stat.OutcomeDenied},
		{"formatted", denialf("NOPERM %s", "no right"), stat.OutcomeDenied},
		{"wrapped", fmt.Errorf("permit: %w", errNoAuth), stat.OutcomeDenied},
		{"only the text of a denial", errors.New("NOPERM no right"), stat.OutcomeInvalid},
		{"wrong arguments", errTwice("FULL"), stat.OutcomeInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := refusedAs(tt.err); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
