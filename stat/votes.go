package stat

import "fmt"

// Votes counts the masters of a deployment. Page, /readyz, metrics, lockproxy status and the log
// all take their numbers from it.
type Votes struct {
	Masters int
	Voting  int
	Slow    int // masters that vote and are slow
}

// CountVotes counts masters.
func CountVotes(masters []Master) Votes {
	v := Votes{Masters: len(masters)}
	for i := range masters {
		v.count(masters[i].State, masters[i].IsSlow())
	}
	return v
}

// CountReports counts the masters of reports.
func CountReports(masters []MasterReport) Votes {
	v := Votes{Masters: len(masters)}
	for i := range masters {
		v.count(State(masters[i].State), masters[i].IsSlow())
	}
	return v
}

func (v *Votes) count(state State, slow bool) {
	if state == StateVoting {
		v.Voting++
	}
	if slow {
		v.Slow++
	}
}

// Needed returns how many masters make a majority.
func (v Votes) Needed() int { return v.Masters/2 + 1 }

// Majority reports whether a majority can vote.
func (v Votes) Majority() bool { return v.Voting >= v.Needed() }

// Spare returns how many masters may fail before the ones in time are fewer than a majority. It is
// negative if they are fewer already.
func (v Votes) Spare() int { return v.Voting - v.Slow - v.Needed() }

// String returns the votes in words: "3 of 3 vote, 1 slow, 2 needed, none may fail".
func (v Votes) String() string {
	text := fmt.Sprintf("%d of %d vote", v.Voting, v.Masters)
	if v.Slow > 0 {
		text += fmt.Sprintf(", %d slow", v.Slow)
	}
	text += fmt.Sprintf(", %d needed", v.Needed())
	switch {
	case !v.Majority():
		return text
	case v.Spare() > 0:
		return text + fmt.Sprintf(", %d may fail", v.Spare())
	}
	return text + ", none may fail"
}
