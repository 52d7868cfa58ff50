package sessions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The pushes of lost session locks come between the replies of a pipeline, never inside one, and
// change neither the order of the replies nor the places of the proxy's own.
func TestLossPushesComeBetweenReplies(t *testing.T) {
	t.Parallel()
	p, relays := lab.StartTwoRelayed(t, "--master-timeout", "2s")
	host := lab.Dial3(t, p.Addr)
	const locks = 20
	lost := map[string]bool{}
	for i := range locks {
		key := fmt.Sprintf("job-%d", i)
		lost[lostPush(key, host.LockSession(key, "4s"))] = false
	}
	for _, r := range relays[:3] {
		r.Freeze()
	}
	body := strings.Repeat("x", 100_000)
	stop, sent := make(chan struct{}), make(chan int, 1)
	ahead := make(chan struct{}, 100) // rounds sent and not read: fewer than the proxy reads ahead
	go func() { sent <- sendRounds(host.Conn, body, stop, ahead) }()
	announced := 0
	next := func() string { // a reply; counts the pushes before it
		frame := host.Frame()
		for ; strings.HasPrefix(frame, ">"); frame = host.Frame() {
			if known, ok := lost[frame]; !ok || known {
				t.Fatalf("got push %q, sent before: %v", frame, known)
			}
			lost[frame] = true
			announced++
		}
		return frame
	}
	stopping, end, deadline := false, -1, time.Now().Add(2*lab.Patience)
	for n := 0; n != end; n++ {
		for i, want := range []string{lab.Bulk(fmt.Sprint(n)), lab.Bulk(body), "-ERR unknown subcommand 'NOSUCH'. Try LOCKPROXY HELP.\r\n"} {
			if got := next(); got != want {
				t.Fatalf("reply %d of round %d: got %.100q, want %.100q", i, n, got, want)
			}
		}
		<-ahead
		if !stopping && (announced == locks || time.Now().After(deadline)) {
			stopping = true
			close(stop)
		}
		if stopping && end < 0 && len(sent) > 0 {
			end = <-sent
			n--
			if n+1 >= end {
				break
			}
			n++
		}
	}
	if announced != locks {
		t.Errorf("got pushes for %d of %d lost locks", announced, locks)
	}
	for _, r := range relays[:3] {
		r.Thaw()
	}
}

// sendRounds sends three commands a round until stop is closed or the connection ends, and returns
// the number of rounds. It sends faster than the test reads, so that the proxy writes replies in
// pieces; ahead bounds the rounds sent and not read.
func sendRounds(c *lab.Conn, body string, stop <-chan struct{}, ahead chan<- struct{}) int {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return n
		case ahead <- struct{}{}:
		}
		if c.Put(lab.Encode("ECHO", fmt.Sprint(n))+lab.Encode("ECHO", body)+lab.Encode("LOCKPROXY", "NOSUCH")) != nil {
			return n
		}
	}
}
