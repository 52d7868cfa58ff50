package history

import (
	"fmt"
	"time"
)

// Violation is something that must not be.
type Violation struct {
	Check string // overlap, slot, order, fence, token, lost, update, stray
	Key   string
	At    time.Duration // of the history: when it could be seen; 0 where that is not known
	Text  string        // the operations that show it
}

// String is the violation on one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s at %v: %s: %s", v.Check, v.At.Round(time.Millisecond), v.Key, v.Text)
}

// Options are for Check.
type Options struct {
	Timeout time.Duration                 // of the search for a legal order, all keys together; 0: a minute
	Picture func(key string, html []byte) // gets a page for each key without a legal order; may be nil
	MayLose bool                          // a lock may be gone before its time, as after a clock step
}

// Check runs all checks of a history that need nothing but the history.
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

// Summary is what a history holds, in numbers.
type Summary struct {
	Operations, Grants, Refused, Errors, Unknown, Unlocks, Extends, Keys int

	Shared, Limited, Kept int // of the grants, and of the UNLOCKs
}

// Summarize counts.
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

// Add adds other to s; Keys too, as histories have keys of their own.
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

// String is the summary on one line.
func (s Summary) String() string {
	return fmt.Sprintf("%d operations on %d keys: %d grants (%d shared, %d slots), %d refused, "+
		"%d errors, %d without a reply, %d UNLOCK (%d KEEP), %d EXTEND", s.Operations, s.Keys, s.Grants,
		s.Shared, s.Limited, s.Refused, s.Errors, s.Unknown, s.Unlocks, s.Kept, s.Extends)
}
