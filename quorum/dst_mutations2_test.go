package quorum

// Files of the room admission.
const (
	admEvaluate   = "internal/admission/evaluate.go"
	admQuarantine = "internal/admission/quarantine.go"
	admCounters   = "internal/admission/counters.go"
	admBootstrap  = "internal/admission/bootstrap.go"
	admGuard      = "internal/admission/guard.go"
	admClock      = "internal/admission/clock.go"
)

// guardMutations break the restart guard.
var guardMutations = []mutation{
	{name: "guard off", family: "losses", finds: exclusion, edits: []edit{
		{file: "quorum.go", old: "	q := &Quorum{\n", new: "	o.Guard = GuardOff\n	q := &Quorum{\n"},
	}},
	{name: "a record without a mark: a master that restarted is admitted at once", family: "losses", finds: exclusion, edits: []edit{
		{file: admEvaluate, old: "	default:\n		e.quarantine(i, m.cause(), record{})\n", new: `	default:
		like := parseRecord(e.mark(i, m.cause(), record{}).To)
		e.change(i, g.admit(i, like.admission, e.known()))
`},
	}},
	{name: "scripts do not compare the record", finds: exclusion, lua: "all", edits: []edit{
		{file: fakePacket, old: "admitted := record == \"\" || db.State[\"record\"] == record", new: "admitted := record != \"nothing\""},
	}},
	{name: "an eighth of the quarantine", family: "losses", finds: exclusion, edits: []edit{
		{file: admQuarantine, old: "	until = m.mark.toldAt.Add(wait)\n", new: "	until = m.mark.toldAt.Add(wait / 8)\n"},
		{file: admQuarantine, old: "		return m.mark.since.Add(wait), true\n", new: "		return m.mark.since.Add(wait / 8), true\n"},
	}},
	{name: "the count goes on when the mark has changed", finds: exclusion, edits: []edit{
		{file: admGuard, old: "	case m.mark.runID != m.rec.runID || m.mark.admission != m.rec.admission:\n", new: "	case m.mark.since.IsZero():\n"},
		{file: admGuard, old: "			m.mark = standing{}\n", new: ""},
	}},
	{name: "counters are not raised before a master votes again", finds: order, edits: []edit{
		{file: admCounters, old: "	c.Counters = found.String()\n", new: ""},
	}},
	{name: "counters of one master are enough", family: "counters", finds: order, edits: []edit{
		{file: admCounters, old: "needed := e.g.majority() - len(e.intact())", new: "needed := 1 - len(e.intact())"},
		{file: admCounters, old: "	if intact < g.majority() {\n", new: "	if intact < 1 {\n"},
	}},
	{name: "a master that cannot be reached has still lost its counters", family: "counters", finds: order, edits: []edit{
		{file: admCounters, old: " && !m.mark.since.After(then) && !m.o.Sent.Before(then)", new: ""},
	}},
	{name: "waits for counters for ever", finds: blocked, edits: []edit{
		{file: admCounters, old: "	if needed <= 0 || e.g.masters[i].mark.noMajority {\n", new: "	if needed <= 0 {\n"},
	}},
	{name: "what a master says of its disk after a restart is believed", family: "losses", finds: exclusion, edits: []edit{
		{file: admQuarantine, old: " && m.o.Durable == r.runID", new: ""},
	}},
	{name: "steps of a clock are not noticed", family: "steps", finds: exclusion, edits: []edit{
		{file: admClock, old: "	if !c.near(lo, hi, wide) {\n		asleep", new: "	if false {\n		asleep"},
	}},
	{name: "clock guard re-bases", family: "fast clocks", finds: exclusion, edits: []edit{
		{file: admClock, old: "lower <= upper {\n		c.lo, c.hi = lower, upper\n	}", new: "lower <= upper {\n		c.lo, c.hi = lower, upper\n	} else {\n		c.lo, c.hi = lo, hi\n	}"},
	}},
	{name: "the old record is believed", family: "returns", finds: exclusion + "|given out after", edits: []edit{
		{file: admEvaluate, old: "other.known[i].supersedes(", new: "false && other.known[i].supersedes("},
		{file: admEvaluate, old: "	return v.supersedes(a)", new: "	return false && v.supersedes(a)"},
	}},
	{name: "other masters are not told the number before a master votes", family: "returns", finds: exclusion + "|given out after", edits: []edit{
		{file: admEvaluate, old: "	if g.o.Mode == Off || !m.up || m.telling", new: "	if true || !m.up || m.telling"},
		{file: admQuarantine, old: "	case g.o.Mode == Off || m.rec.override || m.mark.noMajority:\n", new: "	case true:\n"},
		{file: admCounters, old: "a.Ask[k].Conn == m.o.Conn {\n", new: "a.Ask[k].Conn != m.o.Conn {\n"},
	}},
	{name: "evictions before this proxy came are forgotten", family: "evictions", finds: exclusion, edits: []edit{
		{file: admGuard, old: "		m.base = evictions{m.rec.admission, m.rec.evicted}\n", new: "		m.base = evictions{m.rec.admission, -1}\n"},
		{file: admGuard, old: "		if m.rec.evicted < 0 {\n", new: "		if m.base.n < 0 {\n"},
	}},
	{name: "the floors of this proxy are forgotten", family: "floors", finds: order, edits: []edit{
		{file: admCounters, old: "	if top := g.o.Floors.top(); top < maxFloor && g.o.Fencing {\n", new: "	if top := g.o.Floors.top(); false {\n"},
		{file: admCounters, old: "		found[field] = g.o.Floors.At(uint16(field))\n", new: ""},
		{file: admQuarantine, old: "g.o.Floors.top() > 0 && !m.mark.floored", new: "false"},
	}},
	{name: "a clock that is far off counts", family: "far clocks", finds: "far from all clocks|nothing is granted|too high", edits: []edit{
		{file: admCounters, old: "		if c-median <= maxAhead && median-c <= maxAhead {\n", new: "		if c > 0 && median > 0 {\n"},
	}},
	// Two places see to it, and either is enough.
	{name: "a deployment is new although a master does not answer", family: "newcomers", finds: exclusion, edits: []edit{
		{file: admBootstrap, old: "		case !m.up || !m.isNew() && !m.blank():\n", new: "		case !m.up:\n		case !m.isNew() && !m.blank():\n"},
		{file: admBootstrap, old: "if e.g.masters[i].o.Sent.Before(then) {", new: "if e.g.masters[i].up && e.g.masters[i].o.Sent.Before(then) {"},
	}},
	{name: "a master that cannot be written holds up the others", family: "first start", finds: blocked, edits: []edit{
		{file: admBootstrap, old: "		until = g.allNew.Add(grace)\n", new: "		until = g.allNew.Add(1000 * grace)\n"},
	}},
}
