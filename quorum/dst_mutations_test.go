package quorum

// mutation is a bug put in on purpose. The simulation, or the test it names, must find it.
type mutation struct {
	name   string
	finds  string // what a fault that shows it says, as a regular expression
	test   string // finds it; empty: TestSimulation
	family string // of runs that it is looked for in; empty: all as they come
	lua    string // the script that is wrong, where the change is made in the fake master's version of it
	edits  []edit
}

// What mutations break.
const (
	exclusion = "holds the lock|has lost its lock|was extended after"
	order     = "given out after|was extended after|holds the lock"
	leftovers = "is left on master"
	tooEarly  = "votes too early"
)

// edit is a change of one file. old stands there exactly once, or times if that is set.
type edit struct {
	file, old, new string
	times          int
}

// mutations are rules of the quorum, each broken.
var mutations = []mutation{
	{name: "quorum of N/2", finds: exclusion, edits: []edit{
		{file: "majority.go", old: "{ return n/2 + 1 }", new: "{ return max(n/2, 1) }"},
	}},
	{name: "validity counted from the reply", finds: exclusion, edits: []edit{
		{file: "acquire.go", old: "left := validity(a.ttl, a.clock.elapsed(), drift(a.ttl))", new: "left := validity(a.ttl, 0, drift(a.ttl))"},
	}},
	{name: "one token for several attempts", family: "tokens", finds: exclusion, edits: []edit{
		{file: "acquire.go", old: "retries, noScript := 0, 0\n", new: "retries, noScript := 0, 0\n\tsecret := q.opts.dice.newSecret()\n"},
		{file: "acquire.go", old: "q.try(ctx, r)\n", new: "q.try(ctx, r, secret)\n"},
		{file: "acquire.go", old: "try(ctx context.Context, r Request)", new: "try(ctx context.Context, r Request, secret string)"},
		{file: "acquire.go", old: "a := q.newAttempt(r)\n", new: "a := q.newAttempt(r)\n\ta.secret = secret\n"},
	}},
	{name: "fence without write-back", finds: order, edits: []edit{
		{file: "acquire.go", old: "exact < majority(len(a.votes))", new: "exact < 0"},
	}},
	{name: "write-back to any majority, without comparing our value", family: "fences", finds: order, lua: "raise", edits: []edit{
		{file: "attempt.go", old: "if v.state == voteGranted {\n\t\t\ta.joinLocked(i)", new: "if v.state != votePending {\n\t\t\ta.joinLocked(i)"},
		{file: "fakescripts_test.go", old: "case opRaise:\n\t\tif !ours {\n\t\t\treturn \":0\\r\\n\"\n\t\t}\n",
			new: "case opRaise:\n\t\tif !ours {\n\t\t\tm.counters[argv[2]] = max(m.counters[argv[2]], number(argv[1]))\n\t\t\treturn \":1\\r\\n\"\n\t\t}\n"},
	}},
	{name: "confirmed by a majority of those who granted", finds: order, edits: []edit{
		{file: "attempt.go", old: "decideRaise(a.confirmed, a.raises+a.tally.pending, len(a.votes))",
			new: "decideRaise(a.confirmed, a.raises+a.tally.pending, a.tally.granted)", times: 3},
	}},
	{name: "an extension that revives", finds: exclusion, lua: "extend", edits: []edit{
		{file: "fakescripts_test.go", old: "case opExtend:\n\t\tif !ours {\n", new: `case opExtend:
		if !stands {
			m.store[key] = fakeValue{argv[0], 0, now.Add(millis(argv[1])), ""}
			return bulk(fmt.Sprintf("%d %d 0000000000000000", now.Unix(), now.Nanosecond()/1000))
		}
		if !ours {
`},
	}},
	{name: "an extension that can shorten", finds: exclusion, lua: "extend", edits: []edit{
		{file: "fakescripts_test.go", old: "if end := now.Add(millis(argv[1])); end.After(v.end) {\n\t\t\tv.end = end\n\t\t\tm.store[key] = v\n\t\t}\n\t\treturn bulk(",
			new: "v.end = now.Add(millis(argv[1]))\n\t\tm.store[key] = v\n\t\treturn bulk("},
	}},
	{name: "an extension held by a majority of those who answered", finds: exclusion, edits: []edit{
		{file: "decide.go", old: "\tcase t.held >= maj:\n\t\treturn won\n\tcase t.held+t.none", new: "\tcase t.held > t.missing && t.pending == 0:\n\t\treturn won\n\tcase t.held+t.none"},
	}},
	{name: "release on a second connection", finds: leftovers, edits: []edit{
		{file: "lane.go", old: "\t\"bufio\"\n", new: "\t\"bufio\"\n\t\"context\"\n"},
		{file: "lane.go", old: "\tstands := l.oweLocked(d, now)\n\treturn l.sendReleaseLocked(stands, to)\n}\n", new: releaseElsewhere},
	}},
	{name: "an early return drops releases of what is pending", finds: leftovers, edits: []edit{
		{file: "attempt_end.go", old: "if v.state == voteUnsent {\n\t\t\tcontinue", new: "if v.state == voteUnsent || v.state == votePending {\n\t\t\tcontinue"},
	}},
	{name: "a broken lane forgets what it owes", finds: leftovers, edits: []edit{
		{file: "owed.go", old: "\t\t\to.mark(d, debtIdle)\n", new: "\t\t\to.remove(d)\n"},
	}},
	{name: "no barrier: what was written on the lane before may still land", finds: leftovers, edits: []edit{
		{file: "handshake.go", old: "if l.lastID != 0 && l.lastRunID == runID {", new: "if l.lastID < 0 {"},
	}},
	{name: "an acquire sent again after NOSCRIPT", finds: leftovers, edits: []edit{
		{file: "lane_io.go", old: "if cmd.op != opAcquire && cmd.op != opTopUp && !cmd.again {", new: "if !cmd.again {"},
	}},
	{name: "late grants are not checked", finds: leftovers, edits: []edit{
		{file: "attempt_end.go", old: "\t\ta.q.late.add(a.debtKey, a.voters, a.clock.start.Add(a.ttl), time.Now())\n", new: "\t\t_ = time.Now\n"},
	}},
	{name: "no drift taken off, with clocks that run fast", finds: exclusion, edits: []edit{
		{file: "validity.go", old: "{ return ttl/100 + 2*time.Millisecond }", new: "{ return 0 }"},
	}},
	{name: "guard off", family: "losses", finds: exclusion, edits: []edit{
		{file: "quorum.go", old: "\tq := &Quorum{\n", new: "\to.Guard = GuardOff\n\tq := &Quorum{\n"},
	}},
	{name: "a record without a mark: a master that restarted is admitted at once", family: "losses", finds: exclusion, edits: []edit{
		{file: "judge.go", old: "\treturn g.quarantine(none, m, m.cause(), false)\n", new: "\treturn g.admitAgain(none, m)\n"},
	}},
	{name: "scripts do not compare the record", finds: exclusion, lua: "acquire, extend", edits: []edit{
		{file: "fakescripts_test.go", old: "want != \"\" && m.state[\"record\"] != want", new: "want == \"nothing\""},
	}},
	{name: "half the quarantine", finds: exclusion, edits: []edit{
		{file: "guard.go", old: "return m.mark.since.Add(wait + margin(wait))", new: "return m.mark.since.Add(wait / 2)"},
	}},
	{name: "the count goes on when the mark has changed", finds: exclusion, edits: []edit{
		{file: "guard.go", old: "if m.mark.runID != m.record.runID || m.mark.nonce != m.record.nonce {", new: "if m.mark.since.IsZero() {"},
		{file: "guard.go", old: "\t} else {\n\t\tm.mark = markSeen{}\n\t}\n", new: "\t}\n"},
	}},
	{name: "counters are not raised before a master votes again", finds: order, edits: []edit{
		{file: "counters.go", old: "\ts.change.counters = found.String()\n", new: ""},
	}},
	{name: "counters of one master are enough", finds: order, edits: []edit{
		{file: "counters.go", old: "\tneed := majority(n)\n", new: "\tneed := min(n, 1)\n"},
	}},
	{name: "counters are read when the quarantine begins", family: "raises", finds: order, edits: []edit{
		{file: "counters.go", old: "found, intact, lost = g.readCounters(ctx)", new: "found, intact, lost = g.early.found, g.early.intact, g.early.lost"},
		{file: "guard.go", old: "type guard struct {\n", new: "type guard struct {\n\tearly earlyCounters\n"},
		{file: "guard.go", old: "\t\tif s.kind == ruledDue {\n", new: "\t\tif n := g.masters[i].mark.nonce; n != \"\" && n != g.early.nonce {\n\t\t\tg.early.nonce, g.early.stale = n, true\n\t\t}\n\t\tif s.kind == ruledDue {\n"},
		{file: "guard.go", old: "\tg.mu.Unlock()\n\tif len(due) > 0 {\n", new: "\tg.mu.Unlock()\n\tif g.early.stale {\n\t\tg.early.found, g.early.intact, g.early.lost = g.readCounters(ctx)\n\t\tg.early.stale = false\n\t}\n\tif len(due) > 0 {\n"},
		{file: "majority.go", old: "func majority(", new: "type earlyCounters struct {\n\tnonce string\n\tstale bool\n\tfound allCounters\n\tintact, lost int\n}\n\nfunc majority("},
	}},
	// Two places see to it, and either is enough: opening wants every master to be connected, and lookedSince wants an answer from each
	// after the last was marked, which a master that was never reached has not given (its view.sent is zero). Only with both
	// gone do the proxies open without it.
	{name: "a deployment is new although a master does not answer", finds: exclusion, edits: []edit{
		{file: "guard.go", old: "\t\tcase !m.up:\n\t\t\treturn false, false, nil, seen\n", new: "\t\tcase !m.up:\n"},
		{file: "guard.go", old: "bool { return m.view.sent.Before(then) }", new: "bool { return m.up && m.view.sent.Before(then) }"},
	}},
	{name: "a new deployment is opened without a sign on each master", test: "TestAdmissionModel", finds: tooEarly, edits: []edit{
		{file: "judge.go", old: "case all && marked && !g.lookedSince(seen):", new: "case false && g.lookedSince(seen):"},
		{file: "judge.go", old: "\tcase all && marked:\n", new: "\tcase all && (marked || !opening):\n"},
	}},
	{name: "no second look at all masters before a new deployment is opened", test: "TestAdmissionModel", finds: tooEarly, edits: []edit{
		{file: "judge.go", old: "case all && marked && !g.lookedSince(seen):", new: "case false && g.lookedSince(seen):"},
	}},
	{name: "any sign of an opening joins one that is over", test: "TestAdmissionModel", finds: tooEarly, edits: []edit{
		{file: "guard.go", old: "slices.Contains(strings.Split(m.view.born, \",\"), nonce)", new: "len(strings.Split(m.view.born, \",\")) > 0 && nonce != \"\""},
	}},
	{name: "a master that is empty is new, whatever the others are", test: "TestAdmissionModel", finds: tooEarly, edits: []edit{
		{file: "judge.go", old: "\tif !g.fresh() {\n\t\treturn g.quarantine(s, m, m.cause(), false)\n", new: "\tif !g.fresh() {\n\t\treturn g.open(s, m, \"\")\n"},
	}},
	{name: "what a master says of its disk after a restart is believed", family: "losses", finds: exclusion, edits: []edit{
		{file: "judge.go", old: " && m.view.durable == r.runID", new: ""},
	}},
	{name: "steps of a clock are not noticed", finds: exclusion, edits: []edit{
		{file: "look.go", old: "if l.offset.stepped(l.facts.runID, sent, received, says) {", new: "if l.offset.stepped(l.facts.runID, sent, received, says) && false {"},
	}},
	{name: "the vote that shows a step counts", family: "steps", finds: exclusion, edits: []edit{
		{file: "lane_io.go", old: "clockOf(r.ints[2], r.ints[3])) {\n\t\t\tr.fail(errStepped)\n", new: "clockOf(r.ints[2], r.ints[3])) {\n"},
	}},
}

// releaseElsewhere dials for every release.
const releaseElsewhere = `	stands := l.oweLocked(d, now)
	if l.conn == nil {
		return l.sendReleaseLocked(stands, to)
	}
	l.owed.remove(stands)
	l.host.(*Quorum).wg.Go(func() { l.releaseElsewhere(d) })
	return errFull
}

func (l *lane) releaseElsewhere(d debt) {
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	conn, err := l.opts.dial(ctx)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(silence))
	_, _ = conn.Write(l.enc.append(nil, &command{op: opRelease, key: d.key, secret: d.secret}, true, ""))
	_, _ = conn.Read(make([]byte, 100))
}
`
