package quorum

// kindMutations break the rules of locks that are not exclusive, or not of one key.
var kindMutations = []mutation{
	{name: "each master counts holders, and any slots make a majority", family: "slots", finds: exclusion, edits: []edit{
		{file: "attempt.go", old: "acq.terms(), acq.r.Mode == Limited\n", new: "acq.terms(), false\n"},
	}},
	{name: "a reader that leaves does not take the expiry back", family: "readers", finds: leftovers, edits: []edit{
		{file: luaOthers, old: "      elseif last < self.ms then\n        pcall('DEL', key)\n        return true\n      elseif last ~= over then\n", new: "      elseif last > self.ms and last ~= over then\n"},
		{file: luaOthers, old: "over >= self.ms and pcall('ZCARD', key) == 3 then -- alone", new: "false then"},
	}},
	{name: "readers never count", family: "readers", finds: order, edits: []edit{
		{file: luaOthers, old: "had and (greatest > 0 and had or had + 1) or 0", new: "had or 0"},
		{file: luaOthers, old: "      if greatest <= 0 and had and had >= number then\n", new: "      if greatest <= 0 and had and topUp and had >= number then\n"},
	}},
	{name: "the raise of a reader is not confirmed", family: "readers", finds: order, edits: []edit{
		{file: "attempt.go", old: "if a.acq.q.opts.Fencing && exact", new: "if a.acq.q.opts.Fencing && a.acq.r.Mode != Shared && exact"},
	}},
	{name: "an intent is counted as a vote", family: "readers", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "        self:intend(key, mode, kind, waits)\n", new: "        self:intend(key, mode, kind, waits)\n        return 1938810480000000\n"},
	}},
	{name: "readers join though somebody waits", family: "starved", finds: blocked, edits: []edit{
		{file: luaOthers, old: "    if type(waits) == 'string' and waits ~= mode then\n", new: "    if false then\n"},
	}},
	{name: "who joins a shared lock has the fence of when it was exclusive", family: "readers", finds: order, edits: []edit{
		{file: luaOthers, old: "(tonumber(sub(rest, 1, 16)) or 0) + 1", new: "tonumber(sub(rest, 1, 16)) or 0"},
	}},
	{name: "several keys are granted key by key", family: "several keys", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "        if not set or set.err then\n          failed", new: "        if j == first and (not set or set.err) then\n          failed"},
	}},
	{name: "the fence of several keys is that of the first", family: "several keys", finds: order, edits: []edit{
		{file: luaOthers, old: "ARGV[at + 6 + j - first], fence, place, text", new: "ARGV[at + 6], fence, place, text"},
	}},
	{name: "a failed attempt releases the first key only", family: "several keys", finds: leftovers, edits: []edit{
		{file: "attempt.go", old: "	for _, key := range a.acq.more {\n", new: "	for _, key := range a.acq.more[:0] {\n"},
	}},
	{name: "a kept lock keeps its token", family: "kept", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "pcall('SET', key, 'kept' .. sub(secret, 5) .. rest", new: "pcall('SET', key, secret .. rest"},
	}},
	{name: "a release that keeps counts as done by less than a majority", family: "kept", finds: exclusion, edits: []edit{
		{file: "release.go", old: "		rule = decideHeld // done is what a majority has closed\n", new: ""},
	}},
}
