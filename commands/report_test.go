package commands

import "testing"

// TestReportToNobody: where nobody wants events, none is made.
func TestReportToNobody(t *testing.T) {
	s, c := &Service{}, &call{}
	if n := testing.AllocsPerRun(100, func() {
		s.report(c)
		s.reportUndelivered(c)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
