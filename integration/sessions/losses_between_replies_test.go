package sessions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestLossesBetweenReplies: the pushes of lost session locks stand between the replies of a
// pipeline, never in one, and change neither their order nor which of ours belongs where.
func TestLossesBetweenReplies(t *testing.T) {
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
	ahead := make(chan struct{}, 100) // rounds sent and not read: under what is read ahead at most
	go func() {                       // faster than it reads, so that replies are written in pieces
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				sent <- n
				return
			case ahead <- struct{}{}:
			}
			if err := host.Put(lab.Encode("ECHO", fmt.Sprint(n)) + lab.Encode("ECHO", body) + lab.Encode("LOCKPROXY", "NOSUCH")); err != nil {
				sent <- n
				return
			}
		}
	}()
	next := func() string { // a reply; pushes on the way are noted
		for {
			frame := host.Frame()
			if !strings.HasPrefix(frame, ">") {
				return frame
			}
			if known, ok := lost[frame]; !ok || known {
				t.Fatalf("push %q, told before: %v", frame, known)
			}
			lost[frame] = true
		}
	}
	told := func() (n int) {
		for _, yes := range lost {
			if yes {
				n++
			}
		}
		return n
	}
	stopping, end, deadline := false, -1, time.Now().Add(2*lab.Patience)
	for n := 0; n != end; n++ {
		for i, want := range []string{lab.Bulk(fmt.Sprint(n)), lab.Bulk(body), "-ERR unknown subcommand 'NOSUCH'. Try LOCKPROXY HELP.\r\n"} {
			if got := next(); got != want {
				t.Fatalf("reply %d of round %d: got %.100q, want %.100q", i, n, got, want)
			}
		}
		<-ahead
		if !stopping && (told() == locks || time.Now().After(deadline)) {
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
	if told() != locks {
		t.Errorf("%d of %d locks were told lost", told(), locks)
	}
	for _, r := range relays[:3] {
		r.Thaw()
	}
}
