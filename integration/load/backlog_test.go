package load

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// More LOCKs than masters of little capacity can serve. They are healthy: each answers, in order,
// as fast as the bytes pass.

// startNarrow starts a deployment whose masters are 150 ms away over links that carry about a
// thousand pairs a second.
func startNarrow(t *testing.T, flags ...string) *lab.Lab {
	t.Helper()
	l := lab.Start(t, lab.Config{Masters: 3, Relays: true, Plain: true, Flags: flags})
	for _, r := range l.Relays[0] {
		r.Slow(75 * time.Millisecond)
		r.Narrow(400_000)
	}
	return l
}

// busyReply is the answer to a LOCK that waited in vain; the number is that of waiting commands.
var busyReply = regexp.MustCompile(`^-TRYAGAIN the masters are busy: ([0-9]+) commands wait\r\n$`)

// busy returns the number of commands that wait according to a refusal.
func (r refusal) busy() (waiting int, ok bool) {
	found := busyReply.FindStringSubmatch(r.reply)
	if found == nil {
		return 0, false
	}
	waiting, err := strconv.Atoi(found[1])
	return waiting, err == nil
}

// wantBusy fails the test unless all refusals are of LOCKs that waited for the given time, and say
// that the masters are busy. There must be at least one.
func (o *outcome) wantBusy(t testing.TB, waited time.Duration) {
	t.Helper()
	var others, early []refusal
	for _, r := range o.refused {
		if _, ok := r.busy(); !ok || r.command != "LOCK" {
			others = append(others, r)
		} else if r.took < waited {
			early = append(early, r)
		}
	}
	if len(others) > 0 {
		t.Errorf("%d refusals do not say that the masters are busy: %s", len(others), kinds(others))
	}
	if len(early) > 0 {
		t.Errorf("%d refusals before %v, the first after %v", len(early), waited, early[0].took)
	}
	if len(others)+len(early) == len(o.refused) {
		t.Errorf("no LOCK of %d pairs had to give up: there was no backlog", o.pairs)
	}
}

// TestQueueTimeout: a LOCK that cannot be sent within queue-timeout answers that the masters are
// busy; no other error comes. With WAIT it waits for the client's time. After the load LOCK works
// at once.
func TestQueueTimeout(t *testing.T) {
	const queueTimeout, wait = 300 * time.Millisecond, 2 * time.Second
	l := startNarrow(t, "--queue-timeout", queueTimeout.String())
	all, patient := gather(t, l.Proxies[0], "job", 2000), gather(t, l.Proxies[0], "patient", 50)
	var o, waiting outcome
	stop := all.work(&o, "20s", 0)
	defer stop()
	lab.Pass(t, 500*time.Millisecond)
	var wg sync.WaitGroup
	for _, c := range patient {
		wg.Go(func() {
			sent := time.Now()
			reply, err := c.ask("LOCK", c.key, "20s", "WAIT", wait.String())
			waiting.note("LOCK", reply, err, sent)
		})
	}
	wg.Wait()
	lab.Pass(t, 500*time.Millisecond)
	stop()

	t.Logf("%d pairs, %d LOCKs gave up; %d of %d with WAIT", o.pairs, len(o.refused), len(waiting.refused), len(patient))
	o.wantBusy(t, queueTimeout)
	for _, r := range waiting.refused {
		if _, ok := r.busy(); !ok || r.took < wait {
			t.Errorf("LOCK with WAIT %v: %q after %v", wait, r.reply, r.took)
		}
	}
	lab.Dial(t, l.Proxies[0].Addr).Lock("calm", "10s")
}

// TestLeavesWithClient: a LOCK that still waits leaves with its client, after a FIN, a reset or
// QUIT. The masters never hear of its key, and the number of waiting commands falls.
func TestLeavesWithClient(t *testing.T) {
	l := startNarrow(t, "--queue-timeout", "1s")
	p := l.Proxies[0]
	all, leavers := gather(t, p, "job", 3000), gather(t, p, "leaver", 2000)
	seen := watch(t, l.Masters, "leaver-")
	var o outcome
	stop := all.work(&o, "20s", 0)
	defer stop()
	lab.WaitFor(t, "a backlog", lab.Patience, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.refused) > 0
	})
	for _, c := range leavers {
		if err := c.send("LOCK", c.key, "20s"); err != nil {
			t.Fatal(err)
		}
	}
	lab.Pass(t, 50*time.Millisecond) // so that the proxy has read them
	for i, c := range leavers {
		switch i % 3 {
		case 0:
			c.Close()
		case 1:
			_ = c.SetLinger(0) // a reset
			c.Close()
		case 2:
			if err := c.send("QUIT"); err != nil {
				t.Fatal(err)
			}
		}
	}
	lab.Pass(t, 500*time.Millisecond)
	left := time.Now()
	lab.Pass(t, 1500*time.Millisecond)
	stop()

	o.wantBusy(t, time.Second)
	most := 0
	for _, r := range o.refused {
		if n, ok := r.busy(); ok && r.came.After(left) {
			most = max(most, n)
		}
	}
	t.Logf("%d pairs, %d LOCKs gave up, at most %d waited", o.pairs, len(o.refused), most)
	if most > len(all) {
		t.Errorf("%d commands wait for %d clients: some wait for clients that have left", most, len(all))
	}
	if n := seen(); n > 0 {
		t.Errorf("the masters were asked %d times for keys of clients that had left", n)
	}
	for _, s := range l.Masters {
		if keys := s.Do(t, "KEYS", "*leaver-*"); keys != "*0\r\n" {
			t.Errorf("a master has %d keys of clients that have left", len(lab.Elements(keys)))
		}
	}
}

// watch reads the commands that MONITOR shows on the servers. seen ends that and returns how many
// of them had the text in them.
func watch(t testing.TB, servers []*lab.Redis, text string) (seen func() int) {
	t.Helper()
	var n atomic.Int64
	var wg sync.WaitGroup
	for _, s := range servers {
		c := lab.Dial(t, s.Addr)
		c.WantDo("+OK\r\n", "MONITOR")
		wg.Go(func() {
			for {
				line, err := c.Next()
				if err != nil || strings.Contains(line, "end-of-watch") {
					return
				}
				if strings.Contains(line, text) {
					n.Add(1)
				}
			}
		})
	}
	return func() int {
		for _, s := range servers {
			s.Do(t, "ECHO", "end-of-watch")
		}
		wg.Wait()
		return int(n.Load())
	}
}

// TestDrainAnswersUnsent: SIGTERM ends all LOCKs that wait until they can be sent. Each is answered,
// and none of them reaches the masters.
func TestDrainAnswersUnsent(t *testing.T) {
	l := startNarrow(t)
	p := l.Proxies[0]
	all := gather(t, p, "job", 3000)
	for _, c := range all {
		if err := c.send("LOCK", c.key, "20s"); err != nil {
			t.Fatal(err)
		}
	}
	desk := lab.Dial(t, p.Addr)
	lab.WaitFor(t, "a backlog", lab.Patience, func() bool { return desk.Counter("locks_unsent") > 1000 })
	p.Signal(syscall.SIGTERM)
	granted, ending := 0, 0
	for _, c := range all {
		switch reply, err := c.receive(); {
		case err == nil && strings.HasPrefix(reply, "$57"):
			granted++
		case err == nil && reply == "-TRYAGAIN the proxy is ending\r\n":
			ending++
		default:
			t.Fatalf("a LOCK that waited: %q, %v", reply, err)
		}
	}
	t.Logf("%d granted, %d told that the proxy is ending", granted, ending)
	if ending == 0 {
		t.Error("no LOCK waited")
	}
	<-p.Done
}
