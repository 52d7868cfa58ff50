package load

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// client is one of thousands, so its buffer is small. Only one goroutine may use it.
type client struct {
	*net.TCPConn
	in  *bufio.Reader
	key string
}

// crowd is many clients, each with a key of its own.
type crowd []*client

// spareFiles is the number of files that this process and the proxy need beside the clients'.
const spareFiles = 200

// gather connects n clients to the proxy and returns when it has accepted all of them.
func gather(t testing.TB, p *lab.Proxy, name string, n int) crowd {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if int(limit.Cur) < n+spareFiles {
		if os.Getenv("CI") != "" {
			t.Fatalf("the limit on open files is %d, want %d", limit.Cur, n+spareFiles)
		}
		t.Skipf("the limit on open files is %d, want %d", limit.Cur, n+spareFiles)
	}
	desk := lab.Dial(t, p.Addr)
	var all crowd
	t.Cleanup(func() {
		for _, c := range all {
			c.Close()
		}
	})
	for i := range n {
		nc, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		c := &client{nc.(*net.TCPConn), bufio.NewReaderSize(nc, 256), fmt.Sprintf("%s-%d", name, i)}
		if err := c.SetDeadline(time.Now().Add(4 * lab.Patience)); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	lab.WaitFor(t, "the clients accepted", lab.Patience, func() bool {
		return desk.Counter("connected_clients") > n
	})
	return all
}

func (c *client) send(args ...string) error {
	_, err := io.WriteString(c.TCPConn, lab.Encode(args...))
	return err
}

func (c *client) receive() (string, error) { return lab.ReadFrame(c.in) }

func (c *client) ask(args ...string) (string, error) {
	if err := c.send(args...); err != nil {
		return "", err
	}
	return c.receive()
}

// outcome collects the replies to the commands of a crowd. note is safe for concurrent use.
type outcome struct {
	mu      sync.Mutex
	pairs   int
	refused []refusal
	machine *machine // nil: the machine excuses no refusal
}

// machine excuses refusals while the proxy or a master waits for a processor.
type machine struct {
	*lab.Starvation
	limit  time.Duration // a wait as long excuses a refusal
	before time.Duration // also if it was at most that long before the command
}

// watchMachine watches the proxy and the masters of a test with the program's own settings. A
// master counts as silent after 50 ms, and so does one that waits as long for a processor. Its
// silence may last from up to a second before the command.
func watchMachine(t testing.TB, p *lab.Proxy, masters []*lab.Redis, others ...*lab.Process) *machine {
	t.Helper()
	processes := append(others, p.Process)
	for _, s := range masters {
		processes = append(processes, s.Process)
	}
	return &machine{lab.WatchStarvation(t, processes...), 50 * time.Millisecond, time.Second}
}

// busy reports whether a process waited for a processor in the given time, or just before.
func (m *machine) busy(from, to time.Time) bool {
	return m != nil && m.Longest(from.Add(-m.before), to) >= m.limit
}

// busyFor reports whether a process waited for a processor again and again for that long, in the
// given time.
func (m *machine) busyFor(long time.Duration, from, to time.Time) bool {
	free := from
	for at := from; at.Before(to); at = at.Add(100 * time.Millisecond) {
		if !m.busy(at, at) {
			free = at
		}
		if at.Sub(free) >= long {
			return true
		}
	}
	return false
}

// refusal is an error, or a reply that is neither a token nor 1.
type refusal struct {
	command, reply string
	sent           time.Time
	took           time.Duration
}

// refusedSince reports whether a command sent after the given time was refused.
func (o *outcome) refusedSince(start time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.refused, func(r refusal) bool { return r.sent.After(start) })
}

// unexcused returns the refusals of commands during which all processes had a processor when they
// needed one.
func (o *outcome) unexcused(t testing.TB, refused []refusal) (list []refusal) {
	t.Helper()
	for _, r := range refused {
		if !o.machine.busy(r.sent, r.sent.Add(r.took)) {
			list = append(list, r)
		}
	}
	if n := len(refused) - len(list); n > 0 {
		t.Logf("%d refusals while the proxy or a master waited for a processor", n)
	}
	return list
}

// note counts a reply to a command sent at the given time. It reports whether the command
// succeeded.
func (o *outcome) note(command, reply string, err error, sent time.Time) bool {
	if lab.TokenOf(reply) != "" || reply == ":1\r\n" {
		return true
	}
	if err != nil {
		reply = err.Error()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = append(o.refused, refusal{command, reply, sent, time.Since(sent)})
	return false
}

// numbers matches the parts of a refusal that differ from one to the next.
var numbers = regexp.MustCompile(`127\.0\.0\.1:[0-9]+ |\b[0-9]+`)

// kinds lists the five most frequent texts of refusals, without their numbers.
func kinds(list []refusal) (text string) {
	counts := map[string]int{}
	for _, r := range list {
		counts[r.command+" "+numbers.ReplaceAllString(r.reply, "")]++
	}
	found := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	for _, kind := range found[:min(5, len(found))] {
		text += fmt.Sprintf("\n%6d %.300q", counts[kind], kind)
	}
	return text
}

// wantNone fails the test if any request was refused.
func (o *outcome) wantNone(t testing.TB) {
	t.Helper()
	if list := o.unexcused(t, o.refused); len(list) > 0 {
		t.Errorf("got %d refusals and %d pairs, want no refusal: %s", len(list), o.pairs, kinds(list))
	}
	if o.pairs == 0 {
		t.Error("got no pair of LOCK and UNLOCK, want at least one")
	}
}

// work lets all clients lock and unlock in a closed loop, with a pause between two pairs. stop
// ends that and returns when the last pair has ended.
func (all crowd) work(o *outcome, ttl string, pause time.Duration) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() { c.work(o, ttl, pause, end) })
	}
	return sync.OnceFunc(func() {
		close(end)
		wg.Wait()
	})
}

func (c *client) work(o *outcome, ttl string, pause time.Duration, end <-chan struct{}) {
	pairs := 0
	defer func() {
		o.mu.Lock()
		o.pairs += pairs
		o.mu.Unlock()
	}()
	for {
		select {
		case <-end:
			return
		case <-time.After(pause):
		}
		sent := time.Now()
		reply, err := c.ask("LOCK", c.key, ttl)
		if o.note("LOCK", reply, err, sent) {
			sent = time.Now()
			reply, err = c.ask("UNLOCK", c.key, lab.TokenOf(reply))
			if o.note("UNLOCK", reply, err, sent) {
				pairs++
			}
		}
		if err != nil {
			return
		}
	}
}
