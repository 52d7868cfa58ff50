package sim

// roundMutations break the rounds of package quorum.
var roundMutations = []mutation{
	{name: "quorum of N/2", finds: exclusion, edits: []edit{
		{file: "tally.go", old: "{ return n/2 + 1 }", new: "{ return max(n/2, 1) }"},
	}},
	{name: "validity counted from the reply", finds: exclusion, edits: []edit{
		{file: "acquisition.go", old: "left := validity(ttl, t.clock.Elapsed(), drift(ttl))",
			new: "left := validity(ttl, 0, drift(ttl))"},
		{file: "acquire.go", old: "validity(ttl, a.attempt.clock.Elapsed(), drift(ttl))",
			new: "validity(ttl, 0, drift(ttl))"},
	}},
	{name: "one token for several attempts", family: "tokens", finds: exclusion, edits: []edit{
		{file: "acquisition.go", old: "	more     []string // the other full keys\n",
			new: "	more     []string // the other full keys\n	secret   string\n"},
		{file: "attempt.go", old: "	a := &attempt{\n",
			new: "	if acq.secret == \"\" {\n		acq.secret = o.Dice.Secret()\n	}\n	a := &attempt{\n"},
		{file: "attempt.go", old: "Secret: o.Dice.Secret()}", new: "Secret: acq.secret}"},
	}},
	{name: "fence without write-back", finds: order, edits: []edit{
		{file: "attempt.go", old: "exact >= majority(len(a.votes.answers))", new: "exact >= 0"},
	}},
	{name: "write-back to any majority, without comparing our value", family: "fences", finds: order,
		edits: []edit{
			{file: "attempt.go", old: "case v.state == answerYes || v.state == answerPending && " +
				"!a.votes.slots:",
				new: "default:"},
			{file: luaOthers, old: "        if not held then\n          return done\n" +
				"        elseif type(counters[field]) == 'table' then\n          return counters[field]\n" +
				"        elseif held == true then\n          done = pcall('SETRANGE'",
				new: "        if not held then\n          if type(counters[field]) == 'number' then\n" +
					"            t.count(field, tonumber(fence))\n          end\n" +
					"          return done == 0 and 1 or done\n" +
					"        elseif type(counters[field]) == 'table' then\n          return counters[field]\n" +
					"        elseif held == true then\n          done = pcall('SETRANGE'"},
		}},
	{name: "confirmed by a majority of those who granted", family: "fences", finds: order, edits: []edit{
		{file: "attempt.go", old: "a.raises.begin(decideRaise, len(a.votes.answers))",
			new: "granted := a.votes.tally.yes\n	a.raises.begin(func(t tally) verdict {\n" +
				"		if t.yes >= majority(granted) {\n			return won\n		}\n" +
				"		return decideRaise(t)\n	}, len(a.votes.answers))"},
	}},
	{name: "an extension that revives", family: "cut off", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "      return held and t.lengthen(key, secret, ARGV[at + 1], held) or result\n",
			new: `      if not held and result == 0 then
        pcall('SET', key, secret .. '0000000000000000', 'NX', 'PX', ARGV[at + 1])
        held = pcall('GETRANGE', key, '0', '39') == secret
      end
      return held and t.lengthen(key, secret, ARGV[at + 1], held) or result
`},
	}},
	{name: "an extension that can shorten", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "if type(done) == 'number' and done < tonumber(ttl) then",
			new: "if type(done) == 'number' then"},
	}},
	{name: "an extension held by a majority of those who answered",
		family: "cut off", finds: exclusion, edits: []edit{
			{file: "tally.go", old: "	case t.yes >= maj:\n		return won\n	case t.yes+t.none+t.pending < maj:",
				new: "	case t.yes > t.no && t.pending == 0:\n		return won\n" +
					"	case t.yes+t.none+t.pending < maj:"},
		}},
	{name: "a failed attempt does not release what is pending", finds: leftovers, edits: []edit{
		{file: "attempt.go", old: "		if v.state == answerUnsent {\n			continue\n",
			new: "		if v.state == answerUnsent || v.state == answerPending {\n			continue\n"},
	}},
	{name: "a SET that is not answered is taken back", test: "TestUnansweredSetIsNotTakenBack", edits: []edit{
		{file: "attempt.go", old: "func (a *attempt) leasedLocked() {\n",
			new: `func (a *attempt) leasedLocked() {
	time.AfterFunc(a.acq.r.TTL/2, func() {
		a.acq.mu.Lock()
		defer a.acq.mu.Unlock()
		a.acq.q.fleet.releaseAt(a.token, a.votes.pending())
	})
`},
	}},
	{name: "late grants are not checked", finds: leftovers, edits: []edit{
		{file: "attempt.go", old: "a.acq.q.checks.add(lane, t, a.voters, a.votersKeep())\n",
			new: "_ = t\n"},
	}},
	{name: "top-ups are not checked", finds: leftovers, edits: []edit{
		{file: "host.go", old: "	h.q.checks.add(lane, t, voters, voted)\n", new: ""},
	}},
	{name: "UNLOCK takes silence for not ours", finds: blamed, edits: []edit{
		{file: "tally.go", old: "	case t.answered() >= maj && t.yes+t.none+t.pending < maj:\n" +
			"		return lost\n	case t.pending > 0:\n		return open\n",
			new: "	case t.pending > 0:\n		return open\n	case t.yes < maj:\n		return lost\n"},
	}},
	{name: "a check takes silence for lost", family: "unlocks", finds: blamed, edits: []edit{
		{file: "check.go", old: "	return noQuorum\n", new: "	return lost\n"},
	}},
	{name: "a check counts masters that were set late", test: "TestCheckAfterMajorityDeleted", edits: []edit{
		{file: "check.go", old: "	case n-bits.OnesCount64(has&k.voters) < maj:",
			new: "	case bits.OnesCount64(has) >= maj:"},
	}},
	{name: "a check does not ask again although something landed meanwhile", test: "TestCheckBesideLanding",
		edits: []edit{
			{file: "check.go", old: " || v == won && k.again", new: ""},
		}},
	{name: "a check that finds nothing out is not repeated", family: "silence", finds: leftovers, edits: []edit{
		{file: "check.go", old: "	if current && (v == noQuorum || v == won && k.again) {", new: "	if false {"},
	}},
	{name: "an UNLOCK is not repeated where a master had not the token",
		test: "TestReleaseAnswerLost|TestReleaseBeforeTopUp", edits: []edit{
			{file: "release.go", old: "	if t.pending > 0 || t.yes == t.n() {",
				new: "	if t.pending > 0 || t.yes != t.n() {"},
		}},
	{name: "an UNLOCK is not repeated where a master that was away had not the token", test: "TestReleaseBeforeTopUp",
		edits: []edit{
			{file: "release.go", old: "			repeat |= 1 << i\n", new: ""},
		}},
	{name: "an UNLOCK is not repeated where its answer is on its way", test: "TestReleaseBeforeTopUpOnItsWay",
		edits: []edit{
			{file: laneEnds, old: "	return r.state == repairSent, true\n", new: "	return false, true\n"},
		}},
	{name: "a release whose answer was lost did nothing", test: "TestReleaseAnswerLost", edits: []edit{
		{file: laneRepair, old: "			r.maybe = true\n", new: ""},
	}},
	{name: "a late release is not repeated where a master had not the token", test: "TestReleaseAnswerLost",
		edits: []edit{
			{file: "host.go", old: "{ h.q.fleet.releaseAt(t, missing) }", new: "{}"},
		}},
	{name: "what is left of a lost lock is deleted at once", family: "unlocks", finds: blamed, edits: []edit{
		{file: checkItself, old: "	op := wire.Op{Kind: wire.Fade, TokenAt: t, TTL: fadeTime}\n",
			new: "	op := wire.Op{Kind: wire.Release, TokenAt: t}\n"},
	}},
	{name: "no drift taken off, with clocks that run fast", family: "drift", finds: exclusion, edits: []edit{
		{file: "validity.go", old: "{ return ttl/100 + 2*time.Millisecond }", new: "{ return 0 }"},
	}},
	{name: "a caller that has left is not released", family: "none", finds: leftovers, edits: []edit{
		{file: "acquisition.go", old: "	a.releaseLocked()\n	return effects{end: true, vacate: true}\n",
			new: "	return effects{end: true, vacate: true}\n"},
	}},
}
