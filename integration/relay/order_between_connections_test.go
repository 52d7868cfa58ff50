package relay

import (
	"math"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestOrderBetweenConnections: commands of two connections, sent one right after the other without
// waiting, reach the upstream in that order as often as through HAProxy. Clients that wait for
// elements of a list are served in the order in which Redis has heard of them.
func TestOrderBetweenConnections(t *testing.T) {
	upstream := lab.StartRedis(t)
	haproxy := lab.StartHAProxy(t, upstream.Addr)
	p := lab.StartPlainProxy(t, "--upstream", upstream.Addr, "--restart-guard", "off")
	for _, kind := range []struct {
		name       string
		wait, push []string
	}{
		{"BLPOP", []string{"BLPOP", "line", "0"}, []string{"RPUSH", "line", "first", "second"}},
		{"BRPOPLPUSH", []string{"BRPOPLPUSH", "line", "served", "0"}, []string{"LPUSH", "line", "first", "second"}},
	} {
		for name, gap := range map[string]time.Duration{"no gap": 0, "a tiny gap": 20 * time.Microsecond} {
			t.Run(kind.name+", "+name, func(t *testing.T) {
				const pairs, tries = 10, 20
				through, past := 0, 0
				for range pairs { // which threads serve two connections is chance, for HAProxy as well
					ours, theirs := joinLine(t, upstream.Addr, p.Addr), joinLine(t, upstream.Addr, haproxy)
					for range tries {
						past += theirs.turn(gap, kind.wait, kind.push)
					}
					for range tries {
						through += ours.turn(gap, kind.wait, kind.push)
					}
					ours.leave()
					theirs.leave()
				}
				allowed := past + 2 + int(2*math.Sqrt(float64(past)))
				t.Logf("the second was served first in %d of %d tries, through HAProxy in %d", through, pairs*tries, past)
				if through > allowed {
					t.Errorf("the second was served first in %d of %d tries, through HAProxy in %d", through, pairs*tries, past)
				}
			})
		}
	}
}

// line is two connections that wait for elements of a list, and one past the proxy that pushes
// them.
type line struct{ one, two, desk *lab.Client }

func joinLine(t *testing.T, upstream, addr string) line {
	t.Helper()
	l := line{lab.Dial(t, addr), lab.Dial(t, addr), lab.Dial(t, upstream)}
	l.one.WantDo("+PONG\r\n", "PING")
	l.two.WantDo("+PONG\r\n", "PING")
	return l
}

func (l line) leave() {
	for _, c := range []*lab.Client{l.one, l.two, l.desk} {
		c.Close()
	}
}

// turn has the two wait, one after the other, and returns 1 if the second was served first.
func (l line) turn(gap time.Duration, wait, push []string) (reversed int) {
	t := l.desk.T
	t.Helper()
	command := lab.Encode(wait...)
	l.one.Send(command)
	for start := time.Now(); time.Since(start) < gap; { // a sleep would be longer
	}
	l.two.Send(command)
	lab.WaitFor(t, "both waiting", lab.Patience, func() bool { return strings.Contains(l.desk.Do("INFO", "clients"), "\r\nblocked_clients:2\r\n") })
	l.desk.Do(push...)
	first, second := l.one.Frame(), l.two.Frame()
	if strings.Contains(second, "first") {
		first, second, reversed = second, first, 1
	}
	if !strings.Contains(first, "first") || !strings.Contains(second, "second") {
		t.Fatalf("they got %q and %q", first, second)
	}
	return reversed
}
