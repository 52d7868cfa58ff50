package stat

// Traffic is what the relay carries: Clients, Upstreams and Unanswered of the moment, the others since
// its start.
type Traffic struct {
	Clients    int    // connected
	Upstreams  int    // of those, how many have a connection to the upstream
	Unanswered uint64 // commands relayed and not answered yet, blocking ones and those that get no reply included
	Accepted   uint64 // connections served
	Refused    uint64 // connections turned away: max-clients, or the server was ending
	Received   uint64 // bytes from clients, as they read after TLS
	Sent       uint64 // bytes to clients
	Commands   uint64 // relayed, counted by the replies that they are to get
}
