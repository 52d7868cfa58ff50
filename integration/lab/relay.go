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

// Relay is a TCP relay in this process between lockproxy and a master. It can freeze connections
// (it keeps their bytes) and thaw them, cut them, refuse new ones, delay every byte, or stop at a
// given command. Its methods are safe for concurrent use.
type Relay struct {
	Addr     string // of the listener
	listener net.Listener

	mu      sync.Mutex
	target  string
	links   map[*link]bool
	frozen  bool          // new connections start frozen
	refused bool          // new connections are reset at once
	closed  bool          // the test has ended
	spoiled bool          // change a byte of every chunk towards the client
	delay   time.Duration // for every chunk, each way
	width   int           // bytes a second towards the server; 0 for no limit
	wanted  *wanted       // the command to stop at, or nil
	wg      sync.WaitGroup
}

// link is one connection through a relay.
type link struct {
	client, server *net.TCPConn
	up, down       *gate     // towards the master, towards the proxy
	passed         time.Time // when the last byte towards the master has passed; guarded by Relay.mu
	cut            chan struct{}
	cutOnce        sync.Once
}

// StartRelay starts a relay in front of target.
func StartRelay(t testing.TB, target string) *Relay {
	t.Helper()
	r := &Relay{target: target, links: map[*link]bool{}}
	err := error(nil)
	for range 20 { // another process may take the port before Listen
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
		r.closed = true
		r.mu.Unlock()
		r.CutAll()
		r.wg.Wait()
	})
	return r
}

// StartRelays starts a relay before every server, and returns a list of their addresses as well.
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

// join begins to relay between two connections; false means that the relay refuses new ones.
func (r *Relay) join(client, server *net.TCPConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused || r.closed {
		return false
	}
	l := &link{client: client, server: server, up: newGate(!r.frozen), down: newGate(!r.frozen), cut: make(chan struct{})}
	r.links[l] = true
	r.wg.Go(func() { r.carry(l, client, server, l.up, true) })
	r.wg.Go(func() { r.carry(l, server, client, l.down, false) })
	return true
}

// chunk is a piece of the bytes on a link.
type chunk struct {
	due  time.Time
	data []byte
	stop *wanted // the wanted command, if it begins here
}

// carry copies one direction. Like a network, it delivers the bytes that it has read even if their
// sender has closed the connection.
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
			g.wait(l.cut) // a reset passes after the bytes before it
		}
		if err != nil {
			return
		}
	}
}

// deliver writes the bytes that carry has read.
func (r *Relay) deliver(l *link, to *net.TCPConn, g *gate, queue <-chan chunk) {
	for c := range queue {
		if c.stop != nil {
			r.stopAt(l, c.stop)
		}
		if !g.wait(l.cut) || !sleepUntil(c.due, l.cut) || !g.wait(l.cut) {
			continue
		}
		if _, err := to.Write(c.data); err != nil {
			continue // carry of the other direction notices as well
		}
	}
	_ = to.CloseWrite()
}

// pieces makes one chunk of the data, or two if the wanted command begins in it.
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

// narrowSize is the number of bytes that pass a narrow link at a time.
const narrowSize = 1 << 10

// narrowLocked cuts chunks into small ones. Each is due later than the one before by the time that
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
