package notify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// story is one random run: watchers that come and go, releases, and masters that break.
type story struct {
	*testing.T
	random  *rand.Rand
	subs    *Subscriptions
	masters []*fakeMaster
	live    []*liveWatcher
	next    int // id of a release
}

// liveWatcher is a call of Subscribe that was not stopped.
type liveWatcher struct {
	heard
	channel string
	stop    func()
	pending []string // releases since it is quiet: each must be heard, or followed by ""
}

// Through all faults, a watcher hears of a release that a majority publishes, or gets an empty
// notice because it may have missed one.
func TestNothingIsMissed(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
				r := rand.New(rand.NewPCG(seed, 0))
				y := &story{T: t, random: r, subs: s, masters: masters}
				for _, m := range masters {
					m.set(func() { m.latency = func() time.Duration { return rand.N(3 * time.Millisecond) } })
				}
				y.run()
				wait(5 * time.Second)
				if !s.idle() {
					t.Error("topics are left")
				}
			})
		})
	}
}

// run goes through steps and quiet times, and ends the watchers.
func (y *story) run() {
	for range 20 {
		for range 30 {
			y.step()
		}
		y.quiesce()
	}
	for _, w := range y.live {
		w.stop()
	}
}

func (y *story) step() {
	m := y.masters[y.random.IntN(len(y.masters))]
	switch {
	case chance(y.random, 25):
		y.watch()
	case chance(y.random, 35) && len(y.live) > 0:
		i := y.random.IntN(len(y.live))
		y.live[i].stop()
		y.live = slices.Delete(y.live, i, i+1)
	case chance(y.random, 50):
		y.release()
	case chance(y.random, 30):
		m.cut(nil)
	case chance(y.random, 30):
		m.set(func() { m.hung = !m.hung })
	case chance(y.random, 30):
		m.set(func() { m.slow = !m.slow })
	case chance(y.random, 30):
		m.set(func() {
			if m.down == nil {
				m.down = errDown
			} else {
				m.down = nil
			}
		})
	default:
		time.Sleep(time.Duration(y.random.Int64N(int64(20 * time.Millisecond))))
	}
}

func (y *story) watch() {
	w := &liveWatcher{channel: fmt.Sprint("k", y.random.IntN(3))}
	w.stop = y.subs.Subscribe(y.Context(), w.channel, w.add)
	y.live = append(y.live, w)
}

// release publishes a release at two masters or three.
func (y *story) release() {
	y.next++
	channel, id := fmt.Sprint("k", y.random.IntN(3)), fmt.Sprint(y.next)
	for _, w := range y.live {
		if w.channel == channel {
			w.add("release " + id)
			w.pending = append(w.pending, id)
		}
	}
	order := y.random.Perm(3)
	for _, i := range order[:2+y.random.IntN(2)] {
		y.masters[i].publish(channel, id)
		time.Sleep(time.Duration(y.random.Int64N(int64(time.Millisecond))))
	}
}

// quiesce mends the masters, waits, and checks that each watcher was notified, and hears no more.
func (y *story) quiesce() {
	for _, m := range y.masters {
		m.set(func() { m.hung, m.slow, m.down = false, false, nil })
	}
	wait(5 * time.Second)
	want := make(map[string]bool)
	for _, w := range y.live {
		want[w.channel] = true
		got := strings.Fields(strings.ReplaceAll(w.take(), "release ", "release:"))
		for _, id := range w.pending {
			rest := got[slices.Index(got, "release:"+id):]
			if !slices.Contains(rest, id) && !slices.Contains(rest, "-") {
				y.Fatalf("release %s of %s is lost: %v", id, w.channel, got)
			}
		}
		w.pending = nil
	}
	for i, m := range y.masters {
		if got := strings.Fields(m.subscribed()); len(got) != len(want) {
			y.Fatalf("master %d has subscriptions to %v, want %v", i, got, want)
		}
		for channel := range want {
			m.publish(channel, "end")
		}
	}
	wait(time.Second)
	for _, w := range y.live {
		if got := w.take(); got != "end end end" {
			y.Fatalf("told %q when all is well", got)
		}
	}
}
