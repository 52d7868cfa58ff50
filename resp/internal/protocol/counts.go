package protocol

import "sync/atomic"

// Counts match an upstream's replies with the requests that were forwarded. The methods are safe
// for concurrent use.
type Counts struct {
	sent     atomic.Uint64 // replies expected to all forwarded requests; set by the pump
	received atomic.Uint64 // replies counted; set by the copier
	garbled  atomic.Bool   // frame boundaries are lost; set by the copier
}

// Sent returns how many replies are expected to all forwarded requests.
func (c *Counts) Sent() uint64 { return c.sent.Load() }

// Received returns how many replies have come.
func (c *Counts) Received() uint64 { return c.received.Load() }

// Expect counts n more replies to come. Only the pump calls it.
func (c *Counts) Expect(n uint64) { c.sent.Add(n) }

// AllAnswered reports whether as many replies have come as were expected.
func (c *Counts) AllAnswered() bool { return c.sent.Load() <= c.received.Load() }

// Garbled reports whether frame boundaries are lost, so that replies cannot be counted.
func (c *Counts) Garbled() bool { return c.garbled.Load() }

// SetGarbled makes lock commands go to the upstream, because frame boundaries are lost. It reports
// whether this call is the first. Only the copier calls it.
func (c *Counts) SetGarbled() (first bool) { return !c.garbled.Swap(true) }
