package sim

// Files of adopted locks.
const (
	valuesFind    = "values_find.go"
	valuesRefresh = "values_refresh.go"
)

// adoptedMutations break the rules of locks that are used by their value.
var adoptedMutations = []mutation{
	{name: "masters keep an adopted lock for no longer than was promised", family: "adopted",
		finds: exclusion + "|ends early", edits: []edit{
			{file: "attempt.go", old: "Counter: a.acq.counter, TTL: a.acq.r.TTL,",
				new: "Counter: a.acq.counter, TTL: a.acq.askedTTL(),"},
		}},
	{name: "masters keep a refreshed lock for no longer than was promised", family: "adopted",
		finds: exclusion + "|ends early", edits: []edit{
			{file: valuesRefresh, old: "TTL: Life(r.promise)}", new: "TTL: r.promise}"},
			{file: valuesRefresh, old: "validity(r.op.TTL,", new: "validity(Life(r.op.TTL),"},
		}},
	{name: "a shortening replaces any end", family: "adopted", finds: exclusion + "|ends early", edits: []edit{
		{file: luaOthers, old: "(has < 0 or till < has) and t.whole(has) ~= ARGV[at + 2]", new: "has < 0"},
	}},
	{name: "a lock that ends later counts as refreshed", family: "adopted", finds: "lives on", edits: []edit{
		{file: valuesRefresh, old: "		if a.state == answerYes && a.longer == 0 {", new: "		if a.state == answerYes {"},
	}},
	{name: "a failed take deletes any lock", family: "adopted", finds: exclusion + "|ends early", edits: []edit{
		{file: "attempt.go", old: "wire.Op{Kind: wire.Release, TokenAt: t}", new: "wire.Op{Kind: wire.Free, TokenAt: t}"},
	}},
	{name: "a refresh that revives", family: "adopted", finds: exclusion, edits: []edit{
		{file: luaOthers, old: "        if held ~= true then\n          return held and 0 or result\n",
			new: "        if not held and result == 0 then\n" +
				"          pcall('SET', key, secret .. '0000000000000000' .. string.char(1) .. 'v0', 'NX', 'PX', ARGV[at + 1])\n" +
				"          held, result = t.find(key, secret)\n        end\n" +
				"        if held ~= true then\n          return held and 0 or result\n"},
	}},
	{name: "a secret without a majority is not held", family: "adopted", finds: blamed, edits: []edit{
		{file: valuesFind, old: "		case most >= maj, most+t.none+t.pending < maj:",
			new: "		case most >= maj, t.pending == 0:"},
	}},
	{name: "a call by value acts on any secret", family: "adopted", finds: exclusion, edits: []edit{
		{file: valuesFind, old: "err == nil && c.masters >= majority(len(values)) {", new: "err == nil && c.masters > 0 {"},
	}},
	{name: "an addition shortens", family: "adopted", finds: blamed + "|ends early", edits: []edit{
		{file: "values.go", old: "promise: r.TTL, raises: r.Add}", new: "promise: r.TTL}"},
	}},
}
