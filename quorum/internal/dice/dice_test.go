package dice

import (
	"math/rand/v2"
	"regexp"
	"testing"
	"time"
)

// TestSeedReplaysDraws: a seed replays, and without one no two draws are equal.
func TestSeedReplaysDraws(t *testing.T) {
	seeded := func() *Dice { return New(rand.New(rand.NewPCG(1, 2))) }
	if a, b := seeded(), seeded(); a.Secret() != b.Secret() || a.Nonce() != b.Nonce() || a.Unit() != b.Unit() {
		t.Error("one seed gave two sequences")
	}
	var none *Dice
	if a, b := none.Secret(), none.Secret(); a == b || !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(a) {
		t.Errorf("secrets %q and %q", a, b)
	}
	if a, b := none.Nonce(), none.Nonce(); a == b || !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(a) {
		t.Errorf("nonces %q and %q", a, b)
	}
	for range 1000 {
		if d := none.Jitter(time.Second); d < time.Second/2 || d > time.Second {
			t.Fatalf("jitter %v of a second", d)
		}
	}
}
