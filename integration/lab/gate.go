package lab

import (
	"sync"
	"time"
)

// gate lets bytes through or holds them.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

func newGate(open bool) *gate {
	g := &gate{open: make(chan struct{})}
	g.set(open)
	return g
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

// wait returns true once the gate is open, or false if the link is cut before.
func (g *gate) wait(cut <-chan struct{}) bool {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-cut:
		return false
	case <-open:
		return true
	}
}

// sleepUntil returns true at the given time, or false if the link is cut before.
func sleepUntil(due time.Time, cut <-chan struct{}) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-cut:
		return false
	case <-timer.C:
		return true
	}
}
