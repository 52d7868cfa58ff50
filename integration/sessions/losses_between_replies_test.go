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
	l := &losses{Client: host, announced: map[string]bool{}}
	for i := range locks {
		key := fmt.Sprintf("job-%d", i)
		l.announced[lostPush(key, host.LockSession(key, "4s"))] = false
	}
	for _, r := range relays[:3] {
		r.Freeze()
	}
	body := strings.Repeat("x", 100_000)
	stop, sent := make(chan struct{}), make(chan int, 1)
	ahead := make(chan struct{}, 100) // rounds sent and not read: fewer than the proxy reads ahead
	go func() { sent <- sendRounds(host.Conn, body, stop, ahead) }()
	deadline := time.Now().Add(2 * lab.Patience)
	n := 0
	for ; l.count < locks && time.Now().Before(deadline); n++ {
		l.wantRound(t, n, body)
		<-ahead
	}
	close(stop)
	for end := -1; n != end; {
		select {
		case end = <-sent:
		case <-ahead:
			l.wantRound(t, n, body)
			n++
		}
	}
	if l.count != locks {
		t.Errorf("got pushes for %d of %d lost locks", l.count, locks)
	}
	for _, r := range relays[:3] {
		r.Thaw()
	}
}

// losses is a client that reads replies and counts the pushes before them.
type losses struct {
	*lab.Client
	announced map[string]bool // by push: whether it has come
	count     int
}

// wantRound fails unless the next replies are those of round n, with pushes between them only,
// each of which comes once.
func (l *losses) wantRound(t *testing.T, n int, body string) {
	t.Helper()
	for i, want := range []string{lab.Bulk(fmt.Sprint(n)), lab.Bulk(body),
		"-ERR unknown subcommand 'NOSUCH'. Try LOCKPROXY HELP.\r\n"} {
		frame := l.Frame()
		for ; strings.HasPrefix(frame, ">"); frame = l.Frame() {
			if before, known := l.announced[frame]; !known || before {
				t.Fatalf("got push %q, sent before: %v", frame, before)
			}
			l.announced[frame] = true
			l.count++
		}
		if frame != want {
			t.Fatalf("reply %d of round %d: got %.100q, want %.100q", i, n, frame, want)
		}
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
