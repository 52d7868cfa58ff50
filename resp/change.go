package resp

// SetMaxClients changes Options.MaxClients for the connections that come from here on; nobody is disconnected.
func (s *Server) SetMaxClients(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.MaxClients = n
}
