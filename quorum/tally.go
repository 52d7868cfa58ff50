package quorum

// majority is the smallest number of masters that two groups cannot have without sharing one:
// n/2+1, also for even n.
func majority(n int) int { return n/2 + 1 }

// verdict is the result of a round, once it is certain.
type verdict uint8

const (
	open     verdict = iota // not certain yet
	won                     // a majority said yes
	held                    // of an acquire: a majority refused
	split                   // of an acquire: several clients asked at once, and none won
	lost                    // of a token: provably no majority holds it
	noQuorum                // too few gave an answer that counts
	again                   // of an acquire: another try may do better at once
)

// tally counts the answers of one round. All masters are in it; none includes masters that could
// not be asked.
type tally struct {
	yes      int // granted, confirmed, deleted, or holds our token
	other    int // as yes, but with another slot
	no       int // refused, or does not hold our token
	none     int // no answer that counts
	askAgain int // of none: another try may do better at once
	pending  int // no answer yet
}

func (t tally) n() int        { return t.yes + t.other + t.no + t.none + t.pending }
func (t tally) answered() int { return t.yes + t.other + t.no }

// without counts n of the pending masters as silent.
func (t tally) without(n int) tally {
	t.none, t.pending = t.none+n, t.pending-n
	return t
}

// decideAcquire is step 3, decided as early as possible. It may be certain that too few can grant
// before the verdict is: held, split, or noQuorum if less than a majority answers. Then it waits
// for a majority of answers, or until no master is pending.
func decideAcquire(t tally) verdict {
	maj := majority(t.n())
	switch {
	case t.yes >= maj:
		return won
	case t.yes+t.pending >= maj:
		return open
	case t.no >= maj:
		return held
	case t.askAgain > 0:
		return again
	case t.answered() >= maj:
		return split
	case t.pending == 0:
		return noQuorum
	}
	return open
}

// decideRaise decides the second fencing round. A yes says that the master carries the fence
// while it holds our value. It takes a majority of all masters: two majorities of the masters
// that granted need not share a master.
func decideRaise(t tally) verdict {
	maj := majority(t.n())
	switch {
	case t.yes >= maj:
		return won
	case t.yes+t.pending >= maj:
		return open
	}
	return lost
}

// decideHeld decides an extension: a majority holds the token, or provably none does, or too few
// answered.
func decideHeld(t tally) verdict {
	maj := majority(t.n())
	switch {
	case t.yes >= maj:
		return won
	case t.yes+t.none+t.pending < maj:
		return lost
	case t.pending > 0:
		return open
	}
	return noQuorum
}

// decideRelease decides a release: won is the reply 1, lost the reply 0. 0 means that provably no
// majority held the token.
func decideRelease(t tally) verdict {
	maj := majority(t.n())
	switch {
	case t.yes >= maj:
		return won
	case t.answered() >= maj && t.yes+t.none+t.pending < maj:
		return lost
	case t.pending > 0:
		return open
	case t.answered() < maj:
		return noQuorum
	}
	return won
}

// decideAll waits for every master.
func decideAll(t tally) verdict {
	switch {
	case t.pending > 0:
		return open
	case t.answered() < majority(t.n()):
		return noQuorum
	}
	return won
}
