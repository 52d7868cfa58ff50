package quorum

// verdict is what is certain about a round of questions.
type verdict uint8

const (
	open     verdict = iota // not certain yet
	won                     // a majority granted, confirmed or deleted
	held                    // a majority answered, too few granted
	split                   // as held, but those who refused are no majority either: several asked at once
	noQuorum                // no majority answered
	again                   // a master had lost the script: ask anew, the next attempt sends its body
	lost                    // a fencing round that cannot be confirmed any more; a token that no majority holds
)

// tally counts what the masters answered in one round. All masters are in it: those never asked are in none.
type tally struct {
	granted, refused, none, pending int
	noScript                        int // of none: the master had lost the script
}

func (t tally) n() int        { return t.granted + t.refused + t.none + t.pending }
func (t tally) answered() int { return t.granted + t.refused }

// decide is step 3, as early as it is certain. That nobody can win is known before it is known which reply that gives: a
// majority that answered makes it "held", so this waits until a majority answered or nobody is left to wait
// for.
func (t tally) decide() verdict {
	maj := majority(t.n())
	switch {
	case t.granted >= maj:
		return won
	case t.granted+t.pending >= maj:
		return open
	case t.refused >= maj:
		return held
	case t.noScript > 0:
		return again
	case t.answered() >= maj:
		return split
	case t.pending == 0:
		return noQuorum
	}
	return open
}

// atDeadline is decide when whoever is still pending has had its time.
func (t tally) atDeadline() verdict {
	t.none, t.pending = t.none+t.pending, 0
	return t.decide()
}

// decideRaise judges the second fencing round: confirmed masters are known to carry the number while our value
// stands there; pending ones may still do so. A majority of all n is needed: a majority of those who granted is not enough,
// as two such groups need not share a master.
func decideRaise(confirmed, pending, n int) verdict {
	switch {
	case confirmed >= majority(n):
		return won
	case confirmed+pending < majority(n):
		return lost
	}
	return open
}

// extendTally counts the answers to an extension: held, missing ("not this token"), none, pending.
type extendTally struct{ held, missing, none, pending int }

func (t extendTally) n() int { return t.held + t.missing + t.none + t.pending }

// decide says won when a majority holds the token, lost when provably none does, noQuorum where too few
// answered, and open while answers still pending can change that.
func (t extendTally) decide() verdict {
	maj := majority(t.n())
	switch {
	case t.held >= maj:
		return won
	case t.held+t.none+t.pending < maj:
		return lost
	case t.pending > 0:
		return open
	}
	return noQuorum
}

// atDeadline is decide when whoever is still pending has had its time.
func (t extendTally) atDeadline() verdict {
	t.none, t.pending = t.none+t.pending, 0
	return t.decide()
}

// unlockTally counts the answers to a release: deleted, notOurs ("not this token"), none, pending.
type unlockTally struct{ deleted, notOurs, none, pending int }

func (t unlockTally) n() int { return t.deleted + t.notOurs + t.none + t.pending }

// decide says won for the reply 1, lost for 0 (no majority held the token: the lock was provably lost or
// never there), noQuorum where too few answered, and open while answers still pending can change that.
func (t unlockTally) decide() verdict {
	maj := majority(t.n())
	switch {
	case t.deleted >= maj:
		return won
	case t.deleted+t.notOurs >= maj && t.deleted+t.none+t.pending < maj:
		return lost
	case t.pending > 0:
		return open
	case t.deleted+t.notOurs < maj:
		return noQuorum
	}
	return won
}

// atDeadline is decide when whoever is still pending has had its time.
func (t unlockTally) atDeadline() verdict {
	t.none, t.pending = t.none+t.pending, 0
	return t.decide()
}
