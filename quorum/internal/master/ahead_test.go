package master

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The master's time of an operation is never later than the truth, and not much earlier, whatever
// the ways of the answers and the rates of the clocks.
func TestMasterTimeIsNeverLate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	upTo := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most) + 1)) }
	for range 300 {
		rate, base := 0.991+0.018*random.Float64(), upTo(1000*time.Hour)
		master := func(at time.Duration) time.Duration { return base + time.Duration(rate*float64(at)) }
		way, now, heard := upTo(20*time.Millisecond), time.Duration(0), time.Duration(0)
		var a ahead
		for i := range 100 {
			now += upTo(2 * time.Second)
			got, want := a.masterTime(now), master(now)
			if most := 2*way + (now-heard)/50; i > 0 && (got > want || got < want-most) {
				t.Fatalf("%v later than the truth, want at most %v earlier", got-want, most)
			}
			sent := now
			answered := sent + upTo(way)
			now = answered + upTo(way)
			heard = now
			a.note(sent, now, master(answered))
		}
	}
}

// An answer that contradicts the bound replaces it.
func TestClockIsLearnedAnew(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	var a ahead
	if got := a.masterTime(time.Hour); got != 1 {
		t.Errorf("%v without an answer, want one that is too old", got)
	}
	for _, c := range []struct {
		name                     string
		sent, received, says, at time.Duration
		want                     time.Duration
	}{
		{"the first answer", 1 * s, 1*s + 20*ms, 100 * s, 1*s + 20*ms, 100 * s},
		{"a wider one", 2 * s, 2*s + 500*ms, 101*s + 200*ms, 2*s + 500*ms, 101*s + 480*ms - 14800*time.Microsecond},
		{"a narrower one", 3 * s, 3*s + 10*ms, 102 * s, 3*s + 10*ms, 102 * s},
		{"before it", 4 * s, 4*s + 10*ms, 103 * s, 2*s + 10*ms, 101*s - 20*ms},
		{"after it", 5 * s, 5*s + 10*ms, 104 * s, 7*s + 10*ms, 106*s - 20*ms},
		{"the clock was set back a little", 8 * s, 8*s + 10*ms, 106*s + 930*ms, 8*s + 10*ms, 106*s + 930*ms},
		{"the clock was set forward", 9 * s, 9*s + 10*ms, 1000 * s, 9*s + 10*ms, 1000 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			a.note(c.sent, c.received, c.says)
			if got := a.masterTime(c.at); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
