package quorum

import (
	"fmt"
	"testing"
)

func TestMajority(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		t.Run(fmt.Sprint("of ", n), func(t *testing.T) {
			if got := majority(n); got != want {
				t.Errorf("%d, want %d", got, want)
			}
		})
	}
}

func TestDecideAcquire(t *testing.T) {
	for _, c := range []struct {
		name string
		t    tally
		now  verdict
		end  verdict // at the deadline
	}{
		{"nothing yet", tally{pending: 5}, open, noQuorum},
		{"three of five", tally{yes: 3, pending: 2}, won, won},
		{"two of three", tally{yes: 2, pending: 1}, won, won},
		{"two of four is no majority", tally{yes: 2, no: 2}, split, split},
		{"three of four", tally{yes: 3, no: 1}, won, won},
		{"can still win", tally{yes: 1, no: 2, pending: 2}, open, split},
		{"a majority refused", tally{no: 3, pending: 2}, held, held},
		{"a majority refused, one granted", tally{yes: 1, no: 3, pending: 1}, held, held},
		{"split with one down", tally{yes: 2, no: 2, none: 1}, split, split},
		{"one of three each, one silent", tally{yes: 1, no: 1, pending: 1}, open, split},
		{"two down, one refused, two pending", tally{no: 1, none: 2, pending: 2}, open, noQuorum},
		{"a majority down, the rest pending", tally{none: 3, pending: 2}, open, noQuorum},
		{"a majority down, the rest granted", tally{none: 3, yes: 2}, noQuorum, noQuorum},
		{"a majority down, the rest refused", tally{none: 3, no: 2}, noQuorum, noQuorum},
		{"script lost", tally{none: 2, askAgain: 2, pending: 1}, again, again},
		{"script lost, can still win", tally{none: 1, askAgain: 1, yes: 1, pending: 1}, open, again},
		{"script lost, won all the same", tally{none: 1, askAgain: 1, yes: 2}, won, won},
		{"script lost, a majority refused", tally{none: 1, askAgain: 1, no: 2}, held, held},
		{"one master", tally{yes: 1}, won, won},
	} {
		t.Run(c.name, func(t *testing.T) { decides(t, decideAcquire, c.t, c.now, c.end) })
	}
}

func TestDecideRaise(t *testing.T) {
	for _, c := range []struct {
		name     string
		t        tally
		now, end verdict
	}{
		{"a majority confirmed", tally{yes: 3, no: 2}, won, won},
		{"the last may confirm", tally{yes: 2, pending: 1, none: 2}, open, lost},
		{"a majority is silent", tally{yes: 2, none: 3}, lost, lost},
		{"the last makes no difference", tally{yes: 1, pending: 1, no: 3}, lost, lost},
		{"the last of three may confirm", tally{yes: 1, pending: 1, none: 1}, open, lost},
		{"two of four are no majority", tally{yes: 2, no: 2}, lost, lost},
	} {
		t.Run(c.name, func(t *testing.T) { decides(t, decideRaise, c.t, c.now, c.end) })
	}
}

func TestDecideHeld(t *testing.T) {
	for _, c := range []struct {
		name     string
		t        tally
		now, end verdict
	}{
		{"no answers yet", tally{pending: 3}, open, noQuorum},
		{"a majority holds it", tally{yes: 2, pending: 1}, won, won},
		{"a majority lacks it", tally{no: 2, pending: 1}, lost, lost},
		{"the last decides", tally{yes: 1, no: 1, pending: 1}, open, noQuorum},
		{"silence is no loss", tally{yes: 1, none: 1, no: 1}, noQuorum, noQuorum},
		{"silence of one of five is no loss", tally{yes: 2, none: 1, no: 2}, noQuorum, noQuorum},
		{"three of five lack it", tally{yes: 2, no: 3}, lost, lost},
		{"half lack it", tally{yes: 2, no: 2}, lost, lost},
	} {
		t.Run(c.name, func(t *testing.T) { decides(t, decideHeld, c.t, c.now, c.end) })
	}
}

func TestDecideRelease(t *testing.T) {
	for _, c := range []struct {
		name     string
		t        tally
		now, end verdict
	}{
		{"no answers yet", tally{pending: 3}, open, noQuorum},
		{"a majority deleted it", tally{yes: 2, pending: 1}, won, won},
		{"a majority lacked it", tally{no: 2, pending: 1}, lost, lost},
		{"deleted and unknown make a majority at the deadline", tally{yes: 1, no: 1, pending: 1}, open, won},
		{"deleted and unknown make a majority", tally{yes: 1, no: 1, none: 1}, won, won},
		{"two of three lacked it", tally{yes: 1, no: 2}, lost, lost},
		{"a majority is silent, one deleted it", tally{yes: 1, none: 2}, noQuorum, noQuorum},
		{"a majority is silent, one lacked it", tally{no: 1, none: 2}, noQuorum, noQuorum},
		{"three of five lacked it", tally{no: 3, pending: 2}, lost, lost},
		{"two of five lacked it", tally{yes: 1, no: 2, none: 1, pending: 1}, open, won},
	} {
		t.Run(c.name, func(t *testing.T) { decides(t, decideRelease, c.t, c.now, c.end) })
	}
}

// decides checks a verdict, and that at the deadline.
func decides(t *testing.T, rule func(tally) verdict, votes tally, now, end verdict) {
	t.Helper()
	if got := rule(votes); got != now {
		t.Errorf("%d, want %d", got, now)
	}
	if got := rule(votes.without(votes.pending)); got != end {
		t.Errorf("at the deadline: %d, want %d", got, end)
	}
}
