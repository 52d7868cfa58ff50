package admission

import "lockproxy/stat"

// ActionKind says what an Action is.
type ActionKind uint8

const (
	ActVote    ActionKind = iota // the master votes under Record
	ActExclude                   // it does not vote: State, Reason, Brief
	ActChange                    // call admit.lua with Change.Args; feed the answer to Changed
	ActTell                      // call counters.lua with Known and no record; feed the answer to Told
	ActCount                     // call counters.lua on each of Ask; feed all answers to Counted
	ActProbe                     // probe the master
	ActForgive                   // the lane forgets steps of the clock and the role of the master
	ActAlarm                     // log Alarm as an error: only an operator can help
)

// Action is one thing that must be done about a master. Actions are carried out in their order,
// under the mutex that guards the Guard, so that none is overtaken by one that knows more.
type Action struct {
	Kind   ActionKind
	Master int
	Conn   uint64 // of the observation that it follows from; it is void on another connection

	Record string // ActVote; empty: any

	State  stat.State // ActExclude
	Reason error      // ActExclude: plain words that follow the master's name
	Brief  bool       // ActExclude: it is not worth a line in the log, and not the last word for those who start

	Change Change // ActChange

	Alarm string

	Known string // ActTell, ActCount: what the masters are to know of each other
	Due   []int  // ActCount: the masters whose quarantine is over
	Ask   []Asked
}

// Asked is a master that is asked for its counters.
type Asked struct {
	Master int
	Conn   uint64 // of the observation
	Record string // only under this record do its counters count
}

// Counted is the answer of one master to an ActCount.
type Counted struct {
	Known    string // what it knows now; empty if it could not be told
	Counters string // 'field number field number ...'
	Err      error  // why there are none
}
