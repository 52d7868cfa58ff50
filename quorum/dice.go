package quorum

import (
	crypto "crypto/rand"
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"time"
)

// dice is where random numbers come from. nil, as everywhere but in the simulation, is crypto/rand for tokens and nonces and
// math/rand/v2 for pauses; the simulation brings its own, so that a seed replays.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

// fill makes b random. crypto/rand.Read never fails: it ends the process instead.
func (d *dice) fill(b []byte) {
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

// unit is a random number in [0,1).
func (d *dice) unit() float64 {
	if d == nil {
		return rand.Float64()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.Float64()
}

// jitter is between half of wait and all of it, so that those who wait for the same part.
func (d *dice) jitter(wait time.Duration) time.Duration {
	return wait/2 + time.Duration(d.unit()*float64(wait/2+1))
}

// newSecret draws the secret of one attempt.
func (d *dice) newSecret() string {
	var raw [secretLen / 2]byte
	d.fill(raw[:])
	var text [secretLen]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// newNonce is 8 random bytes as hex digits.
func (d *dice) newNonce() string {
	var b [8]byte
	d.fill(b[:])
	return hex.EncodeToString(b[:])
}
