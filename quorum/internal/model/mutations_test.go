package model

import (
	"math/rand/v2"
	"testing"
)

// mutations lists models without one of the rules, for random runs.
var mutations = []situation{
	{name: "not written back, two writers", broken: broken{unraised: true}, finds: falls, five: true,
		roles: two},
	{name: "not written back, three writers", broken: broken{unraised: true}, finds: falls, five: true,
		roles: three},
	{name: "written back to any majority, two writers", broken: broken{blind: true}, finds: falls, five: true,
		roles: two},
	{name: "written back to any majority, three writers", broken: broken{blind: true}, finds: falls, five: true,
		roles: three},
	{name: "confirmed by those who granted, two writers", broken: broken{ofGranted: true}, finds: falls, five: true,
		roles: two},
	{name: "confirmed by those who granted, three writers", broken: broken{ofGranted: true}, finds: falls, five: true,
		roles: three},
	{name: "rejoins with its counters lost, two writers", broken: broken{forgets: true}, finds: falls, five: true,
		timed: true, roles: inTurn, events: events{losses: 1, drops: all}},
	{name: "rejoins with its counters lost, three writers", broken: broken{forgets: true}, finds: falls, five: true,
		timed: true, roles: inTurns, events: events{losses: 1, drops: all}},
	{name: "counters read early, two writers", broken: broken{early: true}, finds: falls, five: true,
		timed: true, roles: inTurn, events: events{losses: 1, drops: all}},
	{name: "counters read early, three writers", broken: broken{early: true}, finds: falls, five: true,
		timed: true, roles: inTurns, events: events{losses: 1, drops: all}},

	{name: "counters instead of slots", broken: broken{counters: true}, finds: tooMany,
		roles: []role{slotOf(2, 0), slotOf(2, 0), slotOf(2, 0)}},
	{name: "grants of any slot count", broken: broken{anySlot: true}, finds: beside,
		roles: []role{slotOf(2, 0), slotOf(2, 1)}},
	{name: "KEEP finds any slot", broken: broken{foundAnySlot: true}, finds: beside, timed: true,
		roles: []role{slotOf(2, 0).with(mayKeep | mayElsewhere), slotOf(2, 0), slotOf(2, 0).after(), slotOf(2, 0)}},
	{name: "a slot's raise is blind", broken: broken{blind: true}, finds: falls,
		roles: []role{slotOf(1, 0), slotOf(1, 0)}},

	{name: "readers never increment", broken: broken{neverCounts: true}, finds: falls,
		roles: []role{writer, reader.after()}},
	{name: "readers always increment", broken: broken{alwaysCounts: true},
		roles: []role{reader, writer.after(), reader.after()}},
	{name: "a reader's raise is blind", broken: broken{blind: true}, finds: falls,
		roles: []role{reader, reader, writer}},
	{name: "a reader's raise by those who granted", broken: broken{ofGranted: true}, finds: falls, five: true,
		roles: []role{reader, writer}},
	{name: "the first reader's fill does not increment", broken: broken{fillsQuietly: true}, finds: falls,
		roles: []role{reader.with(mayExtend | mayElsewhere), writer.after(), reader.after()}, events: extension},
	{name: "expiry stays when a reader leaves", broken: broken{expiryStays: true}, finds: lingers, timed: true,
		roles: []role{reader, reader}},
	{name: "a master forgets its counters", broken: broken{forgets: true}, finds: falls, timed: true,
		roles: []role{reader, writer, reader.after()}, events: loss},
	{name: "an intent is a vote", broken: broken{intentVotes: true}, finds: beside,
		roles: []role{reader, writer.waiting()}},
	{name: "change to shared, counter as it was", broken: broken{sharesQuietly: true}, finds: falls,
		roles: []role{writer.with(mayShare), reader}},
	{name: "exclusive until the change is confirmed", broken: broken{sharesLate: true}, finds: beside,
		roles: []role{writer.with(mayShare), reader}},

	{name: "keys one by one: stuck", broken: broken{keyByKey: true}, finds: deadlock,
		roles: []role{both, both.backwards()}},
	{name: "keys one by one: a part", broken: broken{keyByKey: true}, finds: partly, roles: []role{both, second}},
	{name: "keys one by one: fences", broken: broken{keyByKey: true}, finds: falls,
		roles: []role{both, writer.after()}},
	{name: "each key's own next number", broken: broken{unleveled: true}, finds: falls,
		roles: []role{both, writer.after()}},
	{name: "the first key's counter is raised", broken: broken{raiseFirst: true}, finds: falls,
		roles: []role{both, second.after()}},
	{name: "the raise of keys is blind", broken: broken{blind: true}, finds: falls, roles: []role{both, both}},

	{name: "token lives after KEEP", broken: broken{tokenLives: true}, finds: undead,
		roles: []role{writer.with(mayKeep | mayExtend)}, events: extension},
	{name: "token of a slot lives after KEEP", broken: broken{tokenLives: true}, finds: undead,
		roles: []role{slotOf(2, 0).with(mayKeep | mayExtend)}, events: extension},
}

// TestMutations takes random runs without a rule until they show the fault. With all rules the
// same cases show no fault.
func TestMutations(t *testing.T) {
	for _, c := range mutations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			most := 200000
			if c.finds == "" {
				most = 5000
			}
			walks, found := c.walks(c.broken, most)
			t.Logf("%d runs: %s", walks, found)
			if (found != "") != (c.finds != "") {
				t.Errorf("found %q, want %q", found, c.finds)
			}
			c.finds = ""
			if _, found := c.walks(broken{}, 2000); found != "" {
				t.Errorf("with all rules: %s", found)
			}
		})
	}
}

// walks takes random runs until one shows a fault.
func (c *situation) walks(b broken, most int) (walks int, found string) {
	r := c.run(b)
	random := rand.New(rand.NewPCG(1, 1))
	for ; walks < most && found == ""; walks++ {
		s := anyStart(random)
		s.extends, s.losses, s.drops = c.extends, c.losses, max(s.drops, c.drops)
		found = r.walk(s, c.finds, random.IntN)
	}
	return walks, found
}

// anyStart returns a state with random counters. It may allow the loss of a message.
func anyStart(random *rand.Rand) (s state) {
	s.drops = uint8(random.IntN(2))
	for m := range s.masters {
		s.masters[m].counter = [maxKeys]uint8{uint8(random.IntN(4)), uint8(random.IntN(4))}
	}
	return s
}

// TestAtRandom mixes all kinds: two to four attempts on three or five masters.
func TestAtRandom(t *testing.T) {
	roles := []role{writer, writer.waiting(), reader, reader, both, second,
		slotOf(1, 0), slotOf(2, 0), slotOf(2, 1), slotOf(3, 2)}
	random := rand.New(rand.NewPCG(1, 1))
	for range 30000 {
		c := situation{shares: random.IntN(4) == 0, five: random.IntN(2) == 0, timed: true}
		for a := range 2 + random.IntN(maxAttempts-1) {
			role := roles[random.IntN(len(roles))].with(may(random.IntN(16)))
			if role.mode != exclusive || role.keys != 1 {
				role.may &^= mayShare
			}
			role.turn, role.proxy = a > 0 && random.IntN(2) == 0, uint8(random.IntN(maxProxies))
			c.roles = append(c.roles, role)
		}
		r := c.run(broken{unfenced: random.IntN(8) == 0})
		s := anyStart(random)
		s.extends, s.losses, s.repeats = 2, uint8(random.IntN(3)), uint8(random.IntN(2))
		if found := r.walk(s, "", random.IntN); found != "" {
			t.Fatalf("%+v: %s", r, found)
		}
	}
}
