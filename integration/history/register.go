package history

import (
	"fmt"
	"sync"
)

// Register is check D: a resource that is guarded by a lock. Clients read it, take some time, and
// write back one more than they read, as a client of a shared file or a row would. Each write that
// was accepted should count: what is missing at the end are lost updates. Safe for concurrent use.
type Register struct {
	// Fenced makes it refuse whoever comes with a lower fence than another before. The number is
	// taken at the read as well: otherwise a client with a lower fence could write between the
	// read and the write of one with a higher.
	Fenced bool

	mu      sync.Mutex
	highest uint64
	value   int
	updates int
	refused int
}

// Read returns what is stored; false says that the fence is too low.
func (r *Register) Read(fence uint64) (value int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.admitLocked(fence) {
		return 0, false
	}
	return r.value, true
}

// Write stores value; false says that the fence is too low, or that in time, which is asked at the
// very moment of the write, returned false. in time may be nil.
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

// Lost returns how many accepted updates are not in the value, and how many reads and writes were
// refused.
func (r *Register) Lost() (lost, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.updates - r.value, r.refused
}

// Guarded is three registers under one lock, for three kinds of user.
type Guarded struct {
	Key     string
	Careful Register // written only within validity: loses nothing if no two hold the lock at once
	Plain   Register // written whenever the client comes to it: loses updates when clients pause for too long
	Fenced  Register // the same, but refusing lower fences: must never lose any
}

// NewGuarded returns registers for a key.
func NewGuarded(key string) *Guarded { return &Guarded{Key: key, Fenced: Register{Fenced: true}} }

// Update is one read, work and write of all three; in time tells whether the lock is still good.
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

// Check returns what must not be: a lost update of the careful or of the fenced users.
func (g *Guarded) Check() []Violation {
	var found []Violation
	if lost, _ := g.Careful.Lost(); lost != 0 {
		found = append(found, Violation{Check: "update", Key: g.Key, Text: fmt.Sprintf("%d lost although all were written within validity", lost)})
	}
	if lost, _ := g.Fenced.Lost(); lost != 0 {
		found = append(found, Violation{Check: "update", Key: g.Key, Text: fmt.Sprintf("%d lost although lower fences were refused", lost)})
	}
	return found
}
