package stat

// Traffic describes the relay's load. Clients, Upstreams and Unanswered are current numbers, the
// others count since the start.
type Traffic struct {
	Clients    int    // connected
	Upstreams  int    // connections to the upstream
	Unanswered uint64 // commands relayed and not answered yet, blocking ones included
	Accepted   uint64 // connections served
	Refused    uint64 // connections turned away
	Received   uint64 // bytes from clients
	Sent       uint64 // bytes to clients
	Commands   uint64 // relayed to the upstream
	Markers    uint64 // sent to the upstream, which counts each as an error
}

// Add adds the counts of another relay.
func (t *Traffic) Add(more Traffic) {
	t.Clients += more.Clients
	t.Upstreams += more.Upstreams
	t.Unanswered += more.Unanswered
	t.Accepted += more.Accepted
	t.Refused += more.Refused
	t.Received += more.Received
	t.Sent += more.Sent
	t.Commands += more.Commands
	t.Markers += more.Markers
}
