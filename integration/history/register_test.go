package history

import (
	"testing"
)

func always() bool { return true }

func TestRegistersLoseNoUpdateUnderALock(t *testing.T) {
	g := NewGuarded("k")
	for fence := range uint64(100) {
		g.Update(fence, always, func() {})
	}
	if found := g.Check(); len(found) > 0 || g.Plain.value != 100 || g.Careful.value != 100 || g.Fenced.value != 100 {
		t.Errorf("got %v and values %d, %d, %d, want no violation and 100 each", found, g.Plain.value, g.Careful.value,
			g.Fenced.value)
	}
}

// TestPlainRegisterLosesUpdateAfterAPause: a holder sleeps through the end of its validity and
// writes while the next one works.
func TestPlainRegisterLosesUpdateAfterAPause(t *testing.T) {
	for name, pausing := range map[string]uint64{"the lower fence writes first": 1, "the higher fence writes first": 2} {
		t.Run(name, func(t *testing.T) {
			g, valid := NewGuarded("k"), true
			slow, quick := pausing, 3-pausing
			g.Update(slow, func() bool { return valid }, func() {
				g.Update(quick, always, func() {})
				valid = false
			})
			if lost, _ := g.Plain.Lost(); lost != 1 {
				t.Errorf("lost updates of the plain register: got %d, want 1", lost)
			}
			if found := g.Check(); len(found) > 0 {
				t.Errorf("got %v, want no violation, since the careful holder does not write and the lower fence is refused",
					found)
			}
			if _, refused := g.Fenced.Lost(); refused == 0 {
				t.Error("refused fences: got none, want one at least")
			}
		})
	}
}

// TestCarefulRegisterLosesUpdateWithTwoHolders: two careful holders that both count on the lock
// lose an update.
func TestCarefulRegisterLosesUpdateWithTwoHolders(t *testing.T) {
	g := NewGuarded("k")
	g.Update(1, always, func() { g.Update(2, always, func() {}) })
	if got := names(g.Check()); got != "update" {
		t.Errorf("found by %q, want update", got)
	}
	lost, _ := g.Careful.Lost()
	if fenced, _ := g.Fenced.Lost(); lost != 1 || fenced != 0 {
		t.Errorf("lost updates: got %d careful and %d fenced, want 1 and 0", lost, fenced)
	}
}

// TestFencedRegisterLosesUpdateWithEqualFences: fencing does not help if fences do not rise, and
// the check shows that.
func TestFencedRegisterLosesUpdateWithEqualFences(t *testing.T) {
	g := NewGuarded("k")
	g.Update(1, always, func() { g.Update(1, always, func() {}) })
	if fenced, _ := g.Fenced.Lost(); fenced != 1 || names(g.Check()) != "update" {
		t.Errorf("lost updates of the fenced register: got %d, want 1; found %v", fenced, g.Check())
	}
}
