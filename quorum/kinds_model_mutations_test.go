package quorum

import (
	"math/rand/v2"
	"testing"
	"time"
)

// kMutations are the kinds without one of their rules.
var kMutations = []kCase{
	{name: "counters instead of slots", broken: kBroken{counters: true}, looked: kMore,
		roles: []kRole{kSlot(2, 0), kSlot(2, 0), kSlot(2, 0)}},
	{name: "grants of any slot count", broken: kBroken{anySlot: true}, looked: kBeside,
		roles: []kRole{kSlot(2, 0), kSlot(2, 1)}},
	{name: "KEEP finds any slot", broken: kBroken{foundAnySlot: true}, looked: kBeside,
		timed: true, roles: []kRole{
			kSlot(2, 0).with(kMayKeep | kMayElsewhere), kSlot(2, 0), kSlot(2, 0).after(),
			kSlot(2, 0)}},
	{name: "a slot's raise is blind", broken: kBroken{blind: true}, looked: kRises,
		roles: []kRole{kSlot(1, 0), kSlot(1, 0)}},
	{name: "readers never increment", broken: kBroken{neverCounts: true}, looked: kRises,
		roles: []kRole{kWriter, kReader.after()}},
	{name: "readers always increment", broken: kBroken{alwaysCounts: true},
		roles: []kRole{kReader, kWriter.after(), kReader.after()}},
	{name: "a reader's raise is blind", broken: kBroken{blind: true}, looked: kRises,
		roles: []kRole{kReader, kReader, kWriter}},
	{name: "a reader's raise by those who granted", broken: kBroken{ofGranted: true},
		looked: kRises, five: true, roles: []kRole{kReader, kWriter}},
	{name: "the first reader's fill does not increment", broken: kBroken{fillsQuietly: true},
		looked: kRises, extends: 1, roles: []kRole{
			kReader.with(kMayExtend | kMayElsewhere), kWriter.after(), kReader.after()}},
	{name: "expiry stays when a reader leaves", broken: kBroken{expiryStays: true},
		looked: kLingers, timed: true, roles: []kRole{kReader, kReader}},
	{name: "a master forgets its counters", broken: kBroken{forgets: true}, looked: kRises,
		timed: true, losses: 1, roles: []kRole{kReader, kWriter, kReader.after()}},
	{name: "an intent is a vote", broken: kBroken{intentVotes: true}, looked: kBeside,
		roles: []kRole{kReader, kWriter.waiting()}},
	{name: "keys one by one: stuck", broken: kBroken{keyByKey: true}, looked: kDeadlock,
		roles: []kRole{kBoth, kBoth.backwards()}},
	{name: "keys one by one: a part", broken: kBroken{keyByKey: true}, looked: kPart,
		roles: []kRole{kBoth, kSecond}},
	{name: "keys one by one: fences", broken: kBroken{keyByKey: true}, looked: kRises,
		roles: []kRole{kBoth, kWriter.after()}},
	{name: "each key's own next number", broken: kBroken{unleveled: true}, looked: kRises,
		roles: []kRole{kBoth, kWriter.after()}},
	{name: "the first key's counter is raised", broken: kBroken{raiseFirst: true},
		looked: kRises, roles: []kRole{kBoth, kSecond.after()}},
	{name: "the raise of keys is blind", broken: kBroken{blind: true}, looked: kRises,
		roles: []kRole{kBoth, kBoth}},
	{name: "change to shared, counter as it was", broken: kBroken{sharesQuietly: true},
		looked: kRises, roles: []kRole{kWriter.with(kMayShare), kReader}},
	{name: "exclusive until the change is confirmed", broken: kBroken{sharesLate: true},
		looked: kBeside, roles: []kRole{kWriter.with(kMayShare), kReader}},
	{name: "token lives after KEEP", broken: kBroken{tokenLives: true}, looked: kUndead, extends: 1,
		roles: []kRole{kWriter.with(kMayKeep | kMayExtend)}},
	{name: "token of a slot lives after KEEP", broken: kBroken{tokenLives: true},
		looked: kUndead, extends: 1, roles: []kRole{kSlot(2, 0).with(kMayKeep | kMayExtend)}},
}

// Without one of the rules something goes wrong, and with all of them nothing does in the same
// cases.
func TestKindsMutations(t *testing.T) {
	for _, c := range kMutations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			worked, most := processorTime(), 500000
			if c.looked == "" {
				most = 5000
			}
			walks, found := c.walks(c.broken, most)
			took := (processorTime() - worked).Round(time.Millisecond)
			t.Logf("%d runs, %v at work: %s", walks, took, found)
			if (found != "") != (c.looked != "") {
				t.Errorf("found %q, want %q", found, c.looked)
			}
			c.looked = ""
			if _, found := c.walks(kBroken{}, 2000); found != "" {
				t.Errorf("with all rules: %s", found)
			}
		})
	}
}

// walks takes random runs until something is found.
func (c *kCase) walks(broken kBroken, most int) (walks int, found string) {
	r := &kRun{n: 3, kBroken: broken, roles: c.roles, timeless: !c.timed}
	if c.five {
		r.n = 5
	}
	random := rand.New(rand.NewPCG(1, 1))
	for ; walks < most && found == ""; walks++ {
		s := kStarting(random)
		s.extends, s.losses = c.extends, c.losses
		found = r.walk(s, c.looked, random.IntN)
	}
	return walks, found
}
