package resp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRandomPipelines sends random commands with ours among them, cut at random places, and checks
// every reply.
func TestRandomPipelines(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for conn := range uint64(4) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, conn))
			var send, want strings.Builder
			for i := range 3000 {
				switch v := strconv.Itoa(i); random.IntN(6) {
				case 0, 1:
					send.WriteString("LOCK " + v + " 1\r\n")
					want.WriteString(fmt.Sprintf("$%d\r\nown:%s\r\n", 4+len(v), v))
				case 2:
					send.WriteString("PING\r\n")
					want.WriteString("+PONG\r\n")
				case 3:
					body := strings.Repeat("LOCK x 1\r\n", random.IntN(300))
					fmt.Fprintf(&send, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(body), body)
					fmt.Fprintf(&want, "$%d\r\n%s\r\n", len(body), body)
				case 4:
					send.WriteString("NOSUCH " + v + "\r\n")
					want.WriteString("-ERR unknown command 'NOSUCH', with args beginning with: '" + v + "' \r\n")
				case 5:
					fmt.Fprintf(&send, "*3\r\n$4\r\nEVAL\r\n$29\r\nreturn {1,{'a',{2,false}},{}}\r\n$1\r\n0\r\n")
					want.WriteString("*3\r\n:1\r\n*2\r\n$1\r\na\r\n*2\r\n:2\r\n$-1\r\n*0\r\n")
				}
			}
			c := r.dial()
			wg.Go(func() {
				for s := send.String(); len(s) > 0; {
					n := min(len(s), 1+random.IntN(1+random.IntN(20000)))
					c.Write([]byte(s[:n]))
					s = s[n:]
				}
			})
			got := make([]byte, want.Len())
			n, err := io.ReadFull(c.r, got)
			if err != nil || string(got) != want.String() {
				t.Errorf("connection %d: replies differ (read %d of %d, %v)", conn, n, want.Len(), err)
			}
		})
	}
	wg.Wait()
}

// TestCountedWhenWritten: a reply of the upstream counts only when no reply of ours can overtake
// it any more.
func TestCountedWhenWritten(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	c := r.dial()
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	r.server.mu.Lock()
	var s *Session
	for s = range r.server.sessions {
	}
	r.server.mu.Unlock()
	// counted at once, after an error, while a query may follow
	for _, send := range []string{"PING\r\n", "NOSUCH\r\n", "HELLO 3\r\n", "AUTH a b\r\n"} {
		before := s.proto.Received()
		s.out.mu.Lock() // as a reply of ours would while it is written
		c.send(send)
		for deadline := time.Now().Add(50 * time.Millisecond); time.Now().Before(deadline); {
			if s.proto.Sent() == before { // not forwarded yet
				deadline = time.Now().Add(50 * time.Millisecond)
			} else if s.proto.Received() != before || s.proto.AllAnswered() {
				t.Errorf("%q: its reply was counted before it could be written", send)
				break
			}
		}
		s.out.mu.Unlock()
		skipFrame(t, c.r)
	}
}
