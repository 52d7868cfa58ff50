package integration

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// relay is a TCP relay in this process, put between lockproxy and a master. It can freeze connections (bytes stay
// inside it), let frozen ones go on later, cut them, refuse new ones, slow every byte down, or stop at a given text.
type relay struct {
	addr, target string
	listener     net.Listener

	mu      sync.Mutex
	links   map[*link]bool
	frozen  bool          // new connections start frozen
	refused bool          // new connections are reset at once
	over    bool          // the test has ended
	spoiled bool          // a byte of every chunk towards the client is changed
	delay   time.Duration // for every chunk, each way
	holdAt  string        // the chunk towards the master with this text, and all after it, stay in the relay
	holdNth int           // ... counted from 1
	held    chan struct{} // closed when that has happened
	wg      sync.WaitGroup
}

// link is one connection through a relay.
type link struct {
	client, server *net.TCPConn
	up, down       *gate // towards the master, towards the proxy
	cut            chan struct{}
	cutOnce        sync.Once
}

// startRelay starts a relay in front of target.
func startRelay(t testing.TB, target string) *relay {
	t.Helper()
	r := &relay{addr: freeAddr(t), target: target, links: map[*link]bool{}}
	var err error
	if r.listener, err = net.Listen("tcp", r.addr); err != nil {
		t.Fatal(err)
	}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		r.listener.Close()
		r.mu.Lock()
		r.over = true
		r.mu.Unlock()
		r.cutAll()
		r.wg.Wait()
	})
	return r
}

// startRelays puts a relay in front of every server.
func startRelays(t testing.TB, servers []*redisServer) (relays []*relay, list string) {
	t.Helper()
	var names []string
	for _, s := range servers {
		r := startRelay(t, s.addr)
		relays, names = append(relays, r), append(names, r.addr)
	}
	return relays, strings.Join(names, ",")
}

func (r *relay) accept() {
	for {
		nc, err := r.listener.Accept()
		if err != nil {
			return
		}
		client := nc.(*net.TCPConn)
		server, err := net.DialTimeout("tcp", r.target, time.Second)
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
func (r *relay) join(client, server *net.TCPConn) bool {
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

// carry copies one direction. What was read is written even if its sender has gone meanwhile, as a network does.
func (r *relay) carry(l *link, from, to *net.TCPConn, g *gate, up bool) {
	type chunk struct {
		due  time.Time
		data []byte
	}
	queue := make(chan chunk, 4096)
	r.wg.Go(func() {
		for c := range queue {
			if !g.wait(l.cut) || !sleepUntil(c.due, l.cut) || !g.wait(l.cut) {
				continue
			}
			if _, err := to.Write(c.data); err != nil {
				continue // the reader below notices by itself
			}
		}
		_ = to.CloseWrite()
	})
	defer close(queue)
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		if n > 0 {
			if up {
				r.look(l, data[:n])
			}
			r.mu.Lock()
			if r.spoiled && !up {
				data[n/3] ^= 1
			}
			due := time.Now().Add(r.delay)
			r.mu.Unlock()
			select {
			case queue <- chunk{due, data[:n]}:
			case <-l.cut:
				return
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

// look shuts the way to the master at the text that hold asked for.
func (r *relay) look(l *link, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holdAt == "" || !strings.Contains(string(data), r.holdAt) {
		return
	}
	if r.holdNth--; r.holdNth == 0 {
		l.up.set(false)
		r.holdAt = ""
		close(r.held)
	}
}

// hold freezes the way to the master from the nth chunk on that contains text. The channel is closed then.
func (r *relay) hold(text string, nth int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holdAt, r.holdNth, r.held = text, nth, make(chan struct{})
	return r.held
}

// wantHeld waits until a relay holds what it was told to.
func wantHeld(t testing.TB, held <-chan struct{}) {
	t.Helper()
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatalf("nothing to hold came through the relay within %v", patience)
	}
}

// freeze keeps all bytes of present and new connections inside the relay.
func (r *relay) freeze() { r.setAll(false, true) }

// freezeAnswers keeps what masters send on present connections inside the relay; commands still reach them.
func (r *relay) freezeAnswers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.down.set(false)
	}
}

// thaw lets everything go on, late bytes of connections that the proxy has given up included.
func (r *relay) thaw() { r.setAll(true, false) }

// thawNew lets new connections through while the present ones stay as they are.
func (r *relay) thawNew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = false
}

func (r *relay) setAll(open, frozen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = frozen
	for l := range r.links {
		l.up.set(open)
		l.down.set(open)
	}
}

// slow delays every chunk, each way, from now on.
func (r *relay) slow(delay time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = delay
}

// spoil makes the relay change bytes of what it carries to the client.
func (r *relay) spoil(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoiled = yes
}

// refuse makes new connections end with a reset, until it is called with false.
func (r *relay) refuse(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = yes
}

// cutAll resets all connections on both sides; bytes inside the relay are lost.
func (r *relay) cutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.cutOnce.Do(func() { close(l.cut) })
		for _, c := range []*net.TCPConn{l.client, l.server} {
			_ = c.SetLinger(0)
			c.Close()
		}
		delete(r.links, l)
	}
}

// connections tells how many connections were made through the relay since the last cut.
func (r *relay) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.links)
}
