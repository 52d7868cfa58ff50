package quorum

import (
	"math/rand/v2"
	"testing"
	"time"
)

var (
	kWriter = kRole{mode: kExclusive, keys: 1}
	kReader = kRole{mode: kShared, keys: 1}
	kBoth   = kRole{mode: kExclusive, keys: 3}
	kSecond = kRole{mode: kExclusive, keys: 2}
)

func kSlot(limit, first uint8) kRole {
	return kRole{mode: kLimited, keys: 1, limit: limit, first: first}
}

func (role kRole) with(may kMay) kRole {
	role.may = may
	return role
}

// after begins when the one before has given up its lock.
func (role kRole) after() kRole {
	role.turn = true
	return role
}

func (role kRole) waiting() kRole {
	role.waits = true
	return role
}

func (role kRole) backwards() kRole {
	role.back = true
	return role
}

// kCase is two attempts or more, and what is looked for: empty for all there is.
type kCase struct {
	name    string
	roles   []kRole
	broken  kBroken
	looked  string
	shares  bool // the keys share one counter
	five    bool // masters, not three
	timed   bool
	extends uint8
	losses  uint8
}

// The small cases, in every order of messages and time: two attempts on three masters, whose
// counters start alike and apart. Where nothing expires releases are all that ends a lock.
func TestKindsExploredShared(t *testing.T) {
	explore(t, []kCase{
		{name: "writers", roles: []kRole{kWriter, kWriter}},
		{name: "reader and writer", roles: []kRole{kReader, kWriter.waiting()}},
		{name: "readers", roles: []kRole{kReader, kReader}},
		{name: "change to shared and a reader", roles: []kRole{kWriter.with(kMayShare), kReader}},
		{name: "change to shared and a writer", roles: []kRole{kWriter.with(kMayShare), kWriter}},
		{name: "reader and writer, expiring", roles: []kRole{kReader, kWriter}, timed: true},
		{name: "readers, expiring", roles: []kRole{kReader, kReader}, timed: true},
	})
}

func TestKindsExploredLimited(t *testing.T) {
	explore(t, []kCase{
		{name: "same slots", roles: []kRole{kSlot(2, 0), kSlot(2, 0)}},
		{name: "other limits", roles: []kRole{kSlot(1, 0), kSlot(2, 1)}},
		{name: "a slot and a reader", roles: []kRole{kSlot(2, 0), kReader}},
		{name: "one slot, expiring", roles: []kRole{kSlot(1, 0), kSlot(1, 0)}, timed: true},
	})
}

func TestKindsExploredKeys(t *testing.T) {
	explore(t, []kCase{
		{name: "two keys each", roles: []kRole{kBoth, kBoth}},
		{name: "two keys and one", roles: []kRole{kBoth, kSecond}},
		{name: "two keys of one counter", roles: []kRole{kBoth, kSecond}, shares: true},
		{name: "two keys and one, expiring", roles: []kRole{kBoth, kSecond}, timed: true},
	})
}

func TestKindsExploredKept(t *testing.T) {
	keeps := kWriter.with(kMayKeep)
	explore(t, []kCase{
		{name: "KEEP", roles: []kRole{kWriter.with(kMayKeep | kMayExtend), kWriter}, extends: 1},
		{name: "KEEP, expiring", roles: []kRole{keeps, kWriter.after()}, timed: true},
		{name: "KEEP for longer than the quarantine", roles: []kRole{keeps, kWriter.after()},
			broken: kBroken{keptLong: true}, looked: kBeside, losses: 1, timed: true},
	})
}

// explore goes through all that may happen.
func explore(t *testing.T, cases []kCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			starts := [][]uint8{{0, 0, 0}, {0, 0, 2}, {0, 2, 2}}
			if c.timed {
				starts = starts[:1] // takes longest
			}
			r := &kRun{n: 3, kBroken: c.broken, roles: c.roles, shares: c.shares, timeless: !c.timed}
			worked, states, found := processorTime(), 0, ""
			for i := 0; i < len(starts) && found == ""; i++ {
				var n int
				n, found = r.search(c.start(starts[i]), c.looked)
				states += n
			}
			took := (processorTime() - worked).Round(time.Millisecond)
			t.Logf("%d states, %v at work: %s", states, took, found)
			if (found != "") != (c.looked != "") {
				t.Errorf("found %q, want %q", found, c.looked)
			}
		})
	}
}

// start is the state before anything happens. The second key's counters are those of the first,
// turned by one master.
func (c *kCase) start(counters []uint8) (s kState) {
	s.extends, s.losses = c.extends, c.losses
	for m, n := range counters {
		s.masters[m].counter = [kKeys]uint8{n, counters[(m+1)%len(counters)]}
	}
	return s
}

// kStarting is a state with counters apart, a master that may lose its memory, and a message that
// may get lost.
func kStarting(random *rand.Rand) (s kState) {
	s.extends, s.losses, s.drops = 2, uint8(random.IntN(2)), uint8(random.IntN(2))
	for m := range s.masters {
		s.masters[m].counter = [kKeys]uint8{uint8(random.IntN(4)), uint8(random.IntN(4))}
	}
	return s
}

// Any kinds beside each other: two to four attempts on three and five masters.
func TestKindsAtRandom(t *testing.T) {
	roles := []kRole{kWriter, kWriter.waiting(), kReader, kReader, kBoth, kSecond,
		kSlot(1, 0), kSlot(2, 0), kSlot(2, 1), kSlot(3, 2)}
	random := rand.New(rand.NewPCG(1, 1))
	worked := processorTime()
	const runs = 30000
	for range runs {
		r := &kRun{n: 3 + 2*random.IntN(2), shares: random.IntN(4) == 0}
		for a := range 2 + random.IntN(kAttempts-1) {
			role := roles[random.IntN(len(roles))].with(kMay(random.IntN(16)))
			if role.mode != kExclusive || role.keys != 1 {
				role.may &^= kMayShare
			}
			role.turn = a > 0 && random.IntN(2) == 0
			r.roles = append(r.roles, role)
		}
		if found := r.walk(kStarting(random), "", random.IntN); found != "" {
			t.Fatalf("%+v: %s", r, found)
		}
	}
	t.Logf("%d runs, %v at work", runs, (processorTime() - worked).Round(time.Millisecond))
}
