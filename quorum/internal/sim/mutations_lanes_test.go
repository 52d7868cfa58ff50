package sim

// laneMutations break the lanes.
var laneMutations = []mutation{
	{name: "a release goes out before the SET that it undoes, in one packet", finds: leftovers, edits: []edit{
		{file: wireBatch, old: "		if b.tokens.has(key ^ secret) {\n", new: "		if false {\n"},
	}},
	{name: "a release of one of several keys goes out before the SET of all",
		family: "several keys", finds: leftovers,
		edits: []edit{
			{file: wireBatch, old: "			b.tokens.add(hash(more) ^ secret)\n", new: ""},
		}},
	{name: "results are taken in the order in which the operations came", finds: exclusion, edits: []edit{
		{file: laneAnswer, old: "said = &p.Results[e.place]", new: "said = &p.Results[i]"},
		{file: laneAnswer, old: "= results[e.place]", new: "= results[i]"},
	}},
	{name: "release on a second connection", finds: leftovers, edits: []edit{
		{file: laneEnds, old: "	\"time\"\n\n	\"go.uber.org/zap\"\n",
			new: "	\"context\"\n	\"time\"\n\n	\"go.uber.org/zap\"\n"},
		{file: laneEnds, old: "	return l.repairs.sendRelease(&l.status, &l.queue, op, pending, to)\n}\n",
			new: releaseElsewhere},
	}},
	{name: "the answer to an earlier top-up ends a later one", room: "./internal/master",
		test: "TestAnswerToEarlierSendingEndsNothing", edits: []edit{
			{file: "internal/master/repairs_send.go", old: "pending.serial != e.serial || ", new: ""},
		}},
	{name: "a master grants however old the request is", family: "late grants", finds: order, edits: []edit{
		{file: luaPacket, old: "if age and age > 990 * ARGV[ttls + i] then", new: "if false then"},
	}},
	{name: "a master does not look how old a top-up is", test: "TestTooLate", room: "./internal/wire", edits: []edit{
		{file: luaOthers, old: "name == 'top_up' and age > 1000 * ARGV[at + 6]", new: "false"},
	}},
	{name: "a top-up may be on its way until its lock ends", test: "TestTopUpComesInTime", room: "./internal/master",
		edits: []edit{
			{file: laneRepair, old: "return r.until.Sub(now) - r.lives/40", new: "return r.until.Sub(now)"},
		}},
	{name: "a request is as old as its place in the queue", test: "TestLateBeforeTheWay", room: "./internal/master",
		edits: []edit{
			{file: "internal/master/lane.go", old: "if op.Kind == wire.Acquire && op.Begun == 0 {",
				new: "if op.Kind == wire.Acquire {"},
		}},
	{name: "the clock of a master is known for ever", test: "TestMasterTimeIsNeverLate", room: "./internal/master",
		edits: []edit{
			{file: "internal/master/ahead.go", old: "return a.least - (t-a.at).Abs()/clockRate", new: "return a.least"},
		}},
	{name: "the clock of a master is ahead by the most that is possible", test: "TestMasterTimeIsNeverLate",
		room: "./internal/master", edits: []edit{
			{file: "internal/master/ahead.go", old: "*a = ahead{least: lo,", new: "*a = ahead{least: hi,"},
		}},
	{name: "a broken lane forgets what the master misses", finds: leftovers, edits: []edit{
		{file: laneRepair, old: "			r.state = repairIdle\n", new: "			s.remove(r)\n"},
	}},
	{name: "no barrier: what was written on the lane before may still land", finds: leftovers, edits: []edit{
		{file: laneShake, old: "if s.lastID != 0 && s.lastRun == runID {", new: "if s.lastID < 0 {"},
	}},
	{name: "an acquire sent again after NOSCRIPT", family: "scripts", finds: leftovers, edits: []edit{
		{file: laneAnswer, old: "return again && e.op.Kind != wire.Acquire && e.op.Kind != wire.TopUp",
			new: "return again"},
	}},
	{name: "answers of a master that stopped voting count", family: "steps", finds: exclusion, edits: []edit{
		{file: laneAnswer, old: "	case !l.status.voting:\n		return void\n",
			new: "	case !l.status.voting:\n		return nil\n"},
	}},
	{name: "NOSCRIPT does not clear that the script is loaded", test: "TestScriptFlush", room: "./internal/master",
		edits: []edit{
			{file: laneAnswer, old: "		l.packets.loaded = ok\n", new: "		l.packets.loaded = true\n"},
		}},
	{name: "a forbidden packet fails all of its operations", test: "TestForbiddenKey", room: "./internal/master",
		edits: []edit{
			{file: laneAnswer, old: "again, e.alone = shared, true", new: "again, e.alone = false, true"},
		}},
	{name: "after a forbidden packet operations travel together", test: "TestAloneForAWhile",
		room: "./internal/master", edits: []edit{
			{file: "internal/master/packets.go", old: "first.alone || now < p.alone", new: "first.alone"},
		}},
	{name: "a wake-up is swallowed", finds: blocked + "|took", edits: []edit{
		{file: "internal/master/conn.go", old: "		w.active = false\n", new: ""},
	}},
	{name: "the vote that shows a step counts", family: "steps", finds: exclusion, edits: []edit{
		{file: laneAnswer, old: "	case ok && !p.Admitted || l.server.stepped:\n", new: "	case ok && !p.Admitted:\n"},
	}},
	{name: "an UNLOCK owes also where nothing was sent",
		test: "TestUnlockIsPendingWhereKeyMayBe|TestUnsentLocksLeaveRoom", room: "./internal/master", edits: []edit{
			{file: laneEnds, old: "old != nil && old.unsent {", new: "old != nil && false {"},
		}},
	{name: "what a master misses is dropped oldest first", test: "TestRepairsAreBounded", room: "./internal/master",
		edits: []edit{
			{file: laneRepair, old: "		if !r.ends() || s.topUps.oldest == nil {\n" +
				"			return nil, true\n		}\n		s.remove(s.topUps.oldest)\n",
				new: "		if s.ending.oldest != nil {\n			s.remove(s.ending.oldest)\n" +
					"		} else {\n			s.remove(s.topUps.oldest)\n		}\n"},
		}},
}

// releaseElsewhere dials for every release.
const releaseElsewhere = `	if !l.status.up {
		return l.repairs.sendRelease(&l.status, &l.queue, op, pending, to)
	}
	l.repairs.remove(pending)
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
