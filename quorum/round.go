package quorum

import (
	"math/bits"
	"time"

	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// answerState is the kind of a master's answer in a round.
type answerState uint8

const (
	answerPending answerState = iota // none yet
	answerUnsent                     // it was not asked, or has certainly not carried the operation out
	answerYes                        // granted, confirmed, deleted, or holds our token
	answerNo                         // refused, or does not hold our token
	answerFailed                     // an error reply, or an answer that must not count
	answerBroke                      // the connection broke: the operation may land later
)

// counts reports whether the answer is part of a majority that answered.
func (s answerState) counts() bool { return s == answerYes || s == answerNo }

// answer is the answer of one master in a round.
type answer struct {
	state     answerState
	mode      Mode            // extend: of the lock on this master
	wrongMode bool            // share: the token has a slot
	elsewhere bool            // acquire: it granted another slot than a majority
	fence     uint64          // acquire, granted: the number that it counted; extend: its number
	slot      int             // of Limited, acquire and extend: the slot
	longer    int64           // refresh: the later end that the lock has and keeps; see wire.Refreshed
	left      time.Duration   // acquire, refused: ttl of the key that refuses; negative: no expiry
	owner     string          // extend, refresh: of the lock on this master
	found     *wire.Inspected // inspect
	err       error           // the reason if the answer does not count
}

// round tallies the answers of all masters to one operation, and decides. Its owner guards it
// with a mutex.
type round struct {
	rule    func(tally) verdict
	tally   tally
	answers []answer // by master
	verdict verdict  // set once

	slots bool // masters count for a majority only if they say yes with the same slot
	slot  int  // of slots: the most frequent one
}

// begin clears the round for n masters.
func (r *round) begin(rule func(tally) verdict, n int) {
	*r = round{rule: rule, tally: tally{pending: n}, answers: make([]answer, n)}
}

// take counts an answer of a master. It reports whether this answer made the verdict certain.
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

// countSlots counts only masters that said yes with the most frequent slot.
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

// grantedSlots returns the slot that most masters granted, and the highest granted one.
func (r *round) grantedSlots() [2]int {
	highest := 0
	for _, a := range r.answers {
		if a.state == answerYes || a.elsewhere {
			highest = max(highest, a.slot)
		}
	}
	return [2]int{r.slot, highest}
}

// yes returns the set of masters that said yes.
func (r *round) yes() (set uint64) {
	for i, a := range r.answers {
		if a.state == answerYes && (!r.slots || a.slot == r.slot) {
			set |= 1 << i
		}
	}
	return set
}

// no returns the set of masters that said no.
func (r *round) no() (set uint64) {
	for i, a := range r.answers {
		if a.state == answerNo {
			set |= 1 << i
		}
	}
	return set
}

// pending returns the set of masters that have not answered.
func (r *round) pending() (set uint64) {
	for i, a := range r.answers {
		if a.state == answerPending {
			set |= 1 << i
		}
	}
	return set
}

// expire decides as if the masters in silent, which are pending, never answered. It reports
// whether this call decided.
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

// read interprets a master's answer to an operation.
func read(kind wire.OpKind, a *master.Answer) answer {
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
			found.Came = time.Now()
			return answer{state: answerYes, found: &found}
		}
	case wire.Refresh:
		if longer, h, ok := wire.Refreshed(&a.Reply); ok {
			return answer{state: answerYes, longer: longer, fence: h.Fence, owner: h.Owner}
		}
		if a.Reply.Is(0) {
			return answer{state: answerNo}
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

// noQuorum returns the error of a round in which too few answers count. waited is how long the
// masters had.
func (f *fleet) noQuorum(answers []answer, waited time.Duration) *NoQuorumError {
	if waited = waited.Round(time.Millisecond); waited > f.opts.MasterTimeout { // a late timer
		waited = waited.Truncate(f.opts.MasterTimeout)
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
			e.Late = f.lateness.during(waited)
		}
		e.Masters = append(e.Masters, MasterError{Index: i, Name: f.lanes[i].Name(), Err: err})
	}
	return e
}
