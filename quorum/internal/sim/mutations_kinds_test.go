package sim

// kindMutations break the rules of locks that are not exclusive, or not of one key.
var kindMutations = []mutation{
	{name: "each master counts holders, and any slots make a majority", family: "slots", finds: exclusion,
		edits: []edit{
			{file: "attempt.go", old: "acq.terms(), acq.r.Mode == Limited\n", new: "acq.terms(), false\n"},
		}},
	{name: "a reader that leaves does not take the expiry back", family: "readers", finds: leftovers, edits: []edit{
		{file: luaOthers, old: "if first[1] ~= '=' .. secret or #first ~= 3 or",
			new: "if true or"},
		{file: luaOthers, old: "        elseif beside < ms then\n          local done = pcall('DEL', key)",
			new: "        elseif false then\n          local done = 0"},
		{file: luaOthers, old: "      elseif held.till > beside then\n", new: "      elseif false then\n"},
	}},
	{name: "readers never count", family: "readers", finds: order, edits: []edit{
		{file: luaOthers, old: "        count = max(number, (had or 0) + 1)\n",
			new: "        if not fence then\n          number, count = had or 0, had or 0\n        end\n"},
	}},
	{name: "the raise of a reader is not confirmed", family: "readers", finds: order, edits: []edit{
		{file: "attempt.go", old: "return !a.acq.q.opts.Fencing ||",
			new: "return !a.acq.q.opts.Fencing || a.acq.r.Mode == Shared ||"},
	}},
	{name: "an intent is counted as a vote", family: "readers", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "          pcall('SET', intent, mode, 'PX', waits)\n",
			new: "          pcall('SET', intent, mode, 'PX', waits)\n          return 1938810480000000\n"},
	}},
	{name: "readers join although a client waits", family: "starved", finds: blocked, edits: []edit{
		{file: luaOthers, old: "local shut = not fence and t.intended(key, mode)", new: "local shut = false"},
	}},
	{name: "who joins a shared lock has the fence of when it was exclusive", family: "readers", finds: order,
		edits: []edit{
			{file: luaOthers, old: "local number = (tonumber(sub(rest, 1, 16)) or 0) + 1",
				new: "local number = tonumber(sub(rest, 1, 16)) or 0"},
		}},
	{name: "several keys are granted key by key", family: "several keys", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "          if done and not done.err then\n            set = set + 1\n",
			new: "          if set > 0 or done and not done.err then\n            set = set + 1\n"},
	}},
	{name: "the fence of several keys is that of the first", family: "several keys", finds: order, edits: []edit{
		{file: luaOthers, old: "t.count(ARGV[fields + i], fence, text)\n          t.changed",
			new: "t.count(ARGV[fields + 1], fence, text)\n          t.changed"},
	}},
	{name: "a failed attempt releases the first key only", family: "several keys", finds: leftovers, edits: []edit{
		{file: "attempt.go", old: "	for _, key := range a.acq.more {\n",
			new: "	for _, key := range a.acq.more[:0] {\n"},
	}},
	{name: "a kept lock keeps its token", family: "kept", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "local closed = 'kept' .. sub(secret, 5)", new: "local closed = secret"},
	}},
	{name: "a release that keeps counts as done by less than a majority", family: "kept", finds: exclusion,
		edits: []edit{
			{file: "release.go", old: "		rule = decideHeld // a majority has to close it\n", new: ""},
		}},
}
