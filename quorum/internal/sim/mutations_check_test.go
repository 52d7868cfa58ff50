package sim

const checkItself = "check.go"

// checkMutations break the checks of what landed late.
var checkMutations = []mutation{
	{name: "nothing is checked", finds: leftovers, edits: []edit{
		{file: checkItself, old: "	c.fleet.deadlines.set(&k.due, now.Add(checkAfter))\n}\n", new: "}\n"},
	}},
	{name: "a check asks nobody who can tell", finds: leftovers, edits: []edit{
		{file: checkItself, old: "	return k.voters\n", new: "	return ^k.voters\n"},
	}},
	{name: "a check believes a master that was set late", finds: leftovers, edits: []edit{
		{file: checkItself, old: "		case lacks == late:\n", new: "		case true:\n"},
	}},
	{name: "a check takes a silent master for one that lacks the token", family: "silence", finds: leftovers,
		edits: []edit{
			{file: checkItself, old: "	c.ask(k, late, func(_, lacks uint64) {\n",
				new: "	c.ask(k, late, func(has, lacks uint64) {\n"},
			{file: checkItself, old: "		case lacks == late:\n", new: "		case has == 0:\n"},
		}},
	{name: "a check learns nothing from a master that was set late and lacks the token", family: "extended",
		finds: leftovers, edits: []edit{
			{file: checkItself, old: "case lacks&k.keeping() != 0", new: "case lacks&k.voters&k.keeping() != 0"},
		}},
	{name: "a check forgets who held the token when a fill lands", family: "extended", finds: leftovers,
		edits: []edit{
			{file: checkItself, old: "		k.held(voters|1<<lane, until)\n", new: "		clear(k.keeps)\n"},
		}},
	{name: "a check comes while most locks are held", family: "load", finds: costly, edits: []edit{
		{file: checkItself, old: "const checkAfter = 2 * time.Second\n", new: "const checkAfter = 100 * time.Millisecond\n"},
	}},
	{name: "a check takes a voter whose key has expired for one that released it", test: "TestCheckAtEndOfTTL",
		edits: []edit{
			{file: "validity.go", old: "begun.Add(ttl - drift(ttl))", new: "begun.Add(ttl)"},
		}},
}
