package resp

import "lockproxy/stat"

// Stats are counts of a server.
type Stats = stat.Traffic

// past is what the sessions that have ended add to Stats. The counters of the others are read
// where they are, so that counting costs the relay nothing.
type past struct {
	accepted, refused        uint64 // guarded by Server.mu, as the rest
	received, sent, commands uint64
}

// add takes over the counts of a session that ends. Server.mu is held.
func (p *past) add(sess *Session) {
	p.received += sess.progress.read.Load()
	p.sent += sess.progress.written.Load()
	p.commands += sess.proto.Sent()
}

// Stats returns the counts of this moment. It goes through all sessions.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Stats{Clients: len(s.sessions), Accepted: s.past.accepted, Refused: s.past.refused,
		Received: s.past.received, Sent: s.past.sent, Commands: s.past.commands}
	for sess := range s.sessions {
		all.Received += sess.progress.read.Load()
		all.Sent += sess.progress.written.Load()
		sent := sess.proto.Sent()
		all.Commands += sent
		all.Unanswered += sent - min(sent, sess.proto.Received()) // more than were expected count as none
		if sess.era.Load() != 0 {
			all.Upstreams++
		}
	}
	return all
}
