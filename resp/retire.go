package resp

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Retire ends the connections whose upstream connection was dialled before the call, as the
// upstream is another server now. Each ends as soon as nothing is unanswered on it and no
// transaction is open. Those that are left when ctx ends are cut off. Retire returns after the
// last has gone. It may be called again before it has returned.
func (s *Server) Retire(ctx context.Context) {
	now := s.era.Add(1)
	tick := time.NewTicker(drainStep)
	defer tick.Stop()
	for cut := false; ; {
		old := s.dialledBefore(now)
		if len(old) == 0 {
			return
		}
		for _, sess := range old {
			sess.wake(cut)
		}
		select {
		case <-ctx.Done():
			cut, ctx = true, context.Background()
		case <-tick.C:
		}
	}
}

// dialledBefore returns the sessions that have, or are about to have, an upstream connection from
// before era now.
func (s *Server) dialledBefore(now uint64) []*Session {
	s.mu.Lock()
	sessions := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	return slices.DeleteFunc(sessions, func(sess *Session) bool {
		era := sess.era.Load()
		return era == 0 || era >= now
	})
}

// enter notes in which era the session dials. Retire either finds the note or makes the session
// dial in its own era.
func (s *Session) enter() {
	for {
		era := s.srv.era.Load()
		s.era.Store(era)
		if s.srv.era.Load() == era {
			return
		}
	}
}

// wake makes the pump look whether the connection may end; with cut set it ends it.
func (s *Session) wake(cut bool) {
	first := s.life.drain()
	switch {
	case cut:
		s.teardown()
	case first || s.life.now() == stateLingering || !s.running.Load() && s.proto.AllAnswered(): // else it could not end yet, which it will see by itself
		s.client.SetReadDeadline(time.Unix(1, 0))
	}
}
