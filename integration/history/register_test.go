package history

import (
	"testing"
)

func always() bool { return true }

func TestRegistersUnderALock(t *testing.T) {
	g := NewGuarded("k")
	for fence := range uint64(100) {
		g.Update(fence, always, func() {})
	}
	if found := g.Check(); len(found) > 0 || g.Plain.value != 100 || g.Careful.value != 100 || g.Fenced.value != 100 {
		t.Errorf("found %v, values %d %d %d, want 100", found, g.Plain.value, g.Careful.value, g.Fenced.value)
	}
}

// TestRegistersWithAPause: a holder that slept through the end of its validity writes while the
// next one works.
func TestRegistersWithAPause(t *testing.T) {
	for name, pausing := range map[string]uint64{"the lower fence writes first": 1, "the higher fence writes first": 2} {
		t.Run(name, func(t *testing.T) {
			g, valid := NewGuarded("k"), true
			slow, quick := pausing, 3-pausing
			g.Update(slow, func() bool { return valid }, func() {
				g.Update(quick, always, func() {})
				valid = false
			})
			if lost, _ := g.Plain.Lost(); lost != 1 {
				t.Errorf("plain lost %d, want 1", lost)
			}
			if found := g.Check(); len(found) > 0 {
				t.Errorf("found %v: the careful did not write, the lower fence was refused", found)
			}
			if _, refused := g.Fenced.Lost(); refused == 0 {
				t.Error("no fence was refused")
			}
		})
	}
}

// TestRegistersWithTwoHolders: two that both count on the lock lose an update even if both are
// careful.
func TestRegistersWithTwoHolders(t *testing.T) {
	g := NewGuarded("k")
	g.Update(1, always, func() { g.Update(2, always, func() {}) })
	if got := names(g.Check()); got != "update" {
		t.Errorf("found by %q, want update", got)
	}
	lost, _ := g.Careful.Lost()
	if fenced, _ := g.Fenced.Lost(); lost != 1 || fenced != 0 {
		t.Errorf("lost %d careful and %d fenced, want 1 and 0", lost, fenced)
	}
}

// TestRegistersWithOneFenceTwice: where the numbers do not rise, fencing does not help, and the
// check shows it.
func TestRegistersWithOneFenceTwice(t *testing.T) {
	g := NewGuarded("k")
	g.Update(1, always, func() { g.Update(1, always, func() {}) })
	if fenced, _ := g.Fenced.Lost(); fenced != 1 || names(g.Check()) != "update" {
		t.Errorf("lost %d fenced, want 1; found %v", fenced, g.Check())
	}
}
