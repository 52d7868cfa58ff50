package history

import (
	"fmt"
	"time"
)

// Violation is a breach of the contract.
type Violation struct {
	Check string // overlap, slot, order, fence, token, lost, update, stray
	Key   string
	At    time.Duration // when it showed, since the history began; 0 if unknown
	Text  string        // the operations that show it
}

// String returns the violation on one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s at %v: %s: %s", v.Check, v.At.Round(time.Millisecond), v.Key, v.Text)
}

// Options configure Check.
type Options struct {
	Timeout time.Duration                 // of the search for a legal order in all keys; 0 for a minute
	Picture func(key string, html []byte) // gets a page for each key without a legal order; may be nil
	MayLose bool                          // a lock may end before its validity, for instance by a clock step
}

// Check runs all checks that need only the history.
func Check(ops []Op, o Options) []Violation {
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	found := Overlaps(ops)
	found = append(found, Linear(ops, o.Timeout, o.Picture)...)
	found = append(found, Fences(ops)...)
	found = append(found, Tokens(ops)...)
	if !o.MayLose {
		found = append(found, Lost(ops)...)
	}
	return found
}

// Summary has the numbers of a history.
type Summary struct {
	Operations, Grants, Refused, Errors, Unknown, Unlocks, Extends, Keys int

	Shared, Limited int // among Grants
	Kept            int // among Unlocks
}

// Summarize counts the operations of a history.
func Summarize(ops []Op) (s Summary) {
	keys := map[string]bool{}
	for i := range ops {
		o := &ops[i]
		s.Operations++
		keys[o.Key] = true
		switch {
		case o.Outcome == Unknown:
			s.Unknown++
		case o.Outcome == Failed:
			s.Errors++
		case o.Kind == Lock && o.Outcome == OK:
			s.Grants++
			switch o.Mode {
			case Shared:
				s.Shared++
			case Limited:
				s.Limited++
			case Exclusive:
			}
		case o.Kind == Lock:
			s.Refused++
		case o.Kind == Unlock:
			s.Unlocks++
			if o.keeps() {
				s.Kept++
			}
		default:
			s.Extends++
		}
	}
	s.Keys = len(keys)
	return s
}

// Add adds other to s. It adds Keys as well, because no two histories have a key in common.
func (s *Summary) Add(other Summary) {
	s.Operations += other.Operations
	s.Grants += other.Grants
	s.Refused += other.Refused
	s.Errors += other.Errors
	s.Unknown += other.Unknown
	s.Unlocks += other.Unlocks
	s.Extends += other.Extends
	s.Keys += other.Keys
	s.Shared += other.Shared
	s.Limited += other.Limited
	s.Kept += other.Kept
}

// String returns the summary on one line.
func (s Summary) String() string {
	return fmt.Sprintf("%d operations on %d keys: %d grants (%d shared, %d slots), %d refused, "+
		"%d errors, %d without a reply, %d UNLOCK (%d KEEP), %d EXTEND", s.Operations, s.Keys, s.Grants,
		s.Shared, s.Limited, s.Refused, s.Errors, s.Unknown, s.Unlocks, s.Kept, s.Extends)
}
