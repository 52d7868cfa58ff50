package resp

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"
)

// TestBeginMany: thousands of commands in one packet are answered in order, on a stack that does
// not grow, and others have their turn between them.
func TestBeginMany(t *testing.T) {
	network, upstream := startRedis(t)
	deepest, begunNow := 0, 0
	var other *client
	between := make(chan int, 1)
	r := startRelay(t, network, upstream, func(o *Options) {
		o.Begin = func(conn redcon.Conn, cmd redcon.Command, done func()) bool {
			if string(cmd.Args[1]) == "other" {
				conn.WriteString("other")
				done()
				between <- begunNow
				return true
			}
			if begunNow++; begunNow == 1 {
				command, _ := lock("other")
				other.send(command)
			}
			deepest = max(deepest, runtime.Callers(0, make([]uintptr, 1000)))
			conn.WriteBulk(cmd.Args[1])
			done()
			return true
		}
	})
	other = r.dial()
	c := known(t, r)
	const count = 3000
	var commands, replies strings.Builder
	for i := range count {
		key := fmt.Sprint(i)
		command, _ := lock(key)
		commands.WriteString(command)
		fmt.Fprintf(&replies, "$%d\r\n%s\r\n", len(key), key)
	}
	c.send(commands.String())
	c.expect(replies.String())
	if deepest > 40 {
		t.Errorf("%d calls deep", deepest)
	}
	other.expect("+other\r\n")
	if n := <-between; n > 200 {
		t.Errorf("%d commands before the one of another client", n)
	}
}

// TestBeginAnsweredElsewhere: thousands of commands in one packet, each answered by another
// goroutine, or by the loop while it serves another connection.
func TestBeginAnsweredElsewhere(t *testing.T) {
	network, upstream := startRedis(t)
	waiting := make(chan *started, 1)
	r := startRelay(t, network, upstream, func(o *Options) {
		o.Begin = func(conn redcon.Conn, cmd redcon.Command, done func()) bool {
			one := &started{conn, string(cmd.Args[1]), done}
			switch {
			case one.key == "tick":
				conn.WriteString("tick")
				done()
				(<-waiting).answer()
			case len(one.key)%2 == 0:
				waiting <- one
			default:
				go one.answer()
			}
			return true
		}
	})
	ticks := r.dial()
	tick, _ := lock("tick")
	c := r.dial()
	const rounds = 300
	even, evenReply := lock("a", "a", "bb")
	c.send(strings.Repeat(even, rounds))
	for range rounds {
		for len(waiting) == 0 {
			runtime.Gosched()
		}
		ticks.send(tick)
		ticks.expect("+tick\r\n")
		c.expect(evenReply)
	}
}

// TestBeginAndFlood: requests after a running command are kept, up to the limits of reading ahead,
// and answered after it.
func TestBeginAndFlood(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	x, reply := lock("x")
	no, _ := lock("no")
	const ping = "*1\r\n$4\r\nPING\r\n"
	for _, size := range []int{aheadOwn - 1000, aheadOwn, 4 * aheadOwn, 32 * aheadOwn} {
		c := known(t, r)
		c.send(x)
		one := b.next("x")
		c.send(strings.Repeat(ping, size/len(ping)) + no)
		one.answer()
		c.expect(reply + strings.Repeat("+PONG\r\n", size/len(ping)))
		c.expect("$6\r\nown:no\r\n") // refused on a loop or never asked, the reply is the same
		c.Close()
		waitGone(t, r.server)
		if used := aheadUsed.Load(); used != 0 {
			t.Errorf("%d bytes: %d of the shared memory were not given back", size, used)
		}
	}
	c := known(t, r)
	c.SetDeadline(time.Now().Add(patience))
	c.send(x)
	one := b.next("x")
	gone := make(chan struct{})
	go func() {
		<-SessionOf(one.conn).ClientClosed()
		one.answer()
		close(gone)
	}()
	chunk := []byte(echoOf(200 << 10))
	sent := 0
	for err := error(nil); err == nil && sent < 2*aheadMost; sent += len(chunk) {
		_, err = c.Write(chunk)
	}
	if sent < aheadMost || sent >= 2*aheadMost {
		t.Errorf("disconnected after %d bytes", sent)
	}
	within(t, "word that the client is gone", gone)
	waitGone(t, r.server)
	if used := aheadUsed.Load(); used != 0 {
		t.Errorf("%d bytes of the shared memory were not given back", used)
	}
}
