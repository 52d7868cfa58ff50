package resp

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// startBusyable runs a redis-server that DEBUG SLEEP may keep busy.
func startBusyable(t *testing.T) (network, addr string) {
	t.Helper()
	network, addr = startRedis(t, "--enable-debug-command", "yes", "--lua-time-limit", "60000") // no -BUSY
	was := blockedTime
	t.Cleanup(func() { blockedTime = was })
	blockedTime = 10 * time.Millisecond
	return network, addr
}

// keepBusy makes the upstream carry out command, and returns while no other client is answered.
func keepBusy(t *testing.T, network, addr, command string) {
	t.Helper()
	for range 20 {
		busy, other := dialRaw(t, network, addr), dialRaw(t, network, addr)
		done := make(chan struct{})
		busy.send(command + "\r\n")
		go func() {
			defer close(done)
			busy.r.ReadByte()
		}()
		for over := false; !over; {
			select {
			case <-done: // before this goroutine looked
				over = true
				continue
			default:
			}
			other.send("PING\r\n")
			other.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if _, err := other.r.ReadString('\n'); err != nil {
				return
			}
		}
	}
	t.Fatal("the upstream is not busy")
}

const (
	busySleep  = "DEBUG SLEEP 0.5"
	busyScript = `EVAL "for i = 1, 100000000 do end" 0`
)

// TestHalfCloseWhileUpstreamIsBusy: a client that has ended its input loses no request that it
// sent before, lock commands and the requests after them included, even if the upstream is busy.
func TestHalfCloseWhileUpstreamIsBusy(t *testing.T) {
	network, addr := startBusyable(t)
	r := startRelay(t, network, addr, nil)
	const own = "$5\r\nown:k\r\n"
	for _, tt := range []struct{ name, before, answer, busy, send, want string }{
		{"one LOCK", "", "", busySleep, "SET a 1\r\nLOCK k 5000\r\n", "+OK\r\n" + own},
		{"a script", "", "", busyScript, "SET a 1\r\nLOCK k 5000\r\n", "+OK\r\n" + own},
		{"three lock commands", "", "", busySleep, "LOCK k 5000\r\nSET a 1\r\nLOCK k 5000\r\nSET c 1\r\nUNLOCK k x\r\n",
			own + "+OK\r\n" + own + "+OK\r\n" + own},
		{"a transaction", "", "", busySleep, "MULTI\r\nSET a 1\r\nEXEC\r\nLOCK k 5000\r\n",
			"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n" + own},
		{"XREAD without BLOCK", "", "", busySleep, "SET a 1\r\nXREAD COUNT 1 STREAMS block 0\r\nLOCK k 5000\r\n",
			"+OK\r\n*-1\r\n" + own},
		{"an unknown command", "", "", busySleep, "SET a 1\r\nno.such\r\nLOCK k 5000\r\n",
			"+OK\r\n-ERR unknown command 'no.such', with args beginning with: \r\n" + own},
		{"BLPOP that was answered", "RPUSH q x\r\nBLPOP q 0\r\n", ":1\r\n*2\r\n$1\r\nq\r\n$1\r\nx\r\n", busySleep,
			"MULTI\r\nSET a 1\r\nEXEC\r\nLOCK k 5000\r\n", "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n" + own},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := r.dial()
			c.t = t
			c.send(tt.before)
			c.expect(tt.answer)
			keepBusy(t, network, addr, tt.busy)
			c.send(tt.send + "SET b 2\r\n")
			c.Conn.(*net.TCPConn).CloseWrite()
			c.expect(tt.want + "+OK\r\n")
			c.expectEOF()
			other := dialRaw(t, network, addr)
			other.send("GET a\r\nGET b\r\nDEL a b\r\n")
			other.expect("$1\r\n1\r\n$1\r\n2\r\n:2\r\n")
		})
	}
}

// TestHalfCloseBehindBlocking: a client that ends its input while a command blocks it unblocks the
// upstream. The command pops no element, and the requests after it do not run.
func TestHalfCloseBehindBlocking(t *testing.T) {
	network, addr := startBusyable(t)
	r := startRelay(t, network, addr, nil)
	other := dialRaw(t, network, addr)
	other.send("XGROUP CREATE s g $ MKSTREAM\r\n")
	other.expect("+OK\r\n")
	for _, blocking := range []string{
		"BLPOP q 0", "brpop q 0", "BRPOPLPUSH q r 0", "BLMOVE q r LEFT RIGHT 0", "BLMPOP 0 1 q LEFT", "BZPOPMIN z 0",
		"BZPOPMAX z 0", "BZMPOP 0 1 z MIN",
		"XREAD COUNT 1 BLOCK 0 STREAMS s $", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "WAIT 1 0", "BLPOP q 0\r\nAUTH x",
		"BLPOP q 0\r\nSUBSCRIBE c",
	} {
		for _, before := range []string{"", "SUBSCRIBE a b\r\nRESET\r\n", "MULTI\r\nEXEC\r\n"} {
			c := r.dial()
			c.send(before)
			for range strings.Count(before, "\n") {
				skipFrame(t, c.r)
			}
			if strings.HasPrefix(before, "SUBSCRIBE") {
				skipFrame(t, c.r)
			}
			c.send(blocking + "\r\nLOCK k 5000\r\nSET b 2\r\n")
			c.Conn.(*net.TCPConn).CloseWrite()
			c.expectEOF()
			other.send("EXISTS b\r\n")
			other.expect(":0\r\n")
		}
	}
	other.send("RPUSH q x\r\nZADD z 1 x\r\nLLEN q\r\nZCARD z\r\nXADD s 1-1 a b\r\nXPENDING s g\r\n")
	other.expect(":1\r\n:1\r\n:1\r\n:1\r\n$3\r\n1-1\r\n*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n")
}

// TestNoLockWhoseRestIsLost: the upstream may be busy while BLPOP waits in vain for its answer.
// Then the lock command after it runs only if the request after that can run.
func TestNoLockWhoseRestIsLost(t *testing.T) {
	network, addr := startBusyable(t)
	r := startRelay(t, network, addr, nil)
	other := dialRaw(t, network, addr)
	other.send("RPUSH q x\r\n")
	other.expect(":1\r\n")
	c := r.dial()
	keepBusy(t, network, addr, busySleep)
	c.send("BLPOP q 0\r\nLOCK k 5000\r\nSET b 2\r\n")
	c.Conn.(*net.TCPConn).CloseWrite()
	replies, err := io.ReadAll(c.r)
	other.send("EXISTS b\r\n")
	ran, _ := other.r.ReadString('\n')
	if err != nil || strings.Contains(string(replies), "own:k") != (ran == ":1\r\n") {
		t.Errorf("the replies are %q (%v), and EXISTS b behind LOCK is %q", replies, err, ran)
	}
}
