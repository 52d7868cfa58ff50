package wire

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/integration/redistest"
)

// server is one server with the scripts, and a connection that speaks to it with the code of this
// package.
type server struct {
	t    testing.TB
	mini *miniredis.Miniredis // nil: a real Redis
	addr string
	conn net.Conn
	buf  []byte // received, not parsed yet
}

// forEachServer runs f on miniredis and on a real Redis, which does not forgive what miniredis
// forgives.
func forEachServer(t *testing.T, f func(s *server)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		m := miniredis.RunT(t)
		f(dialServer(t, m.Addr(), m))
	})
	t.Run("redis", func(t *testing.T) { f(startRedis(t)) })
}

// startRedis starts a redis-server.
func startRedis(t testing.TB, args ...string) *server {
	t.Helper()
	return dialServer(t, redistest.StartTCP(t, args...).Addr, nil)
}

func dialServer(t testing.TB, addr string, m *miniredis.Miniredis) *server {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &server{t: t, mini: m, addr: addr, conn: c}
}

// sub is a subtest on the same server.
func (s *server) sub(name string, f func()) {
	whole := s.t.(*testing.T)
	whole.Helper()
	whole.Run(name, func(t *testing.T) {
		s.t = t
		defer func() { s.t = whole }()
		f()
	})
}

// another is a second connection to the same server.
func (s *server) another() *server { return dialServer(s.t, s.addr, s.mini) }

// send writes requests.
func (s *server) send(b []byte) {
	s.t.Helper()
	if _, err := s.conn.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

// receive waits for one reply.
func (s *server) receive(r *Reply) {
	s.t.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		n, err := Parse(s.buf, r)
		if err != nil {
			s.t.Fatalf("%v: %q", err, s.buf)
		}
		if n > 0 {
			s.buf = s.buf[n:]
			return
		}
		more := make([]byte, 64<<10)
		n, err = s.conn.Read(more)
		if err != nil {
			s.t.Fatal(err)
		}
		s.buf = append(s.buf, more[:n]...)
	}
}

// do runs a command and returns its reply as text: see Reply.String in this file.
func (s *server) do(args ...any) string {
	s.t.Helper()
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = fmt.Sprint(a)
	}
	s.send(AppendCommand(nil, texts...))
	var r Reply
	s.receive(&r)
	return text(&r)
}

// must is do for what may not fail.
func (s *server) must(args ...any) string {
	s.t.Helper()
	said := s.do(args...)
	if len(said) > 0 && said[0] == '!' {
		s.t.Fatalf("%v: %s", args, said)
	}
	return said
}

// text is a reply in a line: an error after an exclamation mark, nil, an array in brackets.
func text(r *Reply) string {
	switch {
	case r.Null:
		return "nil"
	case r.Kind == '-':
		return "!" + r.Text
	case r.Kind == ':':
		return fmt.Sprint(r.Int)
	case r.Kind == '*':
		all := make([]string, len(r.Elems))
		for i := range r.Elems {
			all[i] = text(&r.Elems[i])
		}
		return fmt.Sprint(all)
	}
	return r.Text
}

// batch is a batch of operations, which must belong to one packet.
func batch(t testing.TB, ops ...*Op) *Batch {
	t.Helper()
	b := new(Batch)
	for _, op := range ops {
		if !b.Add(op) {
			t.Fatalf("%s of %s does not belong to the packet", op.operation().name, op.Key)
		}
	}
	return b
}

// last is the group of the operation that was added last.
func (b *Batch) last() group {
	if b.n == 0 {
		return 0
	}
	return b.groups[b.n-1]
}

// packet runs operations in order, and checks the master's time: as one packet, or as several
// if one packet would reorder them.
func (s *server) packet(e *Encoder, record string, ops ...*Op) (all PacketReply) {
	s.t.Helper()
	for first := true; first || len(ops) > 0; first = false {
		var b Batch
		n := 0
		for ; n < len(ops) && ops[n].group() >= b.last() && b.Add(ops[n]); n++ {
		}
		p := s.onePacket(e, record, &b)
		all.Admitted, all.Writes, all.Clock = p.Admitted, p.Writes, p.Clock
		all.Results = append(all.Results, p.Results...)
		ops = ops[n:]
	}
	return all
}

func (s *server) onePacket(e *Encoder, record string, b *Batch) PacketReply {
	s.t.Helper()
	s.send(e.AppendPacket(nil, b, record, true))
	var r Reply
	s.receive(&r)
	p, ok := ParsePacket(&r, b.Len())
	if !ok {
		s.t.Fatalf("the packet was answered %s", text(&r))
	}
	if off := time.Since(time.Unix(0, int64(p.Clock))); off.Abs() > time.Minute {
		s.t.Errorf("the master's time is %v off", off)
	}
	return p
}
