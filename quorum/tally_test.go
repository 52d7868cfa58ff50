package quorum

import "testing"

func TestMajority(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		if got := majority(n); got != want {
			t.Errorf("majority(%d) = %d, want %d", n, got, want)
		}
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
		if got := decideAcquire(c.t); got != c.now {
			t.Errorf("%s: %d, want %d", c.name, got, c.now)
		}
		if got := decideAcquire(c.t.without(c.t.pending)); got != c.end {
			t.Errorf("%s, at the deadline: %d, want %d", c.name, got, c.end)
		}
	}
}

func TestDecideRaise(t *testing.T) {
	for _, c := range []struct {
		t    tally
		want verdict
	}{
		{tally{yes: 3, no: 2}, won}, {tally{yes: 2, pending: 1, none: 2}, open}, {tally{yes: 2, none: 3}, lost},
		{tally{yes: 1, pending: 1, no: 3}, lost}, {tally{yes: 1, pending: 1, none: 1}, open}, {tally{yes: 2, no: 2}, lost},
	} {
		if got := decideRaise(c.t); got != c.want {
			t.Errorf("%+v: %d, want %d", c.t, got, c.want)
		}
	}
}

func TestDecideHeld(t *testing.T) {
	for _, c := range []struct {
		t        tally
		now, end verdict
	}{
		{tally{pending: 3}, open, noQuorum},
		{tally{yes: 2, pending: 1}, won, won},
		{tally{no: 2, pending: 1}, lost, lost},
		{tally{yes: 1, no: 1, pending: 1}, open, noQuorum},
		{tally{yes: 1, none: 1, no: 1}, noQuorum, noQuorum}, // silence is no loss
		{tally{yes: 2, none: 1, no: 2}, noQuorum, noQuorum},
		{tally{yes: 2, no: 3}, lost, lost},
		{tally{yes: 2, no: 2}, lost, lost},
	} {
		if got := decideHeld(c.t); got != c.now {
			t.Errorf("%+v: %d, want %d", c.t, got, c.now)
		}
		if got := decideHeld(c.t.without(c.t.pending)); got != c.end {
			t.Errorf("%+v, at the deadline: %d, want %d", c.t, got, c.end)
		}
	}
}

func TestDecideRelease(t *testing.T) {
	for _, c := range []struct {
		t        tally
		now, end verdict
	}{
		{tally{pending: 3}, open, noQuorum},
		{tally{yes: 2, pending: 1}, won, won},
		{tally{no: 2, pending: 1}, lost, lost},
		{tally{yes: 1, no: 1, pending: 1}, open, won}, // D+E is a majority: it may have been held
		{tally{yes: 1, no: 1, none: 1}, won, won},
		{tally{yes: 1, no: 2}, lost, lost},
		{tally{yes: 1, none: 2}, noQuorum, noQuorum},
		{tally{no: 1, none: 2}, noQuorum, noQuorum},
		{tally{no: 3, pending: 2}, lost, lost},
		{tally{yes: 1, no: 2, none: 1, pending: 1}, open, won},
	} {
		if got := decideRelease(c.t); got != c.now {
			t.Errorf("%+v: %d, want %d", c.t, got, c.now)
		}
		if got := decideRelease(c.t.without(c.t.pending)); got != c.end {
			t.Errorf("%+v, at the deadline: %d, want %d", c.t, got, c.end)
		}
	}
}
