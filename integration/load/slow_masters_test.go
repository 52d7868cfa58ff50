package load

import (
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// pace is the pause between two pairs of a worker that puts no load on the masters.
const pace = 30 * time.Millisecond

// slowMaster is a master and the relay through which the proxy reaches it.
type slowMaster struct {
	*lab.Redis
	link *lab.Relay
}

// fault makes masters slow until the test calls end, or for a fixed time.
type fault func(t *testing.T, slow []slowMaster) (end func())

// TestSlowMinorityCausesNoErrors: clients see no error if a minority of the masters is slow, or
// does not answer for a while.
func TestSlowMinorityCausesNoErrors(t *testing.T) {
	for name, c := range map[string]struct {
		slow  int
		begin fault
		tried bool
	}{
		"1 of 5 62ms":    {1, slowBy(62 * time.Millisecond), lab.IsLong()}, // as in TestSlowMasterIsShown
		"2 of 5 62ms":    {2, slowBy(62 * time.Millisecond), lab.IsLong()},
		"2 of 5 200ms":   {2, slowBy(200 * time.Millisecond), true},
		"2 of 5 frozen":  {2, frozen, true},
		"2 of 5 stalled": {2, stalled, true},
	} {
		if !c.tried {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			masters, slow := startMasters(t, c.slow)
			workBeside(t, masters, slow, c.begin)
		})
	}
}

// TestSlowMajorityCausesNoErrors: if every majority includes a distant master, LOCK takes as long
// as that master. It succeeds if the master answers within a quarter of the ttl and within a
// second.
func TestSlowMajorityCausesNoErrors(t *testing.T) {
	distances := []time.Duration{62 * time.Millisecond, 38 * time.Millisecond} // more and less than master-timeout
	for _, distance := range distances[:lab.Long(1, 2)] {
		t.Run(distance.String(), func(t *testing.T) {
			t.Parallel()
			masters, slow := startMasters(t, 3)
			slowBy(distance)(t, slow)
			workBeside(t, masters, slow, func(*testing.T, []slowMaster) func() { return func() {} })
		})
	}
}

// startMasters starts five masters, and relays to n of them. The others have none, because a relay
// takes processor time from the test.
func startMasters(t *testing.T, n int) (masters []*lab.Redis, slow []slowMaster) {
	t.Helper()
	masters = lab.StartMasters(t, 5)
	for _, s := range masters[:n] {
		slow = append(slow, slowMaster{s, lab.StartRelay(t, s.Addr)})
	}
	return masters, slow
}

// workBeside lets a few clients lock and unlock while some masters are slow, and fails if a client
// sees an error.
func workBeside(t *testing.T, masters []*lab.Redis, slow []slowMaster, begin fault) {
	t.Helper()
	addrs := lab.Addrs(masters)
	for i, s := range slow {
		addrs[i] = s.link.Addr
	}
	flags := []string{"--upstream", lab.StartRedis(t).Addr, "--masters", strings.Join(addrs, ",")}
	p := lab.StartPlainProxy(t, append(flags, defaults...)...)
	p.WaitVoting(t)
	all := gather(t, p, "job", lab.Long(8, 16))
	o := outcome{machine: watchMachine(t, p, masters)}
	end := begin(t, slow)
	stop := all.work(&o, "5s", pace)
	lab.Pass(t, lab.Long(2500*time.Millisecond, 3*time.Second)) // longer than frozen needs for one freeze
	stop()
	end()
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

// frozen stops the masters' processes now and then. Each time is shorter than the two seconds
// after which a proxy takes a silent master for down.
func frozen(t *testing.T, slow []slowMaster) (end func()) {
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for _, s := range slow {
		wg.Go(func() {
			for !closedWithin(ended, 500*time.Millisecond) {
				s.Signal(syscall.SIGSTOP)
				closedWithin(ended, 1500*time.Millisecond)
				s.Resume()
			}
		})
	}
	return func() { close(ended); wg.Wait() }
}

// stalled stops all bytes to and from the masters now and then, for as long as TCP takes to send a
// lost packet again.
func stalled(t *testing.T, slow []slowMaster) (end func()) {
	seed := lab.SeedOf(t, rand.Uint64())
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for i, s := range slow {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		between := func(least, most int) time.Duration {
			return time.Duration(least+random.IntN(most-least)) * time.Millisecond
		}
		wg.Go(func() {
			for !closedWithin(ended, between(50, 400)) {
				s.link.Freeze()
				closedWithin(ended, between(200, 400))
				s.link.Thaw()
			}
		})
	}
	return func() { close(ended); wg.Wait() }
}

// closedWithin waits for d or until ended is closed, and reports whether ended is closed.
func closedWithin(ended <-chan struct{}, d time.Duration) bool {
	select {
	case <-ended:
		return true
	case <-time.After(d):
		return false
	}
}
