package sim

// Files of the room admission.
const (
	admEvaluate   = "internal/admission/evaluate.go"
	admQuarantine = "internal/admission/quarantine.go"
	admCounters   = "internal/admission/counters.go"
	admBootstrap  = "internal/admission/bootstrap.go"
	admGuard      = "internal/admission/guard.go"
	admKnown      = "internal/admission/known.go"
	admRoom       = "./internal/admission"
	second        = "(?:can lock while|is granted while)"
	admClock      = "internal/admission/clock.go"
)

// guardMutations break the restart guard.
var guardMutations = []mutation{
	{name: "guard off", family: "losses", finds: exclusion, edits: []edit{
		{file: "quorum.go", old: "	q := &Quorum{\n", new: "	o.Guard = GuardOff\n	q := &Quorum{\n"},
	}},
	{name: "a record without a mark: a master that restarted is admitted at once", family: "losses", finds: exclusion,
		edits: []edit{
			{file: admEvaluate, old: "	default:\n		e.quarantine(i, m.cause(), record{})\n", new: `	default:
		e.change(i, e.admission(i, e.newAdmission(i)))
`},
		}},
	{name: "scripts do not compare the record", family: "returns", finds: exclusion, edits: []edit{
		{file: luaPacket, old: "ARGV[1] == '' or have[1] == ARGV[1], nil", new: "true, nil"},
	}},
	{name: "an eighth of the quarantine", family: "losses", finds: exclusion, edits: []edit{
		{file: admQuarantine, old: "	return hold(max(e.g.masters[i].rec.wait, e.g.o.MaxTTL))\n",
			new: "	return hold(max(e.g.masters[i].rec.wait, e.g.o.MaxTTL)) / 8\n"},
	}},
	{name: "the count goes on when the mark has changed", finds: exclusion, edits: []edit{
		{file: admGuard, old: "	case m.mark.runID != m.rec.runID || m.mark.admission != m.rec.admission:\n",
			new: "	case m.mark.since.IsZero():\n"},
		{file: admGuard, old: "			m.mark = seenMark{}\n", new: ""},
	}},
	{name: "counters are not raised before a master votes again", finds: order, edits: []edit{
		{file: admCounters, old: "	c.Floor = max(c.Floor, top, g.o.Floor.Top())\n", new: "	c.Floor = 0\n"},
	}},
	{name: "counters of one master are enough", family: "counters", finds: order, edits: []edit{
		{file: admCounters, old: "	if answered < g.majority() {\n", new: "	if answered < 1 {\n"},
	}},
	{name: "waits for counters for ever", finds: blocked, edits: []edit{
		{file: admCounters, old: "		case !m.mark.noMajority:\n",
			new: "		case m.mark.since.Before(e.now):\n"},
	}},
	{name: "what a master says of its disk after a restart is believed", family: "losses", finds: exclusion,
		edits: []edit{
			{file: admEvaluate, old: "		m.o.Durable != r.runID || m.o.Writes == 0 || !m.o.ServerInfo.AOF",
				new: "		!m.o.ServerInfo.AOF"},
		}},
	{name: "steps of a clock are not noticed", family: "steps", finds: exclusion, edits: []edit{
		{file: admClock, old: "	if !c.near(lo, hi, wide) {\n		asleep",
			new: "	if false {\n		asleep"},
	}},
	{name: "clock guard re-bases", family: "fast clocks", finds: exclusion, edits: []edit{
		{file: admClock, old: "lower <= upper {\n		c.lo, c.hi = lower, upper\n	}",
			new: "lower <= upper {\n		c.lo, c.hi = lower, upper\n	} else {\n" +
				"		c.lo, c.hi = lo, hi\n	}"},
	}},
	{name: "the old record is believed", family: "returns", finds: exclusion + "|given out after", edits: []edit{
		{file: admEvaluate, old: "e.intact[j] && g.masters[j].known[i].supersedes(a)", new: "false"},
		{file: admEvaluate, old: "	return g.masters[i].last.supersedes(a)",
			new: "	return false && g.masters[i].last.supersedes(a)"},
		{file: admEvaluate, old: "	case len(at) < g.majority():\n", new: "	case len(at) < 1:\n"},
		{file: admEvaluate, old: "	if last := at[g.majority()-1]; last.Before(own) {\n",
			new: "	if last := at[0]; last.Before(own) {\n"},
	}},
	{name: "other masters do not learn of a mark", room: admRoom, test: "TestStorm", finds: second, edits: []edit{
		{file: admKnown, old: "	if g.o.Mode == Off || !e.intact[i] || m.learning",
			new: "	if true || m.learning"},
		{file: admQuarantine, old: "	case g.o.Mode == Off || m.rec.override || m.mark.few && g.o.Mode == On:\n",
			new: "	case true:\n"},
		{file: admEvaluate, old: "	case hand < g.majority():\n", new: "	case true:\n"},
	}},
	{name: "evictions before this proxy came are forgotten", family: "evictions", finds: exclusion, edits: []edit{
		{file: admGuard, old: "		m.base = evictions{m.rec.admission, m.rec.evicted}\n",
			new: "		m.base = evictions{m.rec.admission, -1}\n"},
		{file: admGuard, old: "		if m.rec.evicted < 0 {\n", new: "		if m.base.n < 0 {\n"},
	}},
	{name: "the floor of this proxy is forgotten", family: "floors", finds: order, edits: []edit{
		{file: admCounters, old: "	c.Floor = max(c.Floor, top, g.o.Floor.Top())\n",
			new: "	c.Floor = max(c.Floor, top)\n"},
		{file: admQuarantine, old: "g.o.Floor.Top() > 0 && !m.mark.floored", new: "false"},
		{file: admBootstrap, old: "max(g.clockFloor(e.now), g.o.Floor.Top())", new: "g.clockFloor(e.now)"},
	}},
	{name: "a clock that is far off counts", room: admRoom, test: "TestClockFarFromTheOthers", finds: "fence",
		edits: []edit{
			{file: admCounters, old: "		if c-median <= maxAhead && median-c <= maxAhead {\n",
				new: "		if c > 0 && median > 0 {\n"},
		}},
	// Two places see to it, and either is enough.
	{name: "a deployment is new although a master does not answer", family: "newcomers", finds: exclusion,
		edits: []edit{
			{file: admBootstrap, old: "		case !m.up || !m.isNew() && !m.blank():\n",
				new: "		case !m.up:\n		case !m.isNew() && !m.blank():\n"},
			{file: admBootstrap, old: "if e.g.masters[i].o.Sent.Before(then) {",
				new: "if e.g.masters[i].up && e.g.masters[i].o.Sent.Before(then) {"},
		}},
	{name: "a master that cannot be written holds up the others",
		family: "first start", finds: blocked, edits: []edit{
			{file: admBootstrap, old: "		until = g.allNew.Add(grace)\n",
				new: "		until = g.allNew.Add(1000 * grace)\n"},
		}},
	// The explored storms find these; the simulation meets them too rarely.
	{name: "a minority confirms", room: admRoom, test: "TestStorm", finds: second, edits: []edit{
		{file: admEvaluate, old: "	case len(at) < g.majority():\n", new: "	case len(at) < 1:\n"},
		{file: admEvaluate, old: "	if last := at[g.majority()-1]; last.Before(own) {\n",
			new: "	if last := at[0]; last.Before(own) {\n"},
		{file: admQuarantine, old: "	return min(len(e.g.masters)-e.g.majority()+1, len(e.g.masters)-1)\n",
			new: "	return 0\n"},
	}},
	{name: "fewer than a majority learn of a mark", room: admRoom, test: "TestStorm", finds: second, edits: []edit{
		{file: admQuarantine, old: "	return min(len(e.g.masters)-e.g.majority()+1, len(e.g.masters)-1)\n",
			new: "	return min(1, len(e.g.masters)-1)\n"},
	}},
	{name: "the wait begins with the mark", room: admRoom, test: "TestStorm", finds: second, edits: []edit{
		{file: admQuarantine, old: "	until = m.mark.learnedAt\n", new: "	until = m.mark.since\n"},
	}},
	{name: "the wait leaves no time for older probes", room: admRoom, test: "TestOlderProbe", finds: second,
		edits: []edit{
			{file: admQuarantine, old: "life/100 + 52*time.Millisecond + MaxAge",
				new: "life/100 + 52*time.Millisecond"},
		}},
	{name: "a refused write excuses for ever, with strict, too", room: admRoom, test: "TestStrictUnwritable",
		finds: "granted while", edits: []edit{
			{file: admQuarantine, old: "		case e.g.o.Mode == On && e.now.Sub(o.refused) < MaxAge:\n",
				new: "		case !o.refused.IsZero():\n"},
		}},
	{name: "the count of packets is not compared with that of others", room: admRoom, test: "TestStorm", finds: second,
		edits: []edit{
			{file: admEvaluate, old: "k.admission == r.admission && m.o.Writes < k.writes {",
				new: "k.admission == r.admission && k.number == 0 {"},
		}},
	{name: "a restarted durable master is believed before the others are asked", room: admRoom,
		test: "TestDurableOlderThanOthersKnow", finds: second, edits: []edit{
			{file: admEvaluate, old: "e.confirmers(i, m.met)", new: "e.confirmers(i, time.Time{})"},
			{file: admEvaluate, old: "case len(unasked) > 0 &&", new: "case len(unasked) < 0 &&"},
		}},
	{name: "a restarted durable master waits for no other than those that confirm", room: admRoom,
		test: "TestOldDisksMetFirst", finds: second, edits: []edit{
			{file: admEvaluate, old: "case len(unasked) > 0 &&", new: "case len(unasked) < 0 &&"},
		}},
	{name: "the wait for the others begins with the first master that is met", room: admRoom,
		test: "TestOldDisksMetFirst", finds: second, edits: []edit{
			{file: admEvaluate, old: "return all, last.Add(MaxAge)", new: "return all, e.g.firstSeen.Add(MaxAge)"},
		}},
	{name: "a connected master counts as asked", room: admRoom, test: "TestOldDisksMetFirst", finds: second,
		edits: []edit{
			{file: admEvaluate, old: "if j != i && m.o.Sent.Before(met)", new: "if j != i && !m.up && m.o.Sent.Before(met)"},
		}},
	{name: "masters without their memory learn, and count", room: admRoom,
		test: "TestStorm|TestTwoAddressesLeadElsewhere", finds: second, edits: []edit{
			{file: admGuard, old: "m.marked() && m.rec.kept && (", new: "m.marked() && ("},
		}},
	{name: "strict admits a majority without memory as on does", room: admRoom, test: "TestStorm", finds: second,
		edits: []edit{
			{file: admQuarantine, old: "m.mark.few && g.o.Mode == On:\n", new: "m.mark.few:\n"},
		}},
	{name: "a proxy that ran on does not contradict a new deployment", room: admRoom,
		test: "TestAllMastersWipedBeforeAnotherStarts", finds: "after", edits: []edit{
			{file: admEvaluate, old: "	case e.readmittedTooSoon(i):\n", new: "	case false:\n"},
		}},
	{name: "all must confirm", room: admRoom, test: "TestStorm", finds: "stops working", edits: []edit{
		{file: admEvaluate, old: "	case len(at) < g.majority():\n", new: "	case len(at) < len(g.masters):\n"},
		{file: admEvaluate, old: "		return time.Time{}, g.majority() - len(at)\n",
			new: "		return time.Time{}, 1\n"},
	}},
}
