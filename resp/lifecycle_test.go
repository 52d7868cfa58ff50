package resp

import (
	"fmt"
	"slices"
	"testing"
)

// TestLifecycleTransitions drives a lifecycle through each state and cause.
func TestLifecycleTransitions(t *testing.T) {
	const open, draining, ending, halfClosed, lingering, closed = stateOpen, stateDraining, stateEnding,
		stateHalfClosed, stateLingering, stateClosed
	for from, want := range map[state][5]state{ // after drain, rest, finish, the upstream's end, cut
		open:       {draining, open, halfClosed, lingering, closed},
		draining:   {draining, ending, halfClosed, lingering, closed},
		ending:     {ending, ending, halfClosed, lingering, closed},
		halfClosed: {halfClosed, halfClosed, halfClosed, lingering, closed},
		lingering:  {lingering, lingering, lingering, lingering, closed},
		closed:     {closed, closed, closed, closed, closed},
	} {
		for e, after := range want {
			t.Run(fmt.Sprintf("state %d, cause %d", from, e), func(t *testing.T) {
				l := lifecycle{left: make(chan struct{})}
				l.current.Store(uint32(from))
				switch cause(e) {
				case causeDrain:
					if got, want := l.drain(), from == open; got != want {
						t.Errorf("drain returned %v, want %v", got, want)
					}
				case causeRest:
					l.beginEnding()
				default:
					l.end(cause(e), EndProxy)
				}
				drains := after == draining || after == ending
				if got := l.now(); got != after || l.draining() != drains {
					t.Errorf("state %d, draining %v; want %d, %v", got, l.draining(), after, drains)
				}
			})
		}
	}
}

// endStep is a call of lifecycle.end.
type endStep struct {
	cause  cause
	reason End
}

// reportedEnds returns a lifecycle after the steps, and the ends that it has reported. late: its
// function is set after them.
func reportedEnds(quit bool, steps []endStep, late bool) (l *lifecycle, got []End) {
	l = &lifecycle{left: make(chan struct{})}
	set := func() { l.setOnEnd(func(how End) { got = append(got, how) }) }
	if !late {
		set()
	}
	l.report(EndReset)
	l.quit.Store(quit)
	for _, s := range steps {
		l.end(s.cause, s.reason)
	}
	if late {
		set()
	}
	return l, got
}

// TestEndIsReportedOnce: the first cause that ends the connection sets the reason. QUIT overrides
// it.
func TestEndIsReportedOnce(t *testing.T) {
	type step = endStep
	for _, tt := range []struct {
		name  string
		quit  bool
		steps []step
		want  End
	}{
		{"the client closes", false, []step{{causeFinish, EndClient}, {causeUpstreamEnd, EndProxy}, {causeCut, EndProxy}},
			EndClient},
		{"the upstream closes", false, []step{{causeUpstreamEnd, EndProxy}, {causeFinish, EndClient}}, EndProxy},
		{"cut", false, []step{{causeCut, EndProxy}, {causeFinish, EndClient}}, EndProxy},
		{"QUIT, then the upstream closes", true, []step{{causeFinish, EndProxy}, {causeUpstreamEnd, EndProxy}}, EndQuit},
	} {
		for _, late := range []bool{false, true} { // the function is set after the end
			t.Run(fmt.Sprintf("%s, late %v", tt.name, late), func(t *testing.T) {
				l, got := reportedEnds(tt.quit, tt.steps, late)
				want := []End{EndReset, tt.want}
				if late {
					want = want[1:]
				}
				if !slices.Equal(got, want) || l.watched() != true {
					t.Errorf("reported %d, want %d", got, want)
				}
				select {
				case <-l.left:
				default:
					t.Error("left is open")
				}
			})
		}
	}
}

// TestLeavingChangesNoState: leaving changes no state, and calls the function whether it is set
// before or after.
func TestLeavingChangesNoState(t *testing.T) {
	calls := 0
	l := lifecycle{left: make(chan struct{}), spawn: func(f func()) { f() }}
	l.setOnLeft(func() { calls++ })
	l.leave()
	l.leave()
	if calls != 1 || l.now() != stateOpen {
		t.Fatalf("%d calls, state %d", calls, l.now())
	}
	l.setOnLeft(func() { calls += 10 })
	if l.end(causeFinish, EndClient); calls != 11 {
		t.Errorf("%d after the function was set late, want 11", calls)
	}
	l.setOnLeft(nil)
}
