package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum/internal/admission"
)

// Errors of the methods of Quorum. Compare with errors.Is; ErrNoQuorum comes as a *NoQuorumError,
// ErrHeld as a *HeldError, ErrBusy as a *BusyError. After any of them the caller of Acquire holds
// no lock, and all masters are being asked to release its token.
var (
	// ErrHeld: a majority of all masters answered and too few granted. Another client holds
	// the key, or several asked at once and none won, also after the retries.
	ErrHeld = errors.New("held by another")

	// ErrNoQuorum: less than a majority of all masters gave an answer that counts, or the answers
	// of the others would decide.
	ErrNoQuorum = errors.New("no majority of the masters answered")

	// ErrBusy: so many LOCKs wait that this one could not be sent in time, or that the masters,
	// which work, could not answer it in its time.
	ErrBusy = errors.New("the masters are busy")

	// ErrEnding: the acquire waited until it could be sent, and Drain was called. No attempt
	// is under way; earlier ones, after split votes, were released.
	ErrEnding = errors.New("the proxy is ending")

	// ErrLate: a majority granted or extended, but no validity was left (step 4).
	ErrLate = errors.New("a majority answered too late, no validity is left")

	// ErrLost: provably no majority holds the token any more, or ever did.
	ErrLost = errors.New("no majority holds the token")

	// ErrInvalidRequest: the mode, the limit or the keys are invalid. No master was asked.
	ErrInvalidRequest = errors.New("invalid request")

	// ErrWrongMode: a token of Limited cannot become Shared. The lock is unchanged.
	ErrWrongMode = errors.New("a slot cannot be shared")

	// ErrFence: a majority granted, but the fencing number was not confirmed by a majority of all
	// masters.
	ErrFence = errors.New("the fencing number was not confirmed by a majority")

	// ErrNoSuchMaster: Admit was given a name that no master has.
	ErrNoSuchMaster = errors.New("no such master")

	// ErrInvalidTTL: the ttl is under one millisecond or over Options.MaxTTL. No master was asked,
	// but for the rest of the lock, to which a refresh would have added.
	ErrInvalidTTL = errors.New("invalid ttl")
)

// HeldError is the ErrHeld of one Acquire.
type HeldError struct {
	// Free is how soon a majority could grant without a release, because enough keys that refuse
	// now have expired. Negative: never, or not known.
	Free time.Duration
}

// Error is the text of ErrHeld.
func (e *HeldError) Error() string { return ErrHeld.Error() }

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// BusyError is the ErrBusy of one Acquire.
type BusyError struct {
	Waiting int // LOCKs that waited to be sent when this one gave up; itself included if it was never sent
}

// Error is the reason in words.
func (e *BusyError) Error() string {
	return fmt.Sprintf("the masters are busy: %d commands wait", e.Waiting)
}

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// MasterError says why one master gave no answer that counts. Err is in plain words that follow
// the name of a server ("refused the connection", "is a replica"), without control bytes and
// without secrets.
type MasterError struct {
	// Index is the place in Options.Masters, from 0.
	Index int
	// Name is MasterOptions.Name.
	Name string
	Err  error
}

// Error returns the name of the master and its fault.
func (e MasterError) Error() string { return e.Name + " " + e.Err.Error() }

// Unwrap returns Err.
func (e MasterError) Unwrap() error { return e.Err }

// NoQuorumError is the ErrNoQuorum of one command.
type NoQuorumError struct {
	// Answered is the number of masters that gave an answer that counts.
	Answered int
	// N is the number of all masters.
	N int
	// Needed is the majority of N.
	Needed int
	// Masters are the faults of the other masters, in the order of Options.Masters.
	Masters []MasterError
	// Late is how late this process itself was during the round, because it did not get the
	// processor: masters that seem silent may have answered in time. 0: it was not late, or no
	// master was silent.
	Late time.Duration
	// Seen is of Inspect: the holder that most of the masters that answered have, or a Foreign
	// key. It may have ended on the others. Nil: they have neither.
	Seen *Info
}

// Error is Text with the names of the masters.
func (e *NoQuorumError) Error() string { return e.Text(true) }

// Is makes errors.Is(err, ErrNoQuorum) true.
func (e *NoQuorumError) Is(target error) bool { return target == ErrNoQuorum }

// Text returns the message for a client: how many masters can vote, how many are needed or that
// these do not agree, the faults of the others and of this process, and the lock that was seen.
// With showMasters false it calls a master by its place, "master 1" for the first. It fits in one
// line of an error reply.
func (e *NoQuorumError) Text(showMasters bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d masters can vote, ", e.Answered, e.N)
	if e.Answered < e.Needed {
		fmt.Fprintf(&b, "%d needed", e.Needed)
	} else {
		b.WriteString("but no majority agrees")
	}
	if e.Late > 0 {
		fmt.Fprintf(&b, ", and this proxy itself was late by %dms (is it short of processor time?)", e.Late.Milliseconds())
	}
	separator := ": "
	for _, m := range e.Masters {
		name := m.Name
		if !showMasters {
			name = placeOf(m.Index)
		}
		b.WriteString(separator + plain.Short(name) + " " + m.Text(showMasters))
		separator = "; "
	}
	if e.Seen != nil {
		b.WriteString(separator + e.Seen.seen())
	}
	return b.String()
}

// seen describes the lock on too few masters: "seen on 2 of 5: exclusive, fence 42, owner me,
// 11900ms left".
func (i *Info) seen() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seen on %d of %d: ", i.Held, i.Masters)
	if i.Mode == Foreign {
		fmt.Fprintf(&b, "a key that is no lock, type %s", cmp.Or(plain.Short(i.Type), "not known"))
	} else {
		fmt.Fprintf(&b, "%s, fence %d", i.Mode, i.Fence)
		if i.Owner != "" {
			b.WriteString(", owner " + i.Owner)
		}
	}
	if i.TTL < 0 {
		return b.String() + ", without an expiry"
	}
	return b.String() + fmt.Sprintf(", %dms left", i.TTL.Milliseconds())
}

// Text returns the fault of the master without its name. It cuts texts of other programs, but not
// our own, which end with the remedy. With showMasters false it calls other masters by their
// places.
func (e MasterError) Text(showMasters bool) string {
	named, ok := errors.AsType[admission.Named](e.Err)
	switch {
	case !ok:
		return plain.Short(e.Err.Error())
	case showMasters:
		return plain.Line(named.Text(nil))
	}
	return plain.Line(named.Text(placeOf))
}

// placeOf names a master without showing its name.
func placeOf(i int) string { return fmt.Sprintf("master %d", i+1) }
