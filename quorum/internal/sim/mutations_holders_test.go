package sim

const waste = "waste on master"

// holderMutations break the rules of locks that several hold, most of them in the script.
var holderMutations = []mutation{
	{name: "ended holders keep their slots", family: "one end", finds: "waste: nobody holds it", edits: []edit{
		{file: luaOthers, old: "      h.purge(key)\n", new: ""},
		{file: luaOthers, old: "if t.failed(score) or till >= ms and at == place then",
			new: "if score then"},
	}},
	{name: "living holders are purged", family: "readers", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "'1000', '(' .. h.scoreOf(ms, 0), 'WITHSCORES'",
			new: "'1000', '+inf', 'WITHSCORES'"},
	}},
	{name: "one who leaves deletes the key though others hold it", family: "readers", finds: exclusion,
		edits: []edit{
			{file: luaOthers, old: "        elseif beside < ms then\n          local done = pcall('DEL', key)",
				new: "        elseif true then\n          local done = pcall('DEL', key)"},
		}},
	{name: "the key expires with who was extended last", family: "readers", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "t.whole(max(till, beside))", new: "t.whole(till)"},
	}},
	{name: "the key expires with its first holder", family: "readers", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "last > ms + ttl and t.whole(last) or till",
			new: "last >= ms and t.whole(last) or till"},
	}},
	// Fences fall then only if two of three masters are topped up late.
	{name: "the first top-up of a reader does not count", room: "./internal/wire", test: "TestScriptAsModel",
		finds: "seed", edits: []edit{
			{file: luaOthers, old: "        count = max(number, (had or 0) + 1)\n",
				new: "        count = fence and number or max(number, (had or 0) + 1)\n"},
		}},
	{name: "a kept place keeps its token as well", family: "kept", finds: leftovers, edits: []edit{
		{file: luaOthers, old: "done = t.failed(done) and done or h.leave(key, secret, held)\n",
			new: "done = t.failed(done) and done or 1\n"},
	}},
	{name: "readers join slots, and slots readers", family: "mixed", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "pcall('ZSCORE', key, 'lockproxy-' .. mode) or kind.err",
			new: "pcall('ZSCORE', key, 'lockproxy-' .. (t.modeOf(key) or mode)) or kind.err"},
	}},
	{name: "holders of slots over the limit count for it", family: "other slots", finds: "waste: nobody holds it",
		edits: []edit{
			{file: luaOthers, old: "live >= n and largest <= n then", new: "live >= n then"},
		}},
	{name: "slots seem taken for ever", family: "slots", finds: "waste: a refusal", edits: []edit{
		{file: luaOthers, old: "-2 - (soonest[2] and h.endOf(soonest[2]) - ms or 0)", new: "-1"},
	}},
	{name: "entries of holders that have ended stay", family: "one end", finds: waste, edits: []edit{
		{file: luaOthers, old: "          h.remove(key, sub(ended[i], 2), ended[i + 1])\n",
			new: "          pcall('ZREM', key, ended[i])\n"},
	}},
	{name: "the entry of one who leaves stays", family: "slots", finds: waste, edits: []edit{
		{file: luaOthers, old: "local done = pcall('ZREM', key, '=' .. secret, secret .. held.entry)",
			new: "local done = pcall('ZREM', key, '=' .. secret)"},
	}},
	{name: "an extension of one of several can shorten", family: "readers", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "      elseif ms + ttl > held.till then\n", new: "      elseif true then\n"},
	}},
	{name: "the key lives on when its last holder has left early", family: "readers", finds: waste, edits: []edit{
		{file: luaOthers, old: "      elseif held.till > beside then\n", new: "      elseif false then\n"},
	}},
	{name: "a lock that is new has no expiry", family: "readers", finds: waste, edits: []edit{
		{file: luaOthers, old: "and (left == -2 or done > 2) then", new: "and false then"},
	}},
	{name: "the holder is added before the expiry is set", family: "rights", finds: waste, edits: []edit{
		{file: luaOthers, old: "      elseif not expires then\n", new: "      elseif false then\n"},
	}},
	{name: "a top-up leaves the holder in another slot", family: "other slots", finds: waste, edits: []edit{
		{file: luaOthers, old: "held.place < 999 and held.place ~= tonumber(mode) then",
			new: "false then"},
	}},
	{name: "the other slot that a master granted is not corrected",
		family: "other slots", finds: waste, edits: []edit{
			{file: "attempt.go", old: "	case v.state != answerNo || v.elsewhere:\n",
				new: "	case v.state != answerNo:\n"},
		}},
	{name: "a raise of several keys raises the counter of the first",
		family: "raised keys", finds: order, edits: []edit{
			{file: luaOthers, old: "            return done\n          end\n" +
				"          t.count(ARGV[fields + i], fence)\n        end\n        return ahead or 1",
				new: "            return done\n          end\n          t.count(ARGV[fields + 1], fence)\n        end\n" +
					"        return ahead or 1"},
		}},
	{name: "masters with another slot are voters", family: "confirmed slots", finds: exclusion, edits: []edit{
		{file: "round.go", old: "if a.state == answerYes && (!r.slots || a.slot == r.slot) {",
			new: "if a.state == answerYes {"},
	}},
	{name: "the end of others is looked for among all", room: "./internal/fake", test: "TestWorkDoesNotGrowWithHolders",
		finds: "costs", edits: []edit{
			{file: luaOthers, old: "'ZREVRANGE', key, '0', '1', 'WITHSCORES'",
				new: "'ZREVRANGE', key, '0', '-1', 'WITHSCORES'"},
		}},
}
