// Package dice draws random numbers: secrets, nonces and jitter.
package dice

import (
	crypto "crypto/rand"
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"time"
)

// Dice is a source of random numbers. A nil *Dice takes secrets and nonces from crypto/rand and
// jitter from math/rand/v2. The simulation brings its own numbers, so that a seed replays. Safe
// for concurrent use.
type Dice struct {
	mu     sync.Mutex
	random *rand.Rand // guarded by mu
}

// New returns a Dice that draws everything from random.
func New(random *rand.Rand) *Dice { return &Dice{random: random} }

// fill makes b random. crypto/rand.Read never fails: it ends the process instead.
func (d *Dice) fill(b []byte) {
	if d == nil {
		_, _ = crypto.Read(b)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range b {
		b[i] = byte(d.random.Uint32())
	}
}

// Unit returns a random number in [0,1).
func (d *Dice) Unit() float64 {
	if d == nil {
		return rand.Float64()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.Float64()
}

// Jitter returns between half of wait and all of it, so that callers in step fall out of step.
func (d *Dice) Jitter(wait time.Duration) time.Duration {
	return wait/2 + time.Duration(d.Unit()*float64(wait/2+1))
}

// Secret draws the secret of a token: 20 random bytes as 40 hex digits.
func (d *Dice) Secret() string {
	var raw [20]byte
	d.fill(raw[:])
	var text [2 * len(raw)]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// Nonce draws 8 random bytes as 16 hex digits.
func (d *Dice) Nonce() string {
	var raw [8]byte
	d.fill(raw[:])
	return hex.EncodeToString(raw[:])
}
