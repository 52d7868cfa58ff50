package quorum

import (
	"testing"
	"time"
)

// Two never count on a lock at once, in any order of messages, losses and time; without one of the
// rules they do.
func TestExclusionModel(t *testing.T) {
	without := func(change func(*exclusionRules)) exclusionRules {
		r := ourRules
		change(&r)
		return r
	}
	for _, c := range []struct {
		name            string
		rules           exclusionRules
		attempts        int
		losses, repeats uint8
		wrong           bool
	}{
		{name: "ours, one loses its memory", rules: ourRules, attempts: 2, losses: 1},
		{name: "ours, memory is lost twice", rules: ourRules, attempts: 2, losses: 2},
		{name: "ours, a release comes twice", rules: ourRules, attempts: 3, repeats: 1},
		{name: "scripts do not compare the record", rules: without(func(r *exclusionRules) { r.compare = false }), attempts: 2, losses: 1, wrong: true},
		{name: "record without mark", rules: without(func(r *exclusionRules) { r.mark = false }), attempts: 2, losses: 1, wrong: true},
		{name: "a mark stands too short", rules: without(func(r *exclusionRules) { r.wait = xTTL - 1 }), attempts: 2, losses: 1, wrong: true},
		{name: "another mark does not begin the count anew", rules: without(func(r *exclusionRules) { r.recount = false }), attempts: 2, losses: 2, wrong: true},
		{name: "one token for two attempts", rules: without(func(r *exclusionRules) { r.fresh = false }), attempts: 3, repeats: 1, wrong: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &exclusionRun{exclusionRules: c.rules, attempts: c.attempts}
			worked := processorTime()
			states, found := r.search(r.start(c.losses, c.repeats))
			t.Logf("%d states, %v at work: %s", states, (processorTime() - worked).Round(time.Millisecond), found)
			if (found != "") != c.wrong {
				t.Errorf("goes wrong: %v, want %v", found != "", c.wrong)
			}
		})
	}
}
