package lab

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Relay is a TCP relay in this process, put between lockproxy and a master. It can freeze
// connections (bytes stay inside it), let frozen ones go on later, cut them, refuse new ones, slow
// every byte down, or stop at a given command. Its methods are safe for concurrent use.
type Relay struct {
	Addr     string // where it listens
	listener net.Listener

	mu      sync.Mutex
	target  string
	links   map[*link]bool
	frozen  bool          // new connections start frozen
	refused bool          // new connections are reset at once
	over    bool          // the test has ended
	spoiled bool          // a byte of every chunk towards the client is changed
	delay   time.Duration // for every chunk, each way
	width   int           // bytes a second towards the server; 0 for no limit
	wanted  *wanted       // the command to stop at, or nil
	wg      sync.WaitGroup
}

// link is one connection through a relay.
type link struct {
	client, server *net.TCPConn
	up, down       *gate     // towards the master, towards the proxy
	passed         time.Time // when the last byte towards the master is through; guarded by Relay.mu
	cut            chan struct{}
	cutOnce        sync.Once
}

// StartRelay starts a relay in front of target.
func StartRelay(t testing.TB, target string) *Relay {
	t.Helper()
	r := &Relay{target: target, links: map[*link]bool{}}
	err := error(nil)
	for range 20 { // another process may take the port between our look and Listen
		r.Addr = FreeAddr(t)
		if r.listener, err = net.Listen("tcp", r.Addr); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		r.listener.Close()
		r.mu.Lock()
		r.over = true
		r.mu.Unlock()
		r.CutAll()
		r.wg.Wait()
	})
	return r
}

// StartRelays puts a relay in front of every server.
func StartRelays(t testing.TB, servers []*Redis) (relays []*Relay, list string) {
	t.Helper()
	var names []string
	for _, s := range servers {
		r := StartRelay(t, s.Addr)
		relays, names = append(relays, r), append(names, r.Addr)
	}
	return relays, strings.Join(names, ",")
}

func (r *Relay) accept() {
	for {
		nc, err := r.listener.Accept()
		if err != nil {
			return
		}
		client := nc.(*net.TCPConn)
		server, err := net.DialTimeout("tcp", r.goal(), time.Second)
		if err == nil && r.join(client, server.(*net.TCPConn)) {
			continue
		}
		_ = client.SetLinger(0)
		client.Close()
		if err == nil {
			server.Close()
		}
	}
}

// join begins to relay between two connections; false means that new ones are refused.
func (r *Relay) join(client, server *net.TCPConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused || r.over {
		return false
	}
	l := &link{client: client, server: server, up: newGate(!r.frozen), down: newGate(!r.frozen), cut: make(chan struct{})}
	r.links[l] = true
	r.wg.Go(func() { r.carry(l, client, server, l.up, true) })
	r.wg.Go(func() { r.carry(l, server, client, l.down, false) })
	return true
}

// chunk is a piece of what a link carries.
type chunk struct {
	due  time.Time
	data []byte
	stop *wanted // what was waited for begins here
}

// carry copies one direction. What was read is written even if its sender has gone meanwhile, as a
// network does.
func (r *Relay) carry(l *link, from, to *net.TCPConn, g *gate, up bool) {
	queue := make(chan chunk, 4096)
	r.wg.Go(func() { r.deliver(l, to, g, queue) })
	defer close(queue)
	var commands cutter
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		if n > 0 {
			for _, c := range r.pieces(l, data[:n], &commands, up) {
				select {
				case queue <- c:
				case <-l.cut:
					return
				}
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			g.wait(l.cut) // a reset is passed on when the bytes before it were
		}
		if err != nil {
			return
		}
	}
}

// deliver writes what carry has read.
func (r *Relay) deliver(l *link, to *net.TCPConn, g *gate, queue <-chan chunk) {
	for c := range queue {
		if c.stop != nil {
			r.stopAt(l, c.stop)
		}
		if !g.wait(l.cut) || !sleepUntil(c.due, l.cut) || !g.wait(l.cut) {
			continue
		}
		if _, err := to.Write(c.data); err != nil {
			continue // the reader notices by itself
		}
	}
	_ = to.CloseWrite()
}

// pieces makes one chunk of what was read, or two where a command begins that was waited for.
func (r *Relay) pieces(l *link, data []byte, commands *cutter, up bool) []chunk {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := time.Now().Add(r.delay)
	if !up {
		if r.spoiled {
			data[len(data)/3] ^= 1
		}
		return []chunk{{due, data, nil}}
	}
	list := []chunk{{due, data, nil}}
	for _, c := range commands.feed(data) {
		if stop := r.matchLocked(c.raw); stop != nil {
			list = []chunk{{due, data[:c.start], nil}, {due, data[c.start:], stop}}
			break
		}
	}
	if r.width == 0 {
		return list
	}
	return r.narrowLocked(l, list)
}

// narrowSize is how many bytes pass a narrow link at a time.
const narrowSize = 1 << 10

// narrowLocked cuts chunks into small ones that are due one after the other, each for as long as
// its bytes take.
func (r *Relay) narrowLocked(l *link, list []chunk) (small []chunk) {
	if now := time.Now(); l.passed.Before(now) {
		l.passed = now
	}
	for _, c := range list {
		for data := range slices.Chunk(c.data, narrowSize) {
			l.passed = l.passed.Add(time.Duration(len(data)) * time.Second / time.Duration(r.width))
			small = append(small, chunk{l.passed.Add(r.delay), data, c.stop})
			c.stop = nil
		}
	}
	return small
}
