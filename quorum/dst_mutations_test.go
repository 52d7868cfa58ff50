package quorum

import "slices"

// mutation is a bug put in on purpose. The simulation, or the test it names, must find it.
type mutation struct {
	name   string
	finds  string // what a fault that shows it says, as a regular expression
	test   string // finds it; empty: TestSimulation
	room   string // whose test that is; empty: package quorum
	family string // of runs that it is looked for in; empty: all as they come
	lua    string // the operation that is wrong, where the change is made in the fake master's version of it
	edits  []edit
}

// What mutations break.
const (
	exclusion  = "holds the lock|has lost its lock|was extended after"
	order      = "given out after|was extended after|holds the lock"
	leftovers  = "is left on master"
	blamed     = "has lost its lock"
	blocked    = "nothing is granted"
	costly     = "the load on master"
	overloaded = "under load|after the load"
)

// edit is a change of one file. old stands there exactly once, or times if that is set.
type edit struct {
	file, old, new string
	times          int
}

// Files of the rooms.
const (
	fakePacket = "internal/fake/packet.go"
	wireBatch  = "internal/wire/batch.go"
	laneAnswer = "internal/master/answer.go"
	laneShake  = "internal/master/handshake.go"
	laneRepair = "internal/master/repairs.go"
	laneEnds   = "internal/master/release.go"
	laneRun    = "internal/master/run.go"
)

// mutations are rules of the quorum, each broken.
var mutations = slices.Concat(roundMutations, checkMutations, kindMutations, laneMutations, guardMutations, loadMutations)

// roundMutations break the rounds of package quorum.
var roundMutations = []mutation{
	{name: "quorum of N/2", finds: exclusion, edits: []edit{
		{file: "tally.go", old: "{ return n/2 + 1 }", new: "{ return max(n/2, 1) }"},
	}},
	{name: "validity counted from the reply", finds: exclusion, edits: []edit{
		{file: "attempt.go", old: "left := validity(ttl, a.clock.Elapsed(), drift(ttl))", new: "left := validity(ttl, 0, drift(ttl))"},
		{file: "acquire.go", old: "validity(ttl, a.attempt.clock.Elapsed(), drift(ttl))", new: "validity(ttl, 0, drift(ttl))"},
	}},
	{name: "one token for several attempts", family: "tokens", finds: exclusion, edits: []edit{
		{file: "acquire.go", old: "	slot     uint16\n", new: "	slot     uint16\n	secret   string\n"},
		{file: "attempt.go", old: "	a := &attempt{\n", new: "	if acq.secret == \"\" {\n		acq.secret = o.dice.Secret()\n	}\n	a := &attempt{\n"},
		{file: "attempt.go", old: "Secret: o.dice.Secret()}", new: "Secret: acq.secret}"},
	}},
	{name: "fence without write-back", finds: order, edits: []edit{
		{file: "attempt.go", old: "exact < majority(len(a.votes.answers))", new: "exact < 0"},
	}},
	{name: "write-back to any majority, without comparing our value", family: "fences", finds: order, lua: "raise", edits: []edit{
		{file: "attempt.go", old: "case v.state == answerYes || v.state == answerPending && !a.votes.slots: // or it may grant another slot", new: "default:"},
		{file: fakePacket, old: "	v, ours := p.db.ours(o.Key, o.Args[0], p.now)\n	if !ours {\n		return integer(0)\n	}\n	if err := p.ahead(",
			new: "	v, ours := p.db.ours(o.Key, o.Args[0], p.now)\n	if !ours {\n		p.db.raise(o.Args[2], number(o.Args[1]))\n		return integer(1)\n	}\n	if err := p.ahead("},
	}},
	{name: "confirmed by a majority of those who granted", family: "fences", finds: order, edits: []edit{
		{file: "attempt.go", old: "a.raises.begin(decideRaise, len(a.votes.answers))",
			new: "granted := a.votes.tally.yes\n	a.raises.begin(func(t tally) verdict {\n		if t.yes >= majority(granted) {\n			return won\n		}\n		return decideRaise(t)\n	}, len(a.votes.answers))"},
	}},
	{name: "an extension that revives", finds: exclusion, lua: "extend", edits: []edit{
		{file: fakePacket, old: "func (p *packet) extend(o *Op) string {\n", new: `func (p *packet) extend(o *Op) string {
	if _, stands := p.db.get(o.Key, p.now); !stands {
		p.db.Keys[o.Key] = LockValue(o.Args[0], 0, "", p.now.Add(millis(o.Args[1])))
	}
`},
	}},
	{name: "an extension that can shorten", finds: exclusion, lua: "extend", edits: []edit{
		{file: fakePacket, old: "!v.End.IsZero() && end.After(v.End) {", new: "!v.End.IsZero() {"},
	}},
	{name: "an extension held by a majority of those who answered", family: "cut off", finds: exclusion, edits: []edit{
		{file: "tally.go", old: "	case t.yes >= maj:\n		return won\n	case t.yes+t.none+t.pending < maj:",
			new: "	case t.yes > t.no && t.pending == 0:\n		return won\n	case t.yes+t.none+t.pending < maj:"},
	}},
	{name: "a failed attempt does not release what is pending", finds: leftovers, edits: []edit{
		{file: "attempt.go", old: "		if v.state == answerUnsent {\n			continue\n", new: "		if v.state == answerUnsent || v.state == answerPending {\n			continue\n"},
	}},
	{name: "late grants are not checked", finds: leftovers, edits: []edit{
		{file: "attempt.go", old: "a.acq.q.checks.add(lane, t, a.voters, keptUntil(a.clock.Begun(), a.acq.r.TTL))\n", new: "_ = t\n"},
	}},
	{name: "top-ups are not checked", finds: leftovers, edits: []edit{
		{file: "quorum.go", old: "	q.checks.add(lane, t, voters, voted)\n", new: ""},
	}},
	{name: "UNLOCK takes silence for not ours", finds: blamed, edits: []edit{
		{file: "tally.go", old: "	case t.answered() >= maj && t.yes+t.none+t.pending < maj:\n		return lost\n	case t.pending > 0:\n		return open\n",
			new: "	case t.pending > 0:\n		return open\n	case t.yes < maj:\n		return lost\n"},
	}},
	{name: "a check takes silence for lost", family: "unlocks", finds: blamed, edits: []edit{
		{file: "check.go", old: "	return noQuorum\n", new: "	return lost\n"},
	}},
	{name: "a check counts masters that were set late", test: "TestCheckAfterMajorityDeleted", edits: []edit{
		{file: "check.go", old: "	case n-bits.OnesCount64(has&k.voters) < maj:", new: "	case bits.OnesCount64(has) >= maj:"},
	}},
	{name: "a check does not ask again although something landed meanwhile", test: "TestCheckBesideLanding", edits: []edit{
		{file: "check.go", old: " || v == won && k.again", new: ""},
	}},
	{name: "a check that finds nothing out is not repeated", family: "silence", finds: leftovers, edits: []edit{
		{file: "check.go", old: "	if current && (v == noQuorum || v == won && k.again) {", new: "	if false {"},
	}},
	{name: "an UNLOCK is not repeated where a master had not the token", test: "TestReleaseAnswerLost|TestReleaseBeforeTopUp", edits: []edit{
		{file: "release.go", old: "	if t.pending > 0 || t.yes == t.n() {", new: "	if t.pending > 0 || t.yes != t.n() {"},
	}},
	{name: "an UNLOCK is not repeated where a master that was away had not the token", test: "TestReleaseBeforeTopUp", edits: []edit{
		{file: "release.go", old: "			behind |= 1 << i\n", new: ""},
	}},
	{name: "an UNLOCK is not repeated where its answer is on its way", test: "TestReleaseBeforeTopUpOnItsWay", edits: []edit{
		{file: laneEnds, old: "	return r.state == repairSent, true\n", new: "	return false, true\n"},
	}},
	{name: "a release whose answer was lost did nothing", test: "TestReleaseAnswerLost", edits: []edit{
		{file: laneRepair, old: "			r.maybe = true\n", new: ""},
	}},
	{name: "a late release is not repeated where a master had not the token", test: "TestReleaseAnswerLost", edits: []edit{
		{file: "quorum.go", old: "{ q.releaseAt(t, missing) }", new: "{}"},
	}},
	{name: "what is left of a lost lock is deleted at once", family: "unlocks", finds: blamed, edits: []edit{
		{file: "release.go", old: "	op := wire.Op{Kind: wire.Fade, TokenAt: t, TTL: fadeTime}\n", new: "	op := wire.Op{Kind: wire.Release, TokenAt: t}\n"},
	}},
	{name: "no drift taken off, with clocks that run fast", finds: exclusion, edits: []edit{
		{file: "validity.go", old: "{ return ttl/100 + 2*time.Millisecond }", new: "{ return 0 }"},
	}},
	{name: "a caller that has left is not released", family: "none", finds: leftovers, edits: []edit{
		{file: "acquire.go", old: "	attempt.failLocked()\n", new: ""},
	}},
}

// laneMutations break the lanes.
var laneMutations = []mutation{
	{name: "a release goes out before the SET that it undoes, in one packet", finds: leftovers, edits: []edit{
		{file: wireBatch, old: "		if b.tokens.has(key ^ secret) {\n", new: "		if false {\n"},
	}},
	{name: "a release of one of several keys goes out before the SET of all", family: "several keys", finds: leftovers, edits: []edit{
		{file: wireBatch, old: "			b.tokens.add(hash(more) ^ secret)\n", new: ""},
	}},
	{name: "results are taken in the order in which the operations came", finds: exclusion, edits: []edit{
		{file: laneAnswer, old: "said = &p.Results[e.place]", new: "said = &p.Results[i]"},
		{file: laneAnswer, old: "= results[e.place]", new: "= results[i]"},
	}},
	{name: "release on a second connection", finds: leftovers, edits: []edit{
		{file: laneEnds, old: "	\"time\"\n\n	\"go.uber.org/zap\"\n", new: "	\"context\"\n	\"time\"\n\n	\"go.uber.org/zap\"\n"},
		{file: laneEnds, old: "	return l.sendReleaseLocked(op, stands, to)\n}\n", new: releaseElsewhere},
	}},
	{name: "a broken lane forgets what the master misses", finds: leftovers, edits: []edit{
		{file: laneRepair, old: "			r.state = repairIdle\n", new: "			s.remove(r)\n"},
	}},
	{name: "no barrier: what was written on the lane before may still land", finds: leftovers, edits: []edit{
		{file: laneShake, old: "if l.lastID != 0 && l.lastRun == runID {", new: "if l.lastID < 0 {"},
	}},
	{name: "an acquire sent again after NOSCRIPT", family: "scripts", finds: leftovers, edits: []edit{
		{file: laneAnswer, old: "return again && e.op.Kind != wire.Acquire && e.op.Kind != wire.TopUp", new: "return again"},
	}},
	{name: "answers of a master that stopped voting count", family: "steps", finds: exclusion, edits: []edit{
		{file: laneAnswer, old: "	case !l.votes:\n		return void\n", new: "	case !l.votes:\n		return nil\n"},
	}},
	{name: "NOSCRIPT does not clear that the script is loaded", test: "TestScriptFlush", room: "./internal/master", edits: []edit{
		{file: laneAnswer, old: "		l.loaded = ok\n", new: "		l.loaded = true\n"},
	}},
	{name: "a forbidden packet fails all of its operations", test: "TestForbiddenKey", room: "./internal/master", edits: []edit{
		{file: laneAnswer, old: "again, e.alone = shared, true", new: "again, e.alone = false, true"},
	}},
	{name: "after a forbidden packet operations travel together", test: "TestAloneForAWhile", room: "./internal/master", edits: []edit{
		{file: "internal/master/queue.go", old: "first.alone || now < l.alone", new: "first.alone"},
	}},
	{name: "a wake-up is swallowed", finds: blocked + "|took", edits: []edit{
		{file: "internal/master/conn.go", old: "		c.writing = false\n", new: ""},
	}},
	{name: "the vote that shows a step counts", family: "steps", finds: exclusion, edits: []edit{
		{file: laneAnswer, old: "	case ok && !p.Admitted || l.stepped:\n", new: "	case ok && !p.Admitted:\n"},
	}},
	{name: "an UNLOCK owes also where nothing was sent", test: "TestUnlockOwesWhereTheKeyMayStand|TestUnsentLocksLeaveRoom", room: "./internal/master", edits: []edit{
		{file: laneEnds, old: "old != nil && old.unsent {", new: "old != nil && false {"},
	}},
	{name: "what a master misses is dropped oldest first", test: "TestRepairs", room: "./internal/master", edits: []edit{
		{file: laneRepair, old: "		if !r.ends() || s.topUps.oldest == nil {\n			return nil, true\n		}\n		s.remove(s.topUps.oldest)\n",
			new: "		if s.ending.oldest != nil {\n			s.remove(s.ending.oldest)\n		} else {\n			s.remove(s.topUps.oldest)\n		}\n"},
	}},
}

// releaseElsewhere dials for every release.
const releaseElsewhere = `	if !l.up {
		return l.sendReleaseLocked(op, stands, to)
	}
	l.repairs.remove(stands)
	go l.releaseElsewhere(op)
	return ErrFull
}

func (l *Lane) releaseElsewhere(op wire.Op) {
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	conn, err := l.cfg.Options.Connect(ctx)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(silence))
	var batch wire.Batch
	batch.Add(&op)
	_, _ = conn.Write(l.cfg.Encoder.AppendPacket(nil, &batch, "", true))
	_, _ = conn.Read(make([]byte, 100))
}
`
