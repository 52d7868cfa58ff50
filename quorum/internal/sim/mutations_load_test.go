package sim

const laneItself = "internal/master/status.go"

// loadMutations break the rules of overload.
var loadMutations = []mutation{
	{name: "an attempt is timed from the arrival of the LOCK", family: "overload", finds: overloaded, edits: []edit{
		{file: "acquire.go", old: "	\"lockproxy/quorum/internal/wire\"\n",
			new: "	\"lockproxy/quorum/internal/clock\"\n	\"lockproxy/quorum/internal/wire\"\n"},
		{file: "acquisition.go", old: "	\"time\"\n)\n",
			new: "	\"time\"\n\n	\"lockproxy/quorum/internal/clock\"\n)\n"},
		{file: "acquisition.go", old: "	more     []string // the other full keys\n",
			new: "	more     []string // the other full keys\n	begun    clock.Stopwatch\n"},
		{file: "acquire.go", old: "	a.enter(false)\n", new: "	a.begun = clock.Start()\n	a.enter(false)\n"},
		{file: "attempt.go", old: "		clock: clock.Start(),\n", new: "		clock: acq.begun,\n"},
		{file: "attempt.go", old: "	a.limit.expire = a.expire\n",
			new: "	a.limit.expire, a.waits.begun = a.expire, acq.begun.Begun()\n"},
	}},
	{name: "the validity counts from the arrival of the LOCK", test: "TestIntakeTimesOut", edits: []edit{
		{file: "acquire.go", old: "	\"lockproxy/quorum/internal/wire\"\n",
			new: "	\"lockproxy/quorum/internal/clock\"\n	\"lockproxy/quorum/internal/wire\"\n"},
		{file: "acquisition.go", old: "	\"time\"\n)\n",
			new: "	\"time\"\n\n	\"lockproxy/quorum/internal/clock\"\n)\n"},
		{file: "acquisition.go", old: "	more     []string // the other full keys\n",
			new: "	more     []string // the other full keys\n	begun    clock.Stopwatch\n"},
		{file: "acquire.go", old: "	a.enter(false)\n", new: "	a.begun = clock.Start()\n	a.enter(false)\n"},
		{file: "attempt.go", old: "		clock: clock.Start(),\n", new: "		clock: acq.begun,\n"},
	}},
	{name: "a queue counts as silence", family: "overload", finds: overloaded, edits: []edit{
		{file: "patience.go", old: "min(max(allowed, 2*longest), p.quiet) - l.Silence()",
			new: "allowed + 0*longest - now.Sub(p.begun)"},
	}},
	{name: "the window does not limit", test: "TestIntakeOrder", edits: []edit{
		{file: "intake.go", old: "	if n.running >= n.window.size {", new: "	if n.running >= 100*maxWindow {"},
	}},
	{name: "the window does not grow", test: "TestWindowConverges", edits: []edit{
		{file: "window.go", old: "max(factor, 0.7), 1.25)", new: "max(factor, 0.7), 1)"},
	}},
	{name: "a pause of the masters counts for every attempt", test: "TestWindowOutlivesHiccup", edits: []edit{
		{file: "window.go", old: "	if begun.Before(w.since) {", new: "	if false {"},
	}},
	{name: "new LOCKs go before holders", test: "TestIntakeHoldersFirst", edits: []edit{
		{file: "intake.go", old: "	if full == 0 || vote < maj", new: "	if full >= 0 || vote < maj"},
	}},
	{name: "a slow lane gets every acquire", family: "overload", finds: overloaded, edits: []edit{
		{file: laneItself, old: "waiting >= s.room && k == wire.Acquire",
			new: "waiting >= maxHolders && k == wire.Acquire"},
	}},
	{name: "a full lane gets the UNLOCK of a LOCK that it did not take", family: "overload", finds: overloaded,
		edits: []edit{
			{file: laneEnds, old: "		if l.queue.n >= l.status.room {\n",
				new: "		if l.queue.n >= maxHolders {\n"},
		}},
	{name: "the intake serves the latest first", family: "overload", finds: overloaded, edits: []edit{
		{file: "intake.go", old: "		a := n.first\n", new: "		a := n.last\n"},
	}},
	{name: "a retry waits behind new LOCKs", test: "TestIntakeRetryGoesFirst", edits: []edit{
		{file: "intake.go", old: "	case front:\n", new: "	case false:\n"},
	}},
	{name: "a LOCK is sent whose client left while it waited", family: "overload", finds: overloaded, edits: []edit{
		{file: "acquisition.go", old: "			return effects{vacate: true}\n", new: "			return a.attemptLocked()\n"},
		{file: "acquisition.go", old: "	case eventWithdraw, eventGiveUp:\n		a.q.intake.remove(a, false)\n",
			new: "	case eventWithdraw, eventGiveUp:\n"},
	}},
	{name: "a place is not given back after giving up", test: "TestIntakeGivesUp", edits: []edit{
		{file: "acquisition.go", old: "	return effects{end: true, vacate: true}\n",
			new: "	return effects{end: true}\n"},
	}},
}
