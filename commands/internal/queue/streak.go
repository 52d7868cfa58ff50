package queue

import "lockproxy/quorum"

// maxHandOvers is how often in a row clients of this proxy get the lock before other proxies get a
// chance. With LIMIT n it counts n times.
const maxHandOvers = 16

// streak counts the grants in a row to clients of this proxy.
type streak struct {
	handOvers int
	last      quorum.Mode // of these grants
}

// granted counts a grant as a hand-over if the client had to wait: a lock that was free is taken
// from no other proxy. Shared grants do not count, see full.
func (s *streak) granted(mode quorum.Mode, waited bool) {
	s.last = mode
	switch {
	case mode == quorum.Shared:
	case waited:
		s.handOvers++
	default:
		s.handOvers = 0
	}
}

// refused records that another proxy got the lock after a release, which ends a streak of
// exclusive grants.
func (s *streak) refused() {
	if s.last == quorum.Exclusive {
		s.handOvers = 0
	}
}

// full reports whether other proxies should get a chance before want is granted. Shared clients
// do not delay each other, and a waiter of another mode keeps them out with its intent, so their
// streak is never full.
func (s *streak) full(want *quorum.Request) bool {
	switch want.Mode {
	case quorum.Shared:
		return false
	case quorum.Limited:
		return s.handOvers >= maxHandOvers*want.Limit
	}
	return s.handOvers >= maxHandOvers
}
