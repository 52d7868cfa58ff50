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

// NoAuth is how a server refuses a connection that is not logged in.
const NoAuth = "-NOAUTH Authentication required.\r\n"

// AuthFirst is a stand-in for a server that checks authentication before it looks a command up, as
// Valkey does since 9.1. It stands in front of a redis-server. A connection that is not logged in
// gets NoAuth for an unknown command, for a wrong number of arguments and for a command that is
// switched off, where Redis names these faults:
//
//	> *1\r\n$4\r\nnope\r\n
//	< -NOAUTH Authentication required.\r\n
//
// AUTH, HELLO, RESET and QUIT are exempt. Nothing else differs from Redis.
//
// It asks Redis whether a connection is logged in, and never guesses. Only RESET ends a login. So
// bytes pass as they are while the connection is logged in, and behind a RESET everything waits
// until it was executed. While the connection is not logged in, every command has exactly one
// reply, and commands go one by one.
//
// It cuts requests at arrays of bulk strings and at simple inline commands. Behind anything else
// it passes all bytes on.
type AuthFirst struct {
	Addr     string // where it listens
	target   string
	listener net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once the test has ended
	wg    sync.WaitGroup
}

// StartAuthFirst starts a stand-in in front of the redis-server at target.
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
		chunks: make(chan []byte, 64), gone: make(chan struct{})}
	var reader sync.WaitGroup
	reader.Go(c.read)
	c.run()
	close(c.gone)
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

// authFirstConn is one connection through the stand-in. Only run's goroutine uses its fields, but
// for chunks and gone.
type authFirstConn struct {
	client  net.Conn
	server  *net.TCPConn
	replies *bufio.Reader // of server; the copier's while one runs

	chunks chan []byte // what the client sends; closed at its end
	gone   chan struct{}
	held   []byte // what of it was not sent on yet
	raw    bool   // the bytes are no requests any more
}

// read passes on what the client sends.
func (c *authFirstConn) read() {
	defer close(c.chunks)
	for {
		buf := make([]byte, 16<<10)
		n, err := c.client.Read(buf)
		if n > 0 {
			select {
			case c.chunks <- buf[:n]:
			case <-c.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// run goes through the phases of the connection until one side ends it.
func (c *authFirstConn) run() {
	for {
		in, err := c.loggedIn()
		if err != nil || !in && !c.oneByOne() || !c.passOn() {
			return
		}
	}
}

// loggedIn asks Redis. EXEC outside a transaction changes nothing and shows in no MONITOR. It must
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

// next returns the next request. end: the client sends no more.
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

// oneByOne serves a connection that is not logged in until it is; false means that the connection
// has ended.
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

// one asks one command, and returns the reply for the client and whether it is logged in now. Redis
// refuses everything else before that.
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

// passOn serves a connection that is logged in until a RESET was executed; false means that the
// connection has ended.
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
				return c.over(&copier)
			}
		}
		if reset {
			return <-copier.met
		}
		select {
		case chunk, ok := <-c.chunks:
			if !ok {
				c.server.CloseWrite()
				return c.over(&copier)
			}
			c.held = append(c.held, chunk...)
		case met := <-copier.met: // Redis closed the connection
			return met
		}
	}
}

// over waits for the end of what Redis still says.
func (c *authFirstConn) over(copier *authFirstCopier) bool {
	<-copier.met
	return false
}

// batch takes the whole requests that are there, up to a RESET.
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

// authFirstCopier carries replies until it meets the answer to the unknown command behind a RESET.
// It drops that.
type authFirstCopier struct {
	pattern []byte
	met     chan bool // capacity 1: whether it met the answer; false at the end of the connection
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
			if safe = at; bytes.IndexByte(kept[at:], '\n') >= 0 { // nothing was sent behind it
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

// requestOf returns the length and the arguments of the request that b begins with; 0 if it is not
// all there, -1 if it is none. An empty one has no arguments.
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
