package logs

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"lockproxy/stat"
)

const (
	refusalsEvery = time.Second
	maxAddresses  = 1000 // counted for one line
)

// loginRefusals counts the refusals of clients that have not logged in. Anyone who reaches the
// proxy can cause as many as the network carries. A line for each would fill the disk and displace
// the lines of others. Safe for concurrent use.
type loginRefusals struct {
	// write writes a line: the last refusal, how many there were, and from how many addresses.
	// mu is held, so it must not block.
	write func(last *stat.Event, count, addresses int)

	mu    sync.Mutex
	count int // since the last line
	last  stat.Event
	from  map[netip.Addr]bool // at most maxAddresses
	due   *time.Timer         // calls flush; nil while count is 0
}

func newRefusals(write func(last *stat.Event, count, addresses int)) *loginRefusals {
	return &loginRefusals{write: write, from: map[netip.Addr]bool{}}
}

// add counts e. A line follows within refusalsEvery.
func (r *loginRefusals) add(e *stat.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	r.last = *e
	if len(r.from) < maxAddresses {
		r.from[addressOf(e.Client)] = true
	}
	if r.due == nil {
		r.due = time.AfterFunc(refusalsEvery, r.flush)
	}
}

// flush writes the line that is due, if any.
func (r *loginRefusals) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == 0 {
		return
	}
	r.write(&r.last, r.count, len(r.from))
	r.due.Stop()
	r.count, r.last, r.due = 0, stat.Event{}, nil
	clear(r.from)
}

// addressOf returns the address of a client without the port. All clients of Unix sockets have the
// zero one.
func addressOf(client net.Addr) netip.Addr {
	if tcp, ok := client.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
