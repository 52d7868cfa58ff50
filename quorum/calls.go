package quorum

import (
	"context"
	"sync/atomic"
)

// calls counts the calls that run, so that Close can wait for them. Safe for concurrent use.
type calls struct {
	running atomic.Int64
	closing atomic.Bool
	changed chan struct{} // holds a value when drain should look again
}

func newCalls() calls { return calls{changed: make(chan struct{}, 1)} }

// enter and leave surround every call.
func (c *calls) enter() { c.running.Add(1) }

func (c *calls) leave() {
	if c.running.Add(-1) == 0 && c.closing.Load() {
		c.wake()
	}
}

// wake makes drain look again.
func (c *calls) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// drain waits until no call runs and no release is pending. If ctx ends first it returns how many
// releases are. The lanes' host calls wake when a master has answered a release.
func (c *calls) drain(ctx context.Context, pendingReleases func() int) (pending int) {
	for {
		running := c.running.Load() // before the releases: a call may end with one
		pending = pendingReleases()
		if pending == 0 && running == 0 {
			return 0
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return pending
		}
	}
}
