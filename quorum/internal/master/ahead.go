package master

import "time"

// clockRate bounds how much faster or slower than ours a master's clock runs: by a part of so
// many.
const clockRate = 100

// ahead is by how much the master's clock is ahead of the lane's, at least. It turns the time of
// an operation into one of the master's clock that is never later than the truth: so the master
// takes no operation for younger than it is. The zero value has had no answer.
type ahead struct {
	least time.Duration
	at    time.Duration // when that was certain, by the lane's clock
	known bool
}

// note takes one answer with the master's time, which was read between sent and received. A bound
// that the answer contradicts is of an earlier time: the clock has been set, or this machine was
// suspended.
func (a *ahead) note(sent, received, says time.Duration) {
	lo, hi := says-received, says-sent
	if was := a.leastAt(received); !a.known || was < lo || was > hi {
		*a = ahead{least: lo, at: received, known: true}
	}
}

// leastAt returns the bound at another time.
func (a *ahead) leastAt(t time.Duration) time.Duration {
	return a.least - (t-a.at).Abs()/clockRate
}

// masterTime turns t, by the lane's clock, into the master's time. Call it right after t: after an
// answer that comes later, this machine may have been suspended in between. Without an
// answer all operations are too old.
func (a *ahead) masterTime(t time.Duration) time.Duration {
	if !a.known {
		return 1
	}
	return t + a.leastAt(t)
}
