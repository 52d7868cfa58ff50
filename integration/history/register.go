package history

import (
	"fmt"
	"sync"
)

// Register is check D: a resource under a lock. Clients read a number, take some time, and write
// back the next number, like clients of a shared file or row. Each accepted write should count
// one, and the difference at the end is the number of lost updates. Safe for concurrent use.
type Register struct {
	// Fenced makes the register refuse a fence lower than an earlier one. A read raises the fence
	// as well. Otherwise a client with a lower fence could write between the read and the write of
	// a client with a higher one.
	Fenced bool

	mu      sync.Mutex
	highest uint64
	value   int
	updates int
	refused int
}

// Read returns the number; ok is false if the fence is too low.
func (r *Register) Read(fence uint64) (value int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.admitLocked(fence) {
		return 0, false
	}
	return r.value, true
}

// Write stores value. It returns false if the fence is too low, or if inTime returns false. Write
// calls inTime, which may be nil, at the moment of the write.
func (r *Register) Write(value int, fence uint64, inTime func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.admitLocked(fence) || inTime != nil && !inTime() {
		return false
	}
	r.value = value
	r.updates++
	return true
}

func (r *Register) admitLocked(fence uint64) bool {
	if r.Fenced && fence < r.highest {
		r.refused++
		return false
	}
	r.highest = max(r.highest, fence)
	return true
}

// Lost returns how many accepted updates are missing in the value, and how many reads and writes
// the register refused.
func (r *Register) Lost() (lost, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.updates - r.value, r.refused
}

// Guarded is three registers under one lock, for three kinds of user.
type Guarded struct {
	Key     string
	Careful Register // written only within validity: loses no update unless two clients hold the lock
	Plain   Register // written at any time: loses updates when clients pause for too long
	Fenced  Register // written at any time, with a check of fences: must never lose an update
}

// NewGuarded returns registers for a key.
func NewGuarded(key string) *Guarded { return &Guarded{Key: key, Fenced: Register{Fenced: true}} }

// Update reads all three registers, calls work, and writes them; inTime reports whether the lock
// is still valid.
func (g *Guarded) Update(fence uint64, inTime func() bool, work func()) {
	careful, _ := g.Careful.Read(fence)
	begun := inTime()
	plain, _ := g.Plain.Read(fence)
	fenced, admitted := g.Fenced.Read(fence)
	work()
	if begun {
		g.Careful.Write(careful+1, fence, inTime)
	}
	g.Plain.Write(plain+1, fence, nil)
	if admitted {
		g.Fenced.Write(fenced+1, fence, nil)
	}
}

// Check returns a violation for lost updates of the careful and of the fenced users.
func (g *Guarded) Check() []Violation {
	var found []Violation
	if lost, _ := g.Careful.Lost(); lost != 0 {
		found = append(found, Violation{Check: "update", Key: g.Key,
			Text: fmt.Sprintf("%d lost although all were written within validity", lost)})
	}
	if lost, _ := g.Fenced.Lost(); lost != 0 {
		found = append(found, Violation{Check: "update", Key: g.Key,
			Text: fmt.Sprintf("%d lost although lower fences were refused", lost)})
	}
	return found
}
