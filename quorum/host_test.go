package quorum

import "testing"

// A server belongs to the lane that claimed it first, until that lane is disconnected.
func TestServerBelongsToItsFirstLane(t *testing.T) {
	c := claims{runIDs: make([]string, 3)}
	for _, step := range []struct {
		name      string
		do        func()
		runID     string
		lane      int
		wantOther int
		wantOK    bool
	}{
		{"first", nil, "a", 0, 0, true},
		{"the same lane again", nil, "a", 0, 0, true},
		{"another lane", nil, "a", 2, 0, false},
		{"another server", nil, "b", 2, 2, true},
		{"the lane has another server now", nil, "c", 0, 0, true},
		{"so its first one is free", nil, "a", 1, 1, true},
		{"the lane was disconnected", func() { c.Unclaim(2) }, "b", 0, 0, true},
	} {
		t.Run(step.name, func(t *testing.T) {
			if step.do != nil {
				step.do()
			}
			if other, ok := c.Claim(step.runID, step.lane); other != step.wantOther || ok != step.wantOK {
				t.Errorf("lane %d, %v, want %d, %v", other, ok, step.wantOther, step.wantOK)
			}
		})
	}
}
