package quorum

import (
	"slices"
	"time"
)

// lateLocked does what has to follow an answer that came after the lease was given out. A grant is followed
// by a check, as the lock may have been released through another proxy by then, and levels its counter. No answer: the
// master is topped up. A refusal stands.
func (a *attempt) lateLocked(lane int) {
	l, v := a.q.lanes[lane], a.votes[lane]
	switch v.state {
	case voteGranted:
		if l.owesRelease(a.debtKey) {
			return
		}
		if v.fence != a.fence {
			_ = l.send(command{op: opRaise, key: a.key, secret: a.secret, fence: a.fence})
		}
		a.q.late.add(a.debtKey, a.voters, a.clock.start.Add(a.ttl), time.Now())
	case voteUnsent, voteError, voteBroke:
		d := debt{debtKey: a.debtKey, fence: a.fence, voters: a.voters, owner: a.owner, until: a.clock.start.Add(a.ttl), ttl: a.ttl}
		l.topUp(d, v.state == voteBroke)
	}
}

// leaseLocked ends the attempt with a lease: masters that gave no answer are topped up from here on.
func (a *attempt) leaseLocked() {
	a.phase = leased
	a.voters = 0
	for i, v := range a.votes {
		if v.state == voteGranted {
			a.voters.add(i)
		}
	}
	for i, v := range a.votes {
		if v.state != votePending && v.state != voteGranted {
			a.lateLocked(i)
		}
	}
}

// fail ends the attempt without a lease: whatever landed, or still may, is released (step 5). Nobody waits for
// the answers.
func (a *attempt) fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.phase = failed
	for i, v := range a.votes {
		if v.state == voteUnsent {
			continue
		}
		landed := v.state != votePending && v.state != voteBroke
		_ = a.q.lanes[i].release(debt{debtKey: a.debtKey, ttl: a.ttl}, landed, nil)
	}
}

// freeInLocked is how soon a majority could grant without a release: the majority-th of the times after which each
// could, nearest first. Those that granted could at once, as they are being released.
func (a *attempt) freeInLocked() time.Duration {
	in := make([]time.Duration, 0, len(a.votes))
	for _, v := range a.votes {
		if v.state == voteGranted {
			in = append(in, 0)
		} else if v.state == voteRefused && v.left >= 0 {
			in = append(in, v.left)
		}
	}
	maj := majority(len(a.votes))
	if len(in) < maj {
		return -1
	}
	slices.Sort(in)
	return in[maj-1]
}

// noQuorumLocked tells who gave no answer that counts, and why.
func (a *attempt) noQuorumLocked() error {
	e := &NoQuorumError{Answered: a.tally.answered(), N: len(a.votes), Needed: majority(len(a.votes))}
	for i, v := range a.votes {
		switch v.state {
		case voteGranted, voteRefused:
			continue
		case votePending:
			v.err = silentError(a.timeout)
		}
		e.Masters = append(e.Masters, MasterError{Index: i, Name: a.q.lanes[i].names[i], Err: v.err})
	}
	return e
}
