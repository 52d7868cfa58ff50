package quorum

import (
	"net"
	"sync"
	"testing"
)

// relay is a TCP relay to one server. Like a network that heals, it can hold back bytes of
// clients, reset their connections, and still deliver the bytes late.
type relay struct {
	addr, to string
	ln       net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	frozen bool
	gone   bool
	links  map[*link]bool
}

type link struct {
	client, server net.Conn
	held           []byte
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: ln.Addr().String(), to: to, ln: ln, links: map[*link]bool{}}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		r.mu.Lock()
		r.gone = true
		for l := range r.links {
			_ = l.client.Close()
			_ = l.server.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		client, err := r.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.to)
		r.mu.Lock()
		if err != nil || r.gone {
			_ = client.Close()
			r.mu.Unlock()
			continue
		}
		l := &link{client: client, server: server}
		r.links[l] = true
		r.wg.Go(func() { r.up(l) })
		r.wg.Go(func() { r.down(l) })
		r.mu.Unlock()
	}
}

func (r *relay) up(l *link) {
	buf := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buf)
		r.mu.Lock()
		if r.frozen {
			l.held = append(l.held, buf[:n]...)
		} else if n > 0 {
			_, _ = l.server.Write(buf[:n])
		}
		frozen := r.frozen
		r.mu.Unlock()
		if err != nil {
			if !frozen {
				_ = l.server.Close()
			}
			return
		}
	}
}

func (r *relay) down(l *link) {
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		if n > 0 {
			_, _ = l.client.Write(buf[:n])
		}
		if err != nil {
			_ = l.client.Close()
			return
		}
	}
}

// freeze holds back everything from now on.
func (r *relay) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

// cut resets the clients' connections and lets new ones through. With late, the first half of what
// was held back still reaches the server, before the server's side is closed.
func (r *relay) cut(late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = false
	for l := range r.links {
		if tcp, ok := l.client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = l.client.Close()
		if late {
			_, _ = l.server.Write(l.held[:len(l.held)/2])
			continue // for the server its connection is open
		}
		_ = l.server.Close()
		delete(r.links, l)
	}
}
