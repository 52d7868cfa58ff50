package sim

const laneItself = "internal/master/status.go"

// loadMutations break the rules of overload.
var loadMutations = []mutation{
	{name: "an attempt is timed from the arrival of the LOCK", family: "overload", finds: overloaded, edits: []edit{
		{file: "acquire.go", old: "	\"lockproxy/quorum/internal/wire\"\n",
			new: "	\"lockproxy/quorum/internal/clock\"\n	\"lockproxy/quorum/internal/wire\"\n"},
		{file: "acquire.go", old: "	slot     uint16\n",
			new: "	slot     uint16\n	begun    clock.Stopwatch\n"},
		{file: "acquire.go", old: "	a.waits.expire = a.timeOut\n",
			new: "	a.waits.expire, a.begun = a.timeOut, clock.Start()\n"},
		{file: "attempt.go", old: "		clock: clock.Start(),\n", new: "		clock: acq.begun,\n"},
		{file: "attempt.go", old: "	a.limit.expire = a.expire\n",
			new: "	a.limit.expire, a.waits.begun = a.expire, acq.begun.Begun()\n"},
	}},
	{name: "the validity counts from the arrival of the LOCK", test: "TestIntakeTimesOut", edits: []edit{
		{file: "acquire.go", old: "	\"lockproxy/quorum/internal/wire\"\n",
			new: "	\"lockproxy/quorum/internal/clock\"\n	\"lockproxy/quorum/internal/wire\"\n"},
		{file: "acquire.go", old: "	slot     uint16\n",
			new: "	slot     uint16\n	begun    clock.Stopwatch\n"},
		{file: "acquire.go", old: "	a.waits.expire = a.timeOut\n",
			new: "	a.waits.expire, a.begun = a.timeOut, clock.Start()\n"},
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
		{file: "acquire.go", old: "	if a.stage == stageOver {\n		a.mu.Unlock()\n" +
			"		a.q.intake.leave(nil)\n		return\n	}\n",
			new: ""},
		{file: "acquire.go", old: "	return a.q.intake.remove(a, timedOut), true\n",
			new: "	if !timedOut {\n		return 0, true\n	}\n" +
				"	return a.q.intake.remove(a, timedOut), true\n"},
	}},
	{name: "a place is not given back after giving up", test: "TestIntakeGivesUp", edits: []edit{
		{file: "acquire.go", old: "	a.q.leave()\n	a.q.intake.leave(nil)\n	return true\n",
			new: "	a.q.leave()\n	return true\n"},
	}},
}
