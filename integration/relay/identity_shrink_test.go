package relay

import (
	"slices"
	"time"
)

// shrink drops commands from a script as long as the fault remains. ok: the fault was seen again.
func (w *identityWorker) shrink(rig *identityRig, s identityScript, fault identityFault) (small identityScript,
	last identityFault, ok bool) {
	h := &shrinking{script: s, rig: rig, fault: fault, worker: w, deadline: time.Now().Add(20 * time.Second)}
	if !h.hasFault(s) {
		return s, fault, false
	}
	h.change(func(t *identityScript) { t.cuts = 0 })
	h.change(func(t *identityScript) {
		for i := range t.steps {
			t.steps[i].wait = false
		}
	})
	h.dropCommands()
	for i := range h.script.steps {
		if h.script.steps[i].wait {
			h.change(func(t *identityScript) { t.steps[i].wait = false })
		}
	}
	return h.script, h.fault, true
}

// shrinking is the smallest script so far that shows a fault.
type shrinking struct {
	script   identityScript
	rig      *identityRig
	fault    identityFault
	worker   *identityWorker
	deadline time.Time
}

// hasFault tries a script up to three times, and keeps the fault if it is of the same kind.
func (h *shrinking) hasFault(s identityScript) bool {
	if h.rig.password {
		s.waitForResets()
	}
	for range 3 {
		if time.Now().After(h.deadline) {
			return false
		}
		if f := h.worker.try(h.rig, s, false); f.kind == h.fault.kind {
			h.fault = f
			return true
		}
	}
	return false
}

// change keeps a change to the script if the fault remains.
func (h *shrinking) change(edit func(*identityScript)) {
	t := h.script
	t.steps = slices.Clone(h.script.steps)
	if edit(&t); h.hasFault(t) {
		h.script = t
	}
}

// dropCommands drops runs of commands, long runs first.
func (h *shrinking) dropCommands() {
	for n := len(h.script.steps) / 2; n > 0; n /= 2 {
		for from := len(h.script.steps) - n; from >= 0; from-- {
			if from+n > len(h.script.steps) || n == len(h.script.steps) {
				continue
			}
			h.change(func(t *identityScript) { t.steps = slices.Delete(t.steps, from, from+n) })
		}
	}
}
