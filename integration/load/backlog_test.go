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

// These tests send more LOCKs than the links to the masters can carry. The masters are healthy:
// each answers in order and as soon as it has the bytes.

// narrow is the load on startNarrow's links: clients that wait 6 seconds for a pair of LOCK and
// UNLOCK each, at about 500 pairs a second, or half of that. The links' width follows from it.
var narrow = lab.Long(struct{ width, clients int }{100_000, 1500}, struct{ width, clients int }{200_000, 3000})

// startNarrow starts a deployment whose masters are 150 ms away, behind links of narrow.width
// bytes a second. The relays of this process are part of the way to the masters. If they, a
// master or the proxy get no processor for long, the proxy may open new lanes, so the effect
// lasts for some seconds.
func startNarrow(t *testing.T, flags ...string) (*lab.Lab, *machine) {
	t.Helper()
	l := lab.Start(t, lab.Config{Masters: 3, Relays: true, Plain: true, Flags: flags})
	for _, r := range l.Relays[0] {
		r.Slow(75 * time.Millisecond)
		r.Narrow(narrow.width)
	}
	m := watchMachine(t, l.Proxies[0], l.Masters, lab.Self())
	m.limit, m.before = 200*time.Millisecond, 5*time.Second
	return l, m
}

// busyReply is the reply to a LOCK that waited in vain, with the number of waiting commands.
var busyReply = regexp.MustCompile(`^-TRYAGAIN the masters are busy: ([0-9]+) commands wait\r\n$`)

// busy returns the number of waiting commands in a refusal; ok is false for any other refusal.
func (r refusal) busy() (waiting int, ok bool) {
	found := busyReply.FindStringSubmatch(r.reply)
	if found == nil {
		return 0, false
	}
	waiting, err := strconv.Atoi(found[1])
	return waiting, err == nil
}

// wantBusy fails the test unless every refusal is the reply to a LOCK, says that the masters are
// busy, and came no earlier than the given time. There must be at least one.
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
	if list := o.unexcused(t, others); len(list) > 0 {
		t.Errorf("got %d refusals other than busy masters, want none: %s", len(list), kinds(list))
	}
	if len(early) > 0 {
		t.Errorf("got %d refusals before %v, the first after %v, want none", len(early), waited, early[0].took)
	}
	if len(others)+len(early) == len(o.refused) {
		t.Errorf("got no busy masters in %d pairs, want a backlog", o.pairs)
	}
}

// TestUnsentLockAnswersBusyAfterQueueTimeout: a LOCK that the proxy cannot send within
// queue-timeout answers that the masters are busy, and no other error comes. With WAIT it waits
// for the client's timeout instead. LOCK works again once the load has ended.
func TestUnsentLockAnswersBusyAfterQueueTimeout(t *testing.T) {
	const queueTimeout, wait = 300 * time.Millisecond, 2 * time.Second
	l, m := startNarrow(t, "--queue-timeout", queueTimeout.String())
	all, patient := gather(t, l.Proxies[0], "job", narrow.clients*2/3), gather(t, l.Proxies[0], "patient", 50)
	o, waiting := outcome{machine: m}, outcome{machine: m}
	stop := all.work(&o, "20s", 0)
	defer stop()
	lab.WaitFor(t, "a backlog", lab.Patience, func() bool { return o.refusedSince(time.Time{}) })
	var wg sync.WaitGroup
	for _, c := range patient {
		wg.Go(func() {
			sent := time.Now()
			reply, err := c.ask("LOCK", c.key, "20s", "WAIT", wait.String())
			waiting.note("LOCK", reply, err, sent)
		})
	}
	wg.Wait()
	stop()

	t.Logf("%d pairs, %d LOCKs refused; %d of %d with WAIT", o.pairs, len(o.refused), len(waiting.refused), len(patient))
	o.wantBusy(t, queueTimeout)
	for _, r := range waiting.unexcused(t, waiting.refused) {
		if _, ok := r.busy(); !ok || r.took < wait {
			t.Errorf("LOCK with WAIT %v: got %q after %v, want busy masters and not before", wait, r.reply, r.took)
		}
	}
	lab.Grant(t, lab.Dial(t, l.Proxies[0].Addr), "calm")
}

// TestUnsentLockLeavesWithClient: the proxy drops a LOCK that it has not sent when its client ends
// the connection by FIN, reset or QUIT. It never sends the key to the masters, and the number of
// waiting commands falls.
func TestUnsentLockLeavesWithClient(t *testing.T) {
	l, m := startNarrow(t, "--queue-timeout", "1s")
	p := l.Proxies[0]
	all := gather(t, p, "job", narrow.clients)
	leavers := gather(t, p, "leaver", narrow.clients/10) // all leave before their LOCKs come to the head of the line
	seen := watch(t, l.Masters, "leaver-")
	o := outcome{machine: m}
	stop := all.work(&o, "20s", 0)
	defer stop()
	lab.WaitFor(t, "a backlog", lab.Patience, func() bool { return o.refusedSince(time.Time{}) })
	for _, c := range leavers {
		if err := c.send("LOCK", c.key, "20s"); err != nil {
			t.Fatal(err)
		}
	}
	lab.Pass(t, 50*time.Millisecond) // so that the proxy has read them
	for i, c := range leavers {
		c.leave(t, i)
	}
	desk := lab.Dial(t, p.Addr)
	lab.WaitFor(t, "the end of the leavers' connections", lab.Patience, func() bool {
		return desk.Counter("connected_clients") <= len(all)+3 // and one more for each crowd and for desk
	})
	left := time.Now()
	lab.WaitFor(t, "a LOCK sent and refused since", lab.Patience, func() bool { return o.refusedSince(left) })
	stop()

	o.wantBusy(t, time.Second)
	most := 0
	for _, r := range o.refused {
		if n, ok := r.busy(); ok && r.sent.After(left) {
			most = max(most, n)
		}
	}
	t.Logf("%d pairs, %d LOCKs refused, at most %d waited", o.pairs, len(o.refused), most)
	if most > len(all) {
		t.Errorf("got %d waiting commands, want at most %d, one for each client that has not left", most, len(all))
	}
	if n := seen(); n > 0 {
		t.Errorf("got %d commands at the masters for keys of clients that had left, want none", n)
	}
	for _, s := range l.Masters {
		if keys := s.Do(t, "KEYS", "*leaver-*"); keys != "*0\r\n" {
			t.Errorf("got %d keys of clients that have left on a master, want none", len(lab.Elements(keys)))
		}
	}
}

// leave ends the connection in one of three ways, by i: a FIN, a reset or QUIT.
func (c *client) leave(t testing.TB, i int) {
	t.Helper()
	switch i % 3 {
	case 0:
		c.Close()
	case 1:
		_ = c.SetLinger(0)
		c.Close()
	case 2:
		if err := c.send("QUIT"); err != nil {
			t.Fatal(err)
		}
	}
}

// watch runs MONITOR on the servers. seen ends that and returns how many of the commands contained
// the text.
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

// TestDrainAnswersUnsentLocks: after SIGTERM the proxy answers every LOCK that it has not sent,
// and does not send it.
func TestDrainAnswersUnsentLocks(t *testing.T) {
	l, m := startNarrow(t, "--queue-timeout", "1m")
	p := l.Proxies[0]
	all := gather(t, p, "job", narrow.clients)
	for _, c := range all {
		if err := c.send("LOCK", c.key, "20s"); err != nil {
			t.Fatal(err)
		}
	}
	desk := lab.Dial(t, p.Addr)
	lab.WaitFor(t, "a backlog", lab.Patience, func() bool { return desk.Counter("locks_unsent") > narrow.clients/3 })
	begun := time.Now()
	p.Signal(syscall.SIGTERM)
	granted, ending := 0, 0
	for _, c := range all {
		switch reply, err := c.receive(); {
		case err == nil && strings.HasPrefix(reply, "-NOQUORUM ") && m.busy(begun, time.Now()):
		case err == nil && strings.HasPrefix(reply, "$57"):
			granted++
		case err == nil && reply == "-TRYAGAIN the proxy is ending\r\n":
			ending++
		default:
			t.Fatalf("a LOCK at the drain: got %q, %v, want a token or that the proxy is ending", reply, err)
		}
	}
	t.Logf("%d LOCKs granted, %d ended by the drain", granted, ending)
	if ending == 0 {
		t.Error("the drain ended no LOCK, want at least one")
	}
	<-p.Done
}
