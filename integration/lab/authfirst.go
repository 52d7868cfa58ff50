package lab

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// NoAuth is the reply of a server to a connection that is not logged in.
const NoAuth = "-NOAUTH Authentication required.\r\n"

// AuthFirst relays to a redis-server and imitates a server that checks authentication before it
// looks up the command, like Valkey since 9.1. A connection that is not logged in gets NoAuth for
// an unknown command, for a wrong number of arguments and for a disabled command. Redis would name
// these faults:
//
//	> *1\r\n$4\r\nnope\r\n
//	< -NOAUTH Authentication required.\r\n
//
// AUTH, HELLO, RESET and QUIT are exempt. In all else it behaves like Redis.
//
// It asks Redis whether a connection is logged in, and never guesses. Only RESET ends a login. So
// it passes all bytes unchanged while the connection is logged in, and after a RESET it waits
// until Redis has executed that. Before the login every command has exactly one reply, and
// AuthFirst sends the commands one by one.
//
// It recognises arrays of bulk strings and simple inline commands. After any other bytes it passes
// all bytes on.
type AuthFirst struct {
	Addr     string // of the listener
	target   string
	listener net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once the test has ended
	wg    sync.WaitGroup
}

// StartAuthFirst starts an AuthFirst before the redis-server at target.
func StartAuthFirst(t testing.TB, target string) *AuthFirst {
	t.Helper()
	a := &AuthFirst{target: target, conns: map[net.Conn]bool{}}
	var err error
	if a.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	a.Addr = a.listener.Addr().String()
	a.wg.Go(a.accept)
	t.Cleanup(a.close)
	return a
}

func (a *AuthFirst) close() {
	a.listener.Close()
	a.mu.Lock()
	for c := range a.conns {
		c.Close()
	}
	a.conns = nil
	a.mu.Unlock()
	a.wg.Wait()
}

func (a *AuthFirst) accept() {
	for {
		client, err := a.listener.Accept()
		if err != nil {
			return
		}
		a.wg.Go(func() { a.serve(client) })
	}
}

// serve carries one connection.
func (a *AuthFirst) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", a.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !a.join(client, server) {
		return
	}
	defer a.leave(client, server)
	c := &authFirstConn{client: client, server: server.(*net.TCPConn), replies: bufio.NewReaderSize(server, 64<<10),
		chunks: make(chan []byte, 64), done: make(chan struct{})}
	var reader sync.WaitGroup
	reader.Go(c.read)
	c.run()
	close(c.done)
	client.Close()
	reader.Wait()
}

func (a *AuthFirst) join(conns ...net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conns == nil {
		return false
	}
	for _, c := range conns {
		a.conns[c] = true
	}
	return true
}

func (a *AuthFirst) leave(conns ...net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range conns {
		delete(a.conns, c)
	}
}

// authFirstConn is one connection through an AuthFirst. Only run's goroutine uses its fields,
// except for chunks and done.
type authFirstConn struct {
	client  net.Conn
	server  *net.TCPConn
	replies *bufio.Reader // of server; only the copier reads while one runs

	chunks chan []byte   // bytes from the client; closed when the client sends no more
	done   chan struct{} // closed when run has ended
	held   []byte        // bytes from the client that were not sent on
	raw    bool          // the bytes are no requests
}

// read passes the client's bytes to chunks.
func (c *authFirstConn) read() {
	defer close(c.chunks)
	for {
		buf := make([]byte, 16<<10)
		n, err := c.client.Read(buf)
		if n > 0 {
			select {
			case c.chunks <- buf[:n]:
			case <-c.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// run serves the connection, before and after logins, until one side ends it.
func (c *authFirstConn) run() {
	for {
		in, err := c.loggedIn()
		if err != nil || !in && !c.oneByOne() || !c.passOn() {
			return
		}
	}
}

// loggedIn asks Redis. EXEC outside a transaction has no effect and shows in no MONITOR. It must
// not be called inside a transaction, with subscriptions or with replies off: those end with
// RESET, and cannot begin without a login.
func (c *authFirstConn) loggedIn() (bool, error) {
	reply, err := c.ask([]byte(Encode("EXEC")))
	return !strings.Contains(reply, "NOAUTH"), err
}

func (c *authFirstConn) ask(request []byte) (string, error) {
	if _, err := c.server.Write(request); err != nil {
		return "", err
	}
	return ReadFrame(c.replies)
}

// next returns the next request; end is true if the client sends no more.
func (c *authFirstConn) next() (raw []byte, args []string, end bool) {
	for {
		if n, args := requestOf(c.held); n < 0 {
			c.raw = true
			return nil, nil, false
		} else if n > 0 {
			raw, c.held = c.held[:n:n], c.held[n:]
			return raw, args, false
		}
		chunk, ok := <-c.chunks
		if !ok {
			return nil, nil, true
		}
		c.held = append(c.held, chunk...)
	}
}

// oneByOne serves a connection until it logs in; false means that the connection has ended.
func (c *authFirstConn) oneByOne() bool {
	for {
		raw, args, end := c.next()
		switch {
		case c.raw:
			return true
		case end:
			c.server.CloseWrite()
			_, _ = c.replies.WriteTo(c.client)
			return false
		case len(args) == 0: // has no reply
			if _, err := c.server.Write(raw); err != nil {
				return false
			}
			continue
		}
		reply, in, err := c.one(raw, strings.ToLower(args[0]))
		if err != nil {
			return false
		}
		if _, err := c.client.Write([]byte(reply)); err != nil || in {
			return in && err == nil
		}
	}
}

// one sends one command to Redis. It returns the reply for the client, and whether the connection
// is logged in now.
func (c *authFirstConn) one(raw []byte, name string) (reply string, in bool, err error) {
	if reply, err = c.ask(raw); err != nil || name == "quit" {
		return reply, false, err
	}
	exempt := slices.Contains([]string{"auth", "hello", "reset"}, name)
	if !exempt && strings.Contains(reply, "NOAUTH") {
		return reply, false, nil
	}
	in, err = c.loggedIn()
	switch {
	case exempt || in || err != nil:
		return reply, in, err
	case name == "exec":
		return "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n", false, nil
	}
	return NoAuth, false, nil
}

// passOn serves a connection that is logged in until Redis has executed a RESET; false means that
// the connection has ended.
func (c *authFirstConn) passOn() bool {
	nonce := rand.Text()
	copier := authFirstCopier{pattern: []byte("-ERR unknown command '" + nonce + "'"), met: make(chan bool, 1)}
	go func() { copier.met <- copier.copy(c.client, c.replies) }()
	for {
		batch, reset := c.batch()
		if reset {
			batch = append(batch, Encode(nonce)...)
		}
		if len(batch) > 0 {
			if _, err := c.server.Write(batch); err != nil {
				return c.drain(&copier)
			}
		}
		if reset {
			return <-copier.met
		}
		select {
		case chunk, ok := <-c.chunks:
			if !ok {
				c.server.CloseWrite()
				return c.drain(&copier)
			}
			c.held = append(c.held, chunk...)
		case met := <-copier.met: // Redis closed the connection
			return met
		}
	}
}

// drain waits until Redis has sent its last reply. It returns false.
func (c *authFirstConn) drain(copier *authFirstCopier) bool {
	<-copier.met
	return false
}

// batch takes all complete requests, up to a RESET.
func (c *authFirstConn) batch() (batch []byte, reset bool) {
	for !reset && !c.raw {
		n, args := requestOf(c.held)
		if c.raw = n < 0; n <= 0 {
			break
		}
		batch, c.held = append(batch, c.held[:n]...), c.held[n:]
		reset = len(args) == 1 && strings.EqualFold(args[0], "reset")
	}
	if c.raw {
		batch, c.held = append(batch, c.held...), nil
	}
	return batch, reset
}

// authFirstCopier copies replies up to the error for the unknown command after a RESET. It drops
// that error.
type authFirstCopier struct {
	pattern []byte
	met     chan bool // capacity 1: true after that error, false at the end of the connection
}

func (p authFirstCopier) copy(to net.Conn, from *bufio.Reader) bool {
	var kept []byte
	for {
		if _, err := from.Peek(1); err != nil {
			to.Close()
			return false
		}
		b, _ := from.Peek(from.Buffered())
		kept = append(kept, b...)
		_, _ = from.Discard(len(b))
		safe := len(kept)
		if at := bytes.Index(kept, p.pattern); at >= 0 {
			if safe = at; bytes.IndexByte(kept[at:], '\n') >= 0 { // it is the last reply
				_, err := to.Write(kept[:at])
				return err == nil
			}
		} else {
			for n := min(len(p.pattern)-1, len(kept)); n > 0; n-- {
				if bytes.HasSuffix(kept, p.pattern[:n]) {
					safe -= n
					break
				}
			}
		}
		if _, err := to.Write(kept[:safe]); err != nil {
			return false
		}
		kept = slices.Clone(kept[safe:])
	}
}

// requestOf returns the length and the arguments of the first request in b. The length is 0 if the
// request is incomplete, and -1 if b begins with no request. An empty request has no arguments.
func requestOf(b []byte) (n int, args []string) {
	if len(b) == 0 {
		return 0, nil
	}
	if b[0] == '*' {
		if n = commandLen(b); n <= 0 {
			return n, nil
		}
		for _, element := range Elements(string(b[:n])) {
			args = append(args, Scalar(element))
		}
		return n, args
	}
	if n = bytes.IndexByte(b, '\n') + 1; n == 0 && len(b) > 64<<10 {
		return -1, nil
	}
	for word := range strings.FieldsSeq(string(b[:n])) {
		args = append(args, strings.Trim(word, `"'`))
	}
	return n, args
}
