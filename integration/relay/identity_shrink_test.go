package relay

import "time"

// shrink drops commands from a script as long as the fault remains. ok: it was seen again.
func (w *identityWorker) shrink(rig *identityRig, s identityScript, fault identityFault) (small identityScript, last identityFault, ok bool) {
	deadline := time.Now().Add(20 * time.Second)
	last = fault
	again := func(s identityScript) bool {
		if rig.password {
			s.waitForResets()
		}
		for range 3 {
			if time.Now().After(deadline) {
				return false
			}
			if f := w.try(rig, s, false); f.kind == fault.kind {
				last = f
				return true
			}
		}
		return false
	}
	if !again(s) {
		return s, last, false
	}
	simplest := func(change func(*identityScript)) {
		t := s.clone()
		if change(&t); again(t) {
			s = t
		}
	}
	simplest(func(t *identityScript) { t.cuts = 0 })
	simplest(func(t *identityScript) {
		for i := range t.steps {
			t.steps[i].wait = false
		}
	})
	for n := len(s.steps) / 2; n > 0; n /= 2 {
		for from := len(s.steps) - n; from >= 0; from-- {
			if from+n > len(s.steps) || n == len(s.steps) {
				continue
			}
			t := s.clone()
			t.steps = append(t.steps[:from], t.steps[from+n:]...)
			if again(t) {
				s = t
			}
		}
	}
	for i := range s.steps {
		if s.steps[i].wait {
			simplest(func(t *identityScript) { t.steps[i].wait = false })
		}
	}
	return s, last, true
}

func (s identityScript) clone() identityScript {
	s.steps = append([]identityStep(nil), s.steps...)
	return s
}
