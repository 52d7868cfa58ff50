package relay

import (
	"math"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Commands of two connections, sent one right after the other without waiting, reach the upstream
// in that order as often as through HAProxy. Redis serves clients that wait for elements of a list
// in the order of their requests.
func TestConnectionsKeepTheirOrderLikeHAProxy(t *testing.T) {
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
				// A busy machine can disturb one of the two more than the other, so a bad round is
				// followed by more, and all count. A proxy that reorders is worse in all of them.
				through, past, tries := 0, 0, 0
				for round := 0; round == 0 || round < 5 && through > likely(past); round++ {
					ours, theirs, n := reorderings(t, upstream.Addr, p.Addr, haproxy,
						func(l line) int { return l.turn(gap, kind.wait, kind.push) })
					through, past, tries = through+ours, past+theirs, tries+n
				}
				t.Logf("the second was served first in %d of %d tries, through HAProxy in %d", through, tries, past)
				if through > likely(past) {
					t.Errorf("the second was served first in %d of %d tries, want at most %d: HAProxy had %d", through, tries,
						likely(past), past)
				}
			})
		}
	}
}

// likely returns the largest count that chance explains if past was counted at the same rate.
func likely(past int) int { return past + 2 + int(2*math.Sqrt(float64(past))) }

// reorderings counts how often two connections were served out of order, through the proxy and
// through HAProxy. New connections for each block of tries, because chance decides which threads
// serve them, in HAProxy as well.
func reorderings(t *testing.T, upstream, proxy, haproxy string, turn func(line) int) (ours, theirs, tries int) {
	t.Helper()
	const pairs, turns = 10, 20
	for range pairs {
		a, b := joinLine(t, upstream, proxy), joinLine(t, upstream, haproxy)
		for range turns {
			theirs += turn(b)
		}
		for range turns {
			ours += turn(a)
		}
		a.leave()
		b.leave()
	}
	return ours, theirs, pairs * turns
}

// line is two connections that wait for elements of a list, and one past the proxy that pushes
// the elements.
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

// turn lets both wait, one after the other, and returns 1 if Redis served the second first.
func (l line) turn(gap time.Duration, wait, push []string) (reversed int) {
	t := l.desk.T
	t.Helper()
	command := lab.Encode(wait...)
	l.one.Send(command)
	for start := time.Now(); time.Since(start) < gap; { // a sleep would be longer
	}
	l.two.Send(command)
	lab.WaitFor(t, "both waiting", lab.Patience, func() bool {
		return strings.Contains(l.desk.Do("INFO", "clients"), "\r\nblocked_clients:2\r\n")
	})
	l.desk.Do(push...)
	first, second := l.one.Frame(), l.two.Frame()
	if strings.Contains(second, "first") {
		first, second, reversed = second, first, 1
	}
	if !strings.Contains(first, "first") || !strings.Contains(second, "second") {
		t.Fatalf("got %q and %q, want first and second", first, second)
	}
	return reversed
}
