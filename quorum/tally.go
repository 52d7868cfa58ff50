package quorum

// majority is the smallest number of masters that two groups cannot have without sharing one:
// n/2+1, also for even n.
func majority(n int) int { return n/2 + 1 }

// verdict is what is certain about a round.
type verdict uint8

const (
	open     verdict = iota // not certain yet
	won                     // a majority said yes
	held                    // of an acquire: a majority refused
	split                   // of an acquire: too few granted and too few refused; several asked at once
	lost                    // of a token: provably no majority holds it
	noQuorum                // too few gave an answer that counts
	again                   // of an acquire: another try may do better at once
)

// tally counts what the masters said in one round. All masters are in it: those that could not be
// asked are in none.
type tally struct {
	yes      int // granted, confirmed, deleted, or has our token
	other    int // as yes, but with another slot
	no       int // refused, or has not our token
	none     int // no answer that counts
	askAgain int // of none: another try may do better at once
	pending  int // no answer yet
}

func (t tally) n() int        { return t.yes + t.other + t.no + t.none + t.pending }
func (t tally) answered() int { return t.yes + t.other + t.no }

// without counts n of those that are pending as silent.
func (t tally) without(n int) tally {
	t.none, t.pending = t.none+n, t.pending-n
	return t
}

// decideAcquire is step 3, as early as it is certain. That too few can grant may be certain before
// it is which verdict that makes: held, split, or noQuorum if less than a majority answers. Then
// it waits for a majority of answers, or until nobody is pending.
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

// decideRaise decides the second fencing round. yes masters carry the fence while our value stands
// there. It takes a majority of all: a majority of those that granted is not enough, as two such
// groups need not share a master.
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

// decideHeld decides an extension: whether a majority holds the token, provably none does, or too
// few answered to tell.
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

// decideRelease decides a release: won is the reply 1, lost the reply 0, which says that provably
// no majority held the token.
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
