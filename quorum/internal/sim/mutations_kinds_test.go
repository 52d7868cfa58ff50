package sim

const fakeKinds = "internal/fake/kinds.go"

// kindMutations break the rules of locks that are not exclusive, or not of one key.
var kindMutations = []mutation{
	{name: "each master counts holders, and any slots make a majority", family: "slots", finds: exclusion,
		edits: []edit{
			{file: "attempt.go", old: "acq.terms(), acq.r.Mode == Limited\n", new: "acq.terms(), false\n"},
		}},
	{name: "a reader that leaves does not take the expiry back", family: "readers", finds: leftovers,
		lua: "settleReaders", edits: []edit{
			{file: fakeKinds, old: "		delete(p.db.Keys, key)\n		return true\n",
				new: "		v.End = p.db.Keys[key].End\n		p.db.Keys[key] = v\n		return false\n"},
		}},
	{name: "readers never count", family: "readers", finds: order, lua: "join", edits: []edit{
		{file: fakeKinds, old: "	case len(v.Holders) == 0:\n		fence++\n",
			new: "	case len(v.Holders) == 0:\n"},
	}},
	{name: "the raise of a reader is not confirmed", family: "readers", finds: order, edits: []edit{
		{file: "attempt.go", old: "if a.acq.q.opts.Fencing && exact",
			new: "if a.acq.q.opts.Fencing && a.acq.r.Mode != Shared && exact"},
	}},
	{name: "an intent is counted as a vote", family: "readers", finds: exclusion, lua: "refuse", edits: []edit{
		{file: fakeKinds, old: "		p.intend(key, mode, v.Mode, millis(waits))\n",
			new: "		p.intend(key, mode, v.Mode, millis(waits))\n		return integer(1_938_810_480_000_000)\n"},
	}},
	{name: "readers join though somebody waits", family: "starved", finds: blocked, lua: "closed", edits: []edit{
		{file: fakeKinds, old: "	if !stands || v.Text == string(\"XSL\"[mode]) {", new: "	if true || !stands {"},
	}},
	{name: "who joins a shared lock has the fence of when it was exclusive", family: "readers", finds: order, lua: "H",
		edits: []edit{
			{file: fakeKinds, old: "p.db.raise(o.Args[2], h.Fence+1)", new: "p.db.raise(o.Args[2], h.Fence)"},
		}},
	{name: "several keys are granted key by key", family: "several keys", finds: exclusion, lua: "M", edits: []edit{
		{file: fakeKinds, old: "			stands = true\n", new: "			stands = stands || i == 0\n"},
	}},
	{name: "the fence of several keys is that of the first", family: "several keys", finds: order, lua: "M",
		edits: []edit{
			{file: fakeKinds, old: "		p.db.raise(fields[i], fence)\n		p.db.Keys[key] = LockValue(secret",
				new: "		_ = i\n		p.db.raise(fields[0], fence)\n		p.db.Keys[key] = LockValue(secret"},
		}},
	{name: "a failed attempt releases the first key only", family: "several keys", finds: leftovers, edits: []edit{
		{file: "attempt.go", old: "	for _, key := range a.acq.more {\n",
			new: "	for _, key := range a.acq.more[:0] {\n"},
	}},
	{name: "a kept lock keeps its token", family: "kept", finds: exclusion, lua: "K", edits: []edit{
		{file: fakeKinds, old: "	dead := \"kept\" + secret[min(4, len(secret)):]\n", new: "	dead := secret\n"},
	}},
	{name: "a release that keeps counts as done by less than a majority", family: "kept", finds: exclusion,
		edits: []edit{
			{file: "release.go", old: "		rule = decideHeld // done is what a majority has closed\n", new: ""},
		}},
}
