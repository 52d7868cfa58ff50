package admission

import (
	"time"

	"lockproxy/stat"
)

// ActionKind is the kind of an Action.
type ActionKind uint8

const (
	ActVote    ActionKind = iota // the master votes under Record until Until
	ActExclude                   // it does not vote: State, Reason, Brief
	ActChange                    // call admit.lua with Change.Args; feed the answer to Changed
	ActTell                      // call learn.lua with Known, Record and Count; feed the answer to Told
	ActProbe                     // probe the master
	ActForgive                   // the lane forgets steps of the clock and the role of the master
	ActAlarm                     // log Alarm as an error: only an operator can help
)

// Action is one thing that must be done about a master. Actions are carried out in their order,
// under the mutex that guards the Guard: none is overtaken by one that knows more.
type Action struct {
	Kind   ActionKind
	Master int
	Conn   uint64    // of the observation that it follows from; it is void on another connection
	At     time.Time // when it was decided

	Record string    // ActVote: compared by every packet, empty for any. ActTell: the master must still carry it
	Until  time.Time // ActVote: when the evidence is too old; zero for never

	State  stat.State // ActExclude
	Reason error      // ActExclude: plain words that follow the master's name
	Brief  bool       // ActExclude: not worth a line in the log, and will soon change

	Change Change // ActChange
	Known  string // ActTell: admissions for the master to learn
	Count  bool   // ActTell: it also returns its largest counter
	Alarm  string // ActAlarm
}
