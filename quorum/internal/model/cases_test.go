package model

// Roles of attempts, and the cases for exhaustive searches.

var (
	writer = role{mode: exclusive, keys: 1}
	reader = role{mode: shared, keys: 1}
	both   = role{mode: exclusive, keys: 3}
	second = role{mode: exclusive, keys: 2}
)

func slotOf(limit, first uint8) role {
	return role{mode: limited, keys: 1, limit: limit, first: first}
}

func (r role) with(may may) role { r.may = may; return r }
func (r role) waiting() role     { r.waits = true; return r }
func (r role) backwards() role   { r.back = true; return r }
func (r role) elsewhere() role   { r.proxy = 1; return r }
func (r role) after() role       { r.turn = true; return r } // the previous one
func (r role) behind() role      { r.onLane = true; return r.after() }

// situation describes a case: attempts, and the fault to find. If finds is empty the search must
// find no fault at all.
type situation struct {
	name   string
	roles  []role
	broken broken
	finds  string
	starts [][]uint8 // initial counters of the masters; nil: all 0
	shares bool      // the keys share one counter
	five   bool      // five masters instead of three
	timed  bool
	long   bool // searched only if MODEL_ALL is set
	events
}

func (c *situation) run(b broken) *run {
	r := &run{n: 3, proxies: 1, broken: b, roles: c.roles, shares: c.shares, timeless: !c.timed}
	if c.five {
		r.n = 5
	}
	for _, role := range c.roles {
		if role.proxy > 0 || role.may&mayElsewhere != 0 {
			r.proxies = maxProxies
		}
	}
	return r
}

// Initial counters of the masters.
var (
	apart = [][]uint8{{0, 0, 0}, {0, 0, 2}, {0, 2, 2}}
	wide  = [][]uint8{{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {0, 0, 3}, {0, 1, 1}, {0, 1, 3}, {0, 2, 2}, {0, 2, 3}, {0, 3, 3}}
	ahead = [][]uint8{{0, 0, 0}, {0, 0, 2}, {0, 2, 2}, {2, 2, 2}} // a master that returns starts at 0
)

var (
	two     = []role{writer, writer}
	three   = []role{writer, writer, writer}
	inTurn  = []role{writer, writer.after()}
	inTurns = []role{writer, writer.after(), writer.after()}
	oneEach = []role{writer, writer.elsewhere()}                  // through two proxies
	onLane  = []role{writer, writer.behind(), writer.elsewhere()} // and a second one on the first lane

	extension = events{extends: 1}
	loss      = events{losses: 1}
	twoLosses = events{losses: 2}
	repeat    = events{repeats: 1}
)

// explored lists the cases by subject. In each case any message may be lost. Without time, only
// releases end locks.
var explored = []struct {
	subject string
	cases   []situation
}{
	{"exclusion", []situation{
		{name: "one loses its memory", broken: broken{unfenced: true}, timed: true, roles: oneEach, events: loss},
		{name: "memory is lost twice", broken: broken{unfenced: true}, timed: true, roles: oneEach, events: twoLosses},
		{name: "a release comes twice", broken: broken{unfenced: true}, timed: true, roles: onLane, events: repeat},
		{name: "with fences", timed: true, roles: oneEach, events: loss},
		{name: "scripts do not compare the record", broken: broken{unfenced: true, uncompared: true},
			finds: beside, timed: true, roles: oneEach, events: loss},
		{name: "record without mark", broken: broken{unfenced: true, unmarked: true},
			finds: beside, timed: true, roles: oneEach, events: loss},
		{name: "a mark stands too short", broken: broken{unfenced: true, hasty: true},
			finds: beside, timed: true, roles: oneEach, events: loss},
		{name: "another mark does not begin the wait anew", broken: broken{unfenced: true, countsOn: true},
			finds: beside, timed: true, roles: oneEach, events: twoLosses, long: true},
		{name: "one token for two attempts", broken: broken{unfenced: true, oneToken: true},
			finds: beside, timed: true, roles: onLane, events: repeat},
	}},
	{"fences", []situation{
		{name: "writers", roles: two, starts: apart},
		{name: "three writers", roles: three},
		{name: "a fill", roles: []role{writer.with(mayExtend), writer.with(mayExtend)}, starts: wide,
			events: extension},
		{name: "a master rejoins", timed: true, roles: two, starts: ahead, events: loss},
		{name: "a fill, and a master rejoins", timed: true, roles: []role{writer.with(mayExtend), writer},
			events: events{extends: 1, losses: 1}},
		{name: "not written back", broken: broken{unraised: true}, finds: falls, roles: two, starts: wide},
		{name: "not written back, three writers", broken: broken{unraised: true}, finds: falls, roles: three},
		{name: "written back to any majority", broken: broken{blind: true}, finds: falls, roles: two, starts: wide},
		{name: "written back to any majority, three writers", broken: broken{blind: true}, finds: falls, roles: three},
		{name: "rejoins with its counters lost", broken: broken{forgets: true}, finds: falls,
			timed: true, roles: two, events: loss},
		{name: "counters read before the quarantine is over", broken: broken{early: true}, finds: falls,
			timed: true, roles: two, events: loss},
	}},
	{"age", []situation{
		{name: "of a grant", timed: true, roles: []role{writer.with(mayExtend), writer}, events: extension},
		{name: "of a grant, extended elsewhere", timed: true,
			roles: []role{writer.with(mayExtend | mayElsewhere), writer}, events: extension},
		{name: "of a reader", timed: true, roles: []role{reader.with(mayExtend), writer}, events: extension},
		{name: "of a slot", timed: true, roles: []role{slotOf(1, 0).with(mayExtend), slotOf(1, 0)}, events: extension},
		{name: "of two keys", timed: true, roles: []role{both.with(mayExtend), writer}, events: extension},
		{name: "of a fill", timed: true, roles: []role{writer.with(mayExtend), writer}, events: events{extends: 2}},
		{name: "not seen", broken: broken{grantsLate: true}, finds: revived, timed: true,
			roles: []role{writer.with(mayExtend), writer}, events: extension},
		{name: "of a reader, not seen", broken: broken{grantsLate: true}, finds: revived, timed: true,
			roles: []role{reader.with(mayExtend), writer}, events: extension},
		{name: "of a slot, not seen", broken: broken{grantsLate: true}, finds: revived, timed: true,
			roles: []role{slotOf(1, 0).with(mayExtend), slotOf(1, 0)}, events: extension},
		{name: "of two keys, not seen", broken: broken{grantsLate: true}, finds: revived, timed: true,
			roles: []role{both.with(mayExtend), writer}, events: extension},
		{name: "of a fill, not seen", broken: broken{fillsLate: true}, finds: revived, timed: true,
			roles: []role{writer.with(mayExtend), writer}, events: events{extends: 2}},
	}},
	{"shared", []situation{
		{name: "reader and writer", roles: []role{reader, writer.waiting()}, starts: apart},
		{name: "readers", roles: []role{reader, reader}, starts: apart},
		{name: "change to shared and a reader", roles: []role{writer.with(mayShare), reader}, starts: apart},
		{name: "change to shared and a writer", roles: []role{writer.with(mayShare), writer}, starts: apart},
		{name: "reader and writer, expiring", roles: []role{reader, writer}, timed: true},
		{name: "readers, expiring", roles: []role{reader, reader}, timed: true},
	}},
	{"limited", []situation{
		{name: "same slots", roles: []role{slotOf(2, 0), slotOf(2, 0)}, starts: apart},
		{name: "other limits", roles: []role{slotOf(1, 0), slotOf(2, 1)}, starts: apart},
		{name: "a slot and a reader", roles: []role{slotOf(2, 0), reader}, starts: apart},
		{name: "one slot, expiring", roles: []role{slotOf(1, 0), slotOf(1, 0)}, timed: true},
	}},
	{"keys", []situation{
		{name: "two each", roles: []role{both, both}, starts: apart},
		{name: "two and one", roles: []role{both, second}, starts: apart},
		{name: "two of one counter", roles: []role{both, second}, shares: true, starts: apart},
		{name: "two and one, expiring", roles: []role{both, second}, timed: true},
	}},
	{"kept", []situation{
		{name: "beside a writer", roles: []role{writer.with(mayKeep | mayExtend), writer}, starts: apart,
			events: extension},
		{name: "expiring", roles: []role{writer.with(mayKeep), writer.after()}, timed: true},
		{name: "for longer than the quarantine", broken: broken{keptLong: true}, finds: beside,
			timed: true, roles: []role{writer.with(mayKeep), writer.after()}, events: loss},
	}},
}
