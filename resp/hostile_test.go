package resp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"lockproxy/resp/internal/scan"
)

// TestReplicationBehindUnreadReplies: a client that does not read its replies and then speaks as a
// replica stalls no other client. The pump, on the loop, must not wait for the lock of outbound,
// which the copier holds while it writes: the same loop must wake the copier.
func TestReplicationBehindUnreadReplies(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	deaf, other := r.dial(), r.dial()
	other.send("PING\r\n")
	other.expect("+PONG\r\n")
	deaf.send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n%s\r\n", bytes.Repeat([]byte("x"), 1e6)))
	deaf.expect("+OK\r\n")
	deaf.send(strings.Repeat("GET k\r\n", 50))
	var stuck *Session
	eventually(t, "a copier that cannot go on", func() bool {
		for _, s := range r.server.all() {
			if s.progress.writing.Load() {
				stuck = s
			}
		}
		return stuck != nil
	})
	deaf.send("REPLCONF x\r\n")
	eventually(t, "the end of replies of ours", stuck.out.noReply.Load)
	other.send("PING\r\n")
	other.expect("+PONG\r\n")
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// TestForgedRefusal: a client that has learnt HELLO's marker from a monitor, and controls a reply
// of the upstream, must not end a query before its own answers. These would reach the client, and
// with them the secret of the other markers.
func TestForgedRefusal(t *testing.T) {
	client := &picky{most: func() int { return 1 << 20 }}
	c := copierTo(client)
	defer c.s.srv.loops.Close()
	proto := &c.s.proto
	proto.AskAgain()
	request, _ := proto.Ask()
	hello := markers(request)['1'] // seen by a monitor, with the query's number
	full := section{full: true}
	<-answered(c, string(answersTo(request, full)))
	request, _ = proto.Ask()
	next := markers(request)['2']
	number := next[len(next)-12 : len(next)-1]
	forged := "*5\r\n" + strings.Repeat("-NOAUTH x\r\n", 3) +
		fmt.Sprintf("-ERR %s%s1\r\n", hello[:len(hello)-12], number) + "-NOAUTH x\r\n"
	answered(c, forged)
	if len(proto.Answered()) > 0 {
		t.Error("the query is taken for answered")
	}
	answered(c, string(answersTo(request, full)))
	if len(proto.Answered()) == 0 {
		t.Error("the query is not answered by its own answers")
	}
	if secret := next[:len(next)-12]; bytes.Contains(client.got, []byte(secret)) {
		t.Errorf("the client got the secret: %q", client.got)
	}
}

// answered gives a reply to the copier.
func answered(c *copier, reply string) <-chan uint64 {
	c.in.Grew(copy(c.in.Room(), reply))
	c.relay(false)
	return c.s.proto.Answered()
}

// TestLateAnswerMeetsNextQuestion, with -race: the answer to a query that was given up comes while
// the next one is asked.
func TestLateAnswerMeetsNextQuestion(t *testing.T) {
	for i := range 3000 {
		c := copierTo(&picky{})
		proto := &c.s.proto
		proto.AskAgain()
		request, _ := proto.Ask()
		late := string(answersTo(request, section{full: true}))
		proto.GiveUp()
		done := make(chan struct{})
		go func() { defer close(done); answered(c, late) }()
		time.Sleep(time.Duration(i%100) * time.Microsecond)
		proto.Ask()
		<-done
		select {
		case n := <-proto.Answered():
			if n == 2 {
				t.Error("the answer to query 1 is taken for that to query 2")
			}
		default:
		}
		c.s.srv.loops.Close()
	}
}

// TestLockInSilenceBehindReplyOn: replies are on again, for certain; a command that takes its time
// does not make them off.
func TestLockInSilenceBehindReplyOn(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	c := r.dial()
	c.send("CLIENT REPLY OFF\r\nCLIENT REPLY ON\r\nBLPOP nothing 1\r\nLOCK k 1000\r\n")
	c.expect("+OK\r\n*-1\r\n$5\r\nown:k\r\n")
}

// TestRefusalsAreBounded: a client that does not read while the upstream is away costs under 1 MB.
func TestRefusalsAreBounded(t *testing.T) {
	name := strings.Repeat("x", 40)
	r := startRelay(t, "tcp", name, func(o *Options) {
		o.Dial = func(context.Context) (net.Conn, error) { return nil, io.ErrUnexpectedEOF }
	})
	p := &picky{}
	sess := newSession(&r.server.shared, p, nil)
	sess.up.failed = io.ErrUnexpectedEOF
	sess.in.buf.Grew(copy(sess.in.buf.Room(), strings.Repeat("a\n", 32768)))
	sess.pump.scan(false)
	if p.largest > 1<<18 || len(p.got) < 1<<20 {
		t.Errorf("%d bytes, %d at once, for 64 KB", len(p.got), p.largest)
	}
}

// TestInlineArgumentsAreNotKept: only a few words of CLIENT are kept, in both forms of a request.
func TestInlineArgumentsAreNotKept(t *testing.T) {
	var req scan.Requests
	req.Scan([]byte("CLIENT" + strings.Repeat(" a", 32000) + "\n"))
	if n := cap(req.Argv); n > 64 {
		t.Errorf("%d arguments are kept for as long as the connection lives", n)
	}
}

// TestLastReplyBeforeSilence: the last reply before replies are off may look like the refusal of a
// query. It reaches the client although no bytes follow it, whatever reads the upstream.
func TestLastReplyBeforeSilence(t *testing.T) {
	network, addr := startRedis(t)
	for name, dial := range map[string]func(net.Conn) net.Conn{
		"a loop":      func(c net.Conn) net.Conn { return c },
		"a goroutine": func(c net.Conn) net.Conn { return struct{ net.Conn }{c} }, // as with TLS
	} {
		t.Run(name, func(t *testing.T) {
			r := startRelay(t, network, addr, func(o *Options) {
				o.Dial = func(ctx context.Context) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, addr)
					return dial(c), err
				}
			})
			c := r.dial()
			c.send("MULTI\r\nEVAL \"return redis.error_reply('NOAUTH x')\" 0\r\nEXEC\r\nCLIENT REPLY OFF\r\nLOCK k 1000\r\n")
			c.expect("+OK\r\n+QUEUED\r\n*1\r\n-NOAUTH x\r\n")
			c.send("CLIENT REPLY ON\r\nLOCK k 1000\r\n")
			c.expect("+OK\r\n$5\r\nown:k\r\n")
		})
	}
}
