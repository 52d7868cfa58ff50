package quorum

// subState is how a channel stands on a connection. A master answers in order, so counting is enough.
type subState struct {
	on        bool // SUBSCRIBE was sent last, not UNSUBSCRIBE
	unsettled int  // sent and not confirmed
}

// takeDirty compares channels that changed with what was sent last, and notes what is to be sent now: some of them, the
// others at the next call.
func (m *ear) takeDirty() (on, off []string) {
	var wake []*listener
	e := m.ears
	e.mu.Lock()
	defer func() {
		e.mu.Unlock()
		tellAll(wake)
	}()
	for channel := range m.dirty {
		if len(on)+len(off) == maxAtOnce {
			break
		}
		delete(m.dirty, channel)
		_, want := e.watched[channel]
		s := m.subs[channel]
		switch {
		case want && !s.on:
			on = append(on, channel)
		case !want && s.on:
			off = append(off, channel)
		case want && s.unsettled == 0:
			// Let go and watched again before the UNSUBSCRIBE was sent.
			wake = append(wake, e.confirmedByLocked(channel, m.lane.index)...)
			continue
		default:
			continue
		}
		m.subs[channel] = subState{on: want, unsettled: s.unsettled + 1}
	}
	return on, off
}

// settled takes the master's confirmation of a SUBSCRIBE or UNSUBSCRIBE.
func (m *ear) settled(channel string) {
	var wake []*listener
	m.ears.mu.Lock()
	s := m.subs[channel]
	s.unsettled--
	switch {
	case s.unsettled > 0 || s.on:
		m.subs[channel] = s
	default:
		delete(m.subs, channel)
	}
	if s.on && s.unsettled == 0 {
		wake = m.ears.confirmedByLocked(channel, m.lane.index)
	}
	m.ears.mu.Unlock()
	tellAll(wake)
}

// tellAll says that a release may have been missed.
func tellAll(wake []*listener) {
	for _, l := range wake {
		l.released("")
	}
}
