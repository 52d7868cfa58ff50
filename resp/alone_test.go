package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/redcon"
)

// lonely is a relay whose upstream can be switched on and off.
type lonely struct {
	*relay
	up, password atomic.Bool
	dials        atomic.Int64

	mu    sync.Mutex
	asked []string // requests that Alone got
}

// startLonely starts a relay whose upstream is off. Alone answers PING, ECHO, HELLO and SCRIPT.
func startLonely(t *testing.T, watched bool) *lonely {
	network, upstream := startRedis(t)
	l := &lonely{}
	l.relay = startGated(t, network, upstream, watched, func(o *Options) {
		o.UpstreamName = "there"
		o.Alone = l.alone
		o.Facts = func() Facts { return Facts{AuthRequired: l.password.Load(), Resets: true} }
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			if l.dials.Add(1); !l.up.Load() {
				return nil, errors.New("is off")
			}
			return dial(ctx)
		}
	})
	return l
}

// alone is Options.Alone.
func (l *lonely) alone(conn redcon.Conn, cmd redcon.Command) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, string(cmd.Args[0]))
	switch string(cmd.Args[0]) {
	case "ping":
		conn.WriteString("ALONE")
	case "echo":
		conn.WriteBulk(cmd.Args[1])
	case "hello":
		if v := string(cmd.Args[1]); v != "2" && v != "3" {
			conn.WriteError("NOPROTO")
		} else {
			conn.WriteString("HELLO" + v)
		}
	case "script":
		conn.WriteString("LOADED")
	default:
		return false
	}
	return true
}

// names returns the names of the requests that Alone got.
func (l *lonely) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

const isOff = "-ERR upstream there: is off\r\n"

func TestAloneAnswersWithoutUpstream(t *testing.T) {
	long := "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$70000\r\n" + strings.Repeat("s", 70_000) + "\r\n"
	eachWay(t, func(t *testing.T, watched bool) {
		l := startLonely(t, watched)
		for _, tt := range []struct{ name, send, want string }{
			{"answered", "PING\r\n", "+ALONE\r\n"},
			{"not answered", "GET a\r\n", isOff},
			{"in order", "GET lock:a\r\nPING\r\nGET a\r\nGET lock:a\r\nECHO x\r\n",
				ownGet + "+ALONE\r\n" + isOff + ownGet + "$1\r\nx\r\n"},
			{"array", "*2\r\n$4\r\nEcHo\r\n$1\r\ny\r\n*1\r\n$4\r\nPING\r\n", "$1\r\ny\r\n+ALONE\r\n"},
			{"ignored requests", "PING\r\n*0\r\n\r\n \r\nPING\r\n", "+ALONE\r\n+ALONE\r\n"},
			{"HELLO 3", "HELLO 3\r\nGET lock:a\r\nHELLO 4\r\nGET lock:a\r\nHELLO 2\r\nGET lock:a\r\n",
				"+HELLO3\r\n" + ownGet3 + "-NOPROTO\r\n" + ownGet3 + "+HELLO2\r\n" + ownGet},
			{"too long for Alone", "PING\r\n" + long + "PING\r\n", "+ALONE\r\n" + isOff + "+ALONE\r\n"},
			{"MULTI", "MULTI\r\nGET lock:a\r\nEXEC\r\n", isOff + ownGet + isOff},
			{"many", strings.Repeat("PING\r\nGET a\r\n", 300), strings.Repeat("+ALONE\r\n"+isOff, 300)},
		} {
			t.Run(tt.name, func(t *testing.T) { l.play(t, tt.send, tt.want) })
		}
		for _, tt := range []struct{ name, send, want string }{
			{"QUIT", "PING\r\nQUIT\r\nPING\r\n", "+ALONE\r\n+OK\r\n"},
			{"malformed", "PING\r\n*x\r\n", "+ALONE\r\n-ERR Protocol error: invalid multibulk length\r\n"},
			{"malformed at once", "*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
			{"malformed in a command", "*2\r\n$4\r\nECHO\r\n:\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				c := l.dial()
				c.t = t
				c.send(tt.send)
				c.expect(tt.want)
				c.expectEOF()
			})
		}
		if slices.Contains(l.names(), "quit") {
			t.Error("Alone got QUIT")
		}
	})
}

// TestAloneIsNeverRelayed: after an answer by Alone the connection keeps to Alone, and ends when
// that does not answer although the upstream is back. Others are relayed.
func TestAloneIsNeverRelayed(t *testing.T) {
	eachWay(t, func(t *testing.T, watched bool) {
		l := startLonely(t, watched)
		ever, never := l.dial(), l.dial()
		ever.send("PING\r\n")
		ever.expect("+ALONE\r\n")
		never.send("GET a\r\n")
		never.expect(isOff)
		l.up.Store(true)
		ever.send("PING\r\nGET lock:a\r\n")
		ever.expect("+ALONE\r\n" + ownGet)
		never.send("PING\r\nGET a\r\n") // and so it is seen that the upstream is back
		never.expect("+PONG\r\n$-1\r\n")
		ever.send("GET lock:a\r\nPING\r\nGET a\r\nGET lock:a\r\n")
		ever.expect(ownGet + "+ALONE\r\n" + isOff)
		ever.expectEOF()
	})
}

// TestAlonePassword: Alone does not answer for an upstream that wants a password.
func TestAlonePassword(t *testing.T) {
	eachWay(t, func(t *testing.T, watched bool) {
		l := startLonely(t, watched)
		l.password.Store(true)
		c := l.dial()
		c.send("PING\r\nGET lock:a\r\nPING\r\nQUIT\r\n")
		c.expect(isOff + ownGet + isOff + "+OK\r\n")
		c.expectEOF()
		if asked := l.names(); len(asked) > 0 {
			t.Errorf("Alone got %q", asked)
		}
	})
}

// TestAloneDialsOnce: requests that came together cost one dial.
func TestAloneDialsOnce(t *testing.T) {
	l := startLonely(t, true)
	c := l.dial()
	c.send(strings.Repeat("GET a\r\n", 100))
	c.expect(strings.Repeat(isOff, 100))
	if n := l.dials.Load(); n > 10 { // they may come in several pieces
		t.Errorf("%d dials for the errors", n)
	}
	c.send("PING\r\n")
	c.expect("+ALONE\r\n")
	before := l.dials.Load()
	for range 20 {
		c.send("PING\r\n")
		c.expect("+ALONE\r\n")
	}
	if n := l.dials.Load() - before; n > 0 {
		t.Errorf("%d dials after Alone had answered", n)
	}
}

// TestUpstreamIsTriedOnceASecond: whether the upstream is back is tried once a second at most, if
// no client dials.
func TestUpstreamIsTriedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f dialFailure
		dials, up := 0, false
		open := func(context.Context) (net.Conn, error) {
			if dials++; !up {
				return nil, errors.New("is off")
			}
			near, far := net.Pipe()
			far.Close()
			return near, nil
		}
		back := func(since time.Time) bool { return f.back(t.Context(), since, open) }
		f.dial(t.Context(), open)
		since := time.Now()
		var got []string
		for i := range 25 {
			time.Sleep(100 * time.Millisecond)
			up = i >= 15
			is := back(since)
			got = append(got, fmt.Sprint(dials, is))
		}
		want := slices.Repeat([]string{"1 false"}, 9)
		want = append(want, slices.Repeat([]string{"2 false"}, 10)...)
		want = append(want, slices.Repeat([]string{"3 true"}, 6)...)
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
		if time.Sleep(time.Millisecond); back(time.Now()) {
			t.Error("a dial before counts")
		}
	})
}
