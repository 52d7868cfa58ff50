package load

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// pace is the pause between two pairs of workers that make no load.
const pace = 30 * time.Millisecond

// slowMaster is a master and the relay through which the proxy reaches it.
type slowMaster struct {
	*lab.Redis
	link *lab.Relay
}

// fault makes masters slow until end is called, or until it ends by itself.
type fault func(t *testing.T, slow []slowMaster) (end func())

// TestSlowMasters: masters that are slow, or do not answer for a while, are no reason for an error
// as long as a majority of the others remains.
func TestSlowMasters(t *testing.T) {
	for name, begin := range map[string]fault{
		"45ms":    slowBy(45 * time.Millisecond),
		"62ms":    slowBy(62 * time.Millisecond),
		"200ms":   slowBy(200 * time.Millisecond),
		"frozen":  frozen,
		"stalled": stalled,
	} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%d of 5 %s", n, name), func(t *testing.T) {
				t.Parallel()
				masters, slow := startMasters(t, n)
				workBeside(t, masters, slow, begin)
			})
		}
	}
}

// TestSlowMajority: if the majority needs masters that are far away, LOCK takes as long as they do;
// it works while they answer within a quarter of the ttl, and a second.
func TestSlowMajority(t *testing.T) {
	for _, distance := range []time.Duration{38 * time.Millisecond, 62 * time.Millisecond} {
		t.Run(distance.String(), func(t *testing.T) {
			t.Parallel()
			masters, slow := startMasters(t, 3)
			slowBy(distance)(t, slow)
			workBeside(t, masters, slow, func(*testing.T, []slowMaster) func() { return func() {} })
		})
	}
}

// startMasters starts five masters, of which n are reached through relays. The others have none: a
// relay shares the processor with the test.
func startMasters(t *testing.T, n int) (masters []*lab.Redis, slow []slowMaster) {
	t.Helper()
	masters = lab.StartMasters(t, 5)
	for _, s := range masters[:n] {
		slow = append(slow, slowMaster{s, lab.StartRelay(t, s.Addr)})
	}
	return masters, slow
}

// workBeside lets a few clients lock and unlock while some masters are slow. None may see an error.
func workBeside(t *testing.T, masters []*lab.Redis, slow []slowMaster, begin fault) {
	t.Helper()
	addrs := lab.Addrs(masters)
	for i, s := range slow {
		addrs[i] = s.link.Addr
	}
	flags := []string{"--upstream", lab.StartRedis(t).Addr, "--masters", strings.Join(addrs, ",")}
	p := lab.StartPlainProxy(t, append(flags, defaults...)...)
	p.WaitVoting(t)
	all := gather(t, p, "job", 16)
	var o outcome
	end := begin(t, slow)
	stop := all.work(&o, "5s", pace)
	lab.Pass(t, 3*time.Second)
	stop()
	end()
	t.Logf("%d pairs", o.pairs)
	o.wantNone(t)
}

// slowBy makes masters answer after the given time.
func slowBy(delay time.Duration) fault {
	return func(_ *testing.T, slow []slowMaster) (end func()) {
		for _, s := range slow {
			s.link.Slow(delay / 2)
		}
		return func() {}
	}
}

// frozen stops the masters' processes for a while.
func frozen(t *testing.T, slow []slowMaster) (end func()) {
	var wg sync.WaitGroup
	for _, s := range slow {
		wg.Go(func() {
			lab.Pass(t, 500*time.Millisecond)
			s.Signal(syscall.SIGSTOP)
			lab.Pass(t, 1500*time.Millisecond)
			s.Resume()
		})
	}
	return wg.Wait
}

// stalled stops all bytes to and from the masters now and then, for the time that TCP takes to send
// a lost packet again.
func stalled(t *testing.T, slow []slowMaster) (end func()) {
	seed := lab.SeedOf(t, rand.Uint64())
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for i, s := range slow {
		r := s.link
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		between := func(least, most int) time.Duration {
			return time.Duration(least+random.IntN(most-least)) * time.Millisecond
		}
		wg.Go(func() {
			defer r.Thaw()
			for {
				for _, step := range []struct {
					do   func()
					last time.Duration
				}{{r.Thaw, between(50, 400)}, {r.Freeze, between(200, 400)}} {
					step.do()
					select {
					case <-ended:
						return
					case <-time.After(step.last):
					}
				}
			}
		})
	}
	return func() { close(ended); wg.Wait() }
}
