package quorum

import (
	"math/bits"
	"time"

	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// answerState says what a master said in a round.
type answerState uint8

const (
	answerPending answerState = iota // nothing yet
	answerUnsent                     // it was not asked, or refused to try: nothing can land
	answerYes                        // granted, confirmed, deleted, or has our token
	answerNo                         // refused, or has not our token
	answerFailed                     // an error reply, or an answer that must not count
	answerBroke                      // the connection broke: the operation may land later
)

// counts reports whether the answer is part of a majority that answered.
func (s answerState) counts() bool { return s == answerYes || s == answerNo }

// answer is what one master said in a round.
type answer struct {
	state     answerState
	mode      Mode            // extend: of the lock, as the master has it
	wrongMode bool            // share: a slot stands there
	elsewhere bool            // acquire: it granted another slot than a majority
	fence     uint64          // acquire, granted: the number that this master counted; extend: what it has
	slot      int             // of Limited, acquire and extend: the slot
	left      time.Duration   // acquire, refused: how long the key in the way lives; negative: for ever
	owner     string          // extend: of the lock, as the master has it
	found     *wire.Inspected // inspect
	err       error           // why the answer does not count
}

// round is one question to all masters: ask all, tally, decide. Its owner guards it with a mutex.
type round struct {
	rule    func(tally) verdict
	tally   tally
	answers []answer // by master
	verdict verdict  // set once

	slots bool // only those who say yes with the same slot make a majority
	slot  int  // of slots: the one of most of them
}

// begin clears the round for n masters.
func (r *round) begin(rule func(tally) verdict, n int) {
	*r = round{rule: rule, tally: tally{pending: n}, answers: make([]answer, n)}
}

// take counts what a master said. It reports whether the verdict is certain from here on.
func (r *round) take(lane int, a answer, askAgain bool) (decided bool) {
	r.answers[lane] = a
	r.tally.pending--
	switch a.state {
	case answerYes:
		r.tally.yes++
	case answerNo:
		r.tally.no++
	default:
		r.tally.none++
		if askAgain {
			r.tally.askAgain++
		}
	}
	if r.slots {
		r.countSlots()
	}
	return r.conclude(r.tally)
}

// countSlots makes those that said yes with the most frequent slot the ones that count.
func (r *round) countSlots() {
	all, most := 0, 0
	for i, a := range r.answers {
		if a.state != answerYes {
			continue
		}
		all++
		same := 0
		for _, b := range r.answers[i:] {
			if b.state == answerYes && b.slot == a.slot {
				same++
			}
		}
		if same > most {
			r.slot, most = a.slot, same
		}
	}
	r.tally.yes, r.tally.other = most, all-most
}

// yes is the set of masters that said yes.
func (r *round) yes() (set uint64) {
	for i, a := range r.answers {
		if a.state == answerYes && (!r.slots || a.slot == r.slot) {
			set |= 1 << i
		}
	}
	return set
}

// no is the set of masters that said no.
func (r *round) no() (set uint64) {
	for i, a := range r.answers {
		if a.state == answerNo {
			set |= 1 << i
		}
	}
	return set
}

// pending is the set of masters that owe an answer.
func (r *round) pending() (set uint64) {
	for i, a := range r.answers {
		if a.state == answerPending {
			set |= 1 << i
		}
	}
	return set
}

// expire decides as if the masters in silent, which are pending, never answered. It reports whether
// this call decided.
func (r *round) expire(silent uint64) (decided bool) {
	return r.conclude(r.tally.without(bits.OnesCount64(silent)))
}

func (r *round) conclude(t tally) (decided bool) {
	if r.verdict != open {
		return false
	}
	r.verdict = r.rule(t)
	return r.verdict != open
}

// read says what a master's answer to an operation means.
func read(kind wire.Kind, a *master.Answer) answer {
	switch {
	case a.Err != nil && a.Reply.Code() == wire.CodeWrongMode:
		return answer{state: answerFailed, err: a.Err, wrongMode: true}
	case a.Err != nil && a.MayLand:
		return answer{state: answerBroke, err: a.Err}
	case a.Err != nil && a.NotRun:
		return answer{state: answerUnsent, err: a.Err}
	case a.Err != nil:
		return answer{state: answerFailed, err: a.Err}
	}
	switch kind {
	case wire.Acquire:
		if fence, slot, ok := wire.Granted(&a.Reply); ok {
			return answer{state: answerYes, fence: fence, slot: slot}
		}
		if left, ok := wire.Refused(&a.Reply); ok {
			return answer{state: answerNo, left: left}
		}
	case wire.Inspect:
		if found, ok := wire.ParseInspect(&a.Reply); ok {
			return answer{state: answerYes, found: &found}
		}
	default:
		if mode, h, ok := wire.Extended(&a.Reply); ok {
			return answer{state: answerYes, mode: mode, slot: h.Slot, fence: h.Fence, owner: h.Owner}
		}
		switch {
		case a.Reply.Kind == ':' && a.Reply.Int > 0:
			return answer{state: answerYes, slot: int(a.Reply.Int - 1)}
		case a.Reply.Kind == ':':
			return answer{state: answerNo}
		}
	}
	return answer{state: answerFailed, err: master.Answered(&a.Reply)}
}

// noQuorum is the error of a round in which too few answers count. waited is how long the masters
// had.
func (q *Quorum) noQuorum(answers []answer, waited time.Duration) *NoQuorumError {
	if waited = waited.Round(time.Millisecond); waited > q.opts.MasterTimeout { // by the time of a timer
		waited = waited.Truncate(q.opts.MasterTimeout)
	}
	e := &NoQuorumError{N: len(answers), Needed: majority(len(answers))}
	for i, a := range answers {
		if a.state.counts() {
			e.Answered++
			continue
		}
		err := a.err
		if err == nil {
			err = master.SilentError(waited)
			e.Late = q.lateness.during(waited)
		}
		e.Masters = append(e.Masters, MasterError{Index: i, Name: q.lanes[i].Name(), Err: err})
	}
	return e
}
