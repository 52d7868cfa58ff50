package admission

import (
	"strconv"
	"time"

	"lockproxy/stat"
)

// ActionKind is the kind of an Action.
type ActionKind uint8

const (
	ActVote    ActionKind = iota // the master votes under Record until Until
	ActExclude                   // it does not vote: State, Reason, Brief
	ActChange                    // call admit.lua with Change.Args; feed the answer to Changed
	ActLearn                     // call learn.lua with Known, Record and Count; feed the answer to Learned
	ActProbe                     // probe the master
	ActForgive                   // the lane forgets steps of the clock and the role of the master
	ActAlarm                     // log Alarm as an error: only an operator can help
)

// Action is one thing that must be done about a master. Actions are carried out in their order,
// under the mutex that guards the Guard: none is overtaken by one that knows more.
type Action struct {
	Kind   ActionKind
	Master int
	Conn   uint64    // of the observation it follows from; a vote or an exclusion is void on another
	At     time.Time // when it was decided

	Record string    // ActVote: compared by every packet, empty for any. ActLearn: the master must still carry it
	Until  time.Time // ActVote: when the evidence is too old; zero for never

	State  stat.State // ActExclude
	Reason error      // ActExclude: plain words that follow the master's name
	Brief  bool       // ActExclude: not worth a line in the log, and will soon change

	Change RecordUpdate // ActChange
	Known  string       // ActLearn: admissions for the master to learn
	Count  bool         // ActLearn: it also returns its largest counter
	Alarm  string       // ActAlarm
}

// keep leaves a field of the state hash as it is; an empty text deletes it.
const keep = "-"

// RecordUpdate is one call of admit.lua: a compare-and-set of the record.
type RecordUpdate struct {
	From     string // the record that must be there
	Empty    bool   // the hash must be empty
	To       string
	Settings string // keep leaves it
	Known    string // keep leaves it, empty deletes it, all else is merged
	Durable  string // keep leaves it, empty deletes it
	Writes   uint64 // first count of packets if Durable is set; a running count goes on
	Floor    uint64 // no counter may be lower

	warning string // for the log, after success
}

// Args are the ARGV of admit.lua.
func (c *RecordUpdate) Args() []string {
	empty, floor := "", ""
	if c.Empty {
		empty = "1"
	}
	if c.Floor > 0 {
		floor = strconv.FormatUint(c.Floor, 10)
	}
	return []string{c.From, empty, c.To, c.Settings, c.Known, c.Durable, strconv.FormatUint(c.Writes, 10), floor}
}

// keepsRecord reports whether the change leaves the record as it is.
func (c *RecordUpdate) keepsRecord() bool { return c.From == c.To }
