package tool

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lockproxy/plain"
)

// Bounds of a benchmark, which shares the machine and the masters with others.
const (
	maxBenchClients  = 1000
	maxBenchDuration = time.Hour
)

var benchCommand = Subcommand{
	Name: "bench",
	help: "measure LOCK and UNLOCK through a running proxy",
	more: `Each client takes and releases a lock of its own in a loop. With --shared all clients wait for one lock.
The keys are lockproxy-bench:... The figures include the processor time of this program.

exit codes: 0 measured, 1 no lock was granted, 64 wrong flags,
69 the proxy cannot be reached, 77 it refuses the user
`,
	Define: func(flags *flag.FlagSet) func(context.Context, *invocation) int {
		b := &bench{target: targetFlags(flags)}
		flags.IntVar(&b.Clients, "clients", 16, "connections at a time, at most 1000")
		duration := periodFlag(flags, "duration", 5*time.Second, "how long, at most 1h")
		ttl := periodFlag(flags, "ttl", 10*time.Second, "ttl of the locks")
		flags.BoolVar(&b.Shared, "shared", false, "all wait for one lock")
		flags.BoolVar(&b.json, "json", false, "print it as JSON")
		return func(ctx context.Context, t *invocation) int {
			b.invocation, b.duration, b.ttl = t, duration.Duration, ttl.Duration
			return b.run(ctx)
		}
	},
}

// bench is one run of lockproxy bench, and its result.
type bench struct {
	*invocation   `json:"-"`
	target        *target
	duration, ttl time.Duration
	json          bool

	Clients int            `json:"clients"`
	Shared  bool           `json:"shared"`
	Seconds float64        `json:"seconds"`
	Pairs   int            `json:"pairs"`
	Rate    float64        `json:"pairs_per_second"`
	Lock    *percentiles   `json:"lock"`
	Unlock  *percentiles   `json:"unlock"`
	Errors  map[string]int `json:"errors"`
}

// percentiles are latencies in microseconds.
type percentiles struct {
	P50 int64 `json:"p50_us"`
	P90 int64 `json:"p90_us"`
	P99 int64 `json:"p99_us"`
	Max int64 `json:"max_us"`
}

// measurement is what one client measured.
type measurement struct {
	lock, unlock []time.Duration
	errors       map[string]int
	refused      refusal // by the proxy, with an error that stays: the client has ended; else zero
}

func (b *bench) run(ctx context.Context) int {
	if b.Clients < 1 || b.Clients > maxBenchClients || b.duration <= 0 || b.duration > maxBenchDuration {
		return b.fail(exitUsage, "--clients is from 1 to %d, --duration more than 0 and at most %s", maxBenchClients,
			plain.Duration(maxBenchDuration))
	}
	clients := make([]*client, b.Clients)
	for i := range clients {
		c, err := b.connect(ctx, b.target, false)
		if err != nil {
			return b.fail(connectCode(err), "%v", err)
		}
		defer c.Close()
		clients[i] = c
	}
	ctx, cancel := context.WithTimeout(ctx, b.duration)
	defer cancel()
	run := rand.Text()[:8]
	tallies := make([]measurement, b.Clients)
	var wg sync.WaitGroup
	start := time.Now()
	for i, c := range clients {
		key := fmt.Sprintf("lockproxy-bench:%s:%d", run, i)
		if b.Shared {
			key = "lockproxy-bench:" + run
		}
		wg.Go(func() { tallies[i] = b.lockAndUnlock(ctx, c, key) })
	}
	wg.Wait()
	for _, t := range tallies {
		if t.refused.code != 0 {
			return b.fail(t.refused.code, "%s", t.refused.why)
		}
	}
	b.add(tallies, time.Since(start))
	b.print()
	return map[bool]int{true: 0, false: exitFailed}[b.Pairs > 0]
}

// lockAndUnlock takes and releases key until ctx ends. It finishes the last pair.
func (b *bench) lockAndUnlock(ctx context.Context, c *client, key string) measurement {
	t := measurement{errors: map[string]int{}}
	args := []string{"LOCK", key, plain.Duration(b.ttl)}
	if b.Shared {
		args = append(args, "WAIT", plain.Duration(b.duration))
	}
	for ctx.Err() == nil {
		c.SetDeadline(time.Now().Add(b.duration + dialTimeout))
		start := time.Now()
		r, err := c.ask(context.Background(), args...)
		switch {
		case err != nil:
			t.errors["connection"]++
			return t
		case r.Kind == '-':
			if code := lockErrorCode(r.Text); code == exitDenied || code == exitUsage {
				t.refused = refusal{code, r.Text}
				return t
			}
			t.note(r.Text)
			continue
		case r.Null:
			t.errors["taken"]++
			continue
		}
		locked := time.Now()
		u, err := c.ask(context.Background(), "UNLOCK", key, r.Text)
		switch {
		case err != nil:
			t.errors["connection"]++
			return t
		case u.Kind == '-':
			t.note(u.Text)
			continue
		}
		t.lock, t.unlock = append(t.lock, locked.Sub(start)), append(t.unlock, time.Since(locked))
	}
	return t
}

// note counts an error reply by its first word.
func (t *measurement) note(text string) {
	word, _, _ := strings.Cut(text, " ")
	t.errors[word]++
}

func (b *bench) add(tallies []measurement, took time.Duration) {
	var lock, unlock []time.Duration
	b.Errors = map[string]int{}
	for _, t := range tallies {
		lock, unlock = append(lock, t.lock...), append(unlock, t.unlock...)
		for word, n := range t.errors {
			b.Errors[word] += n
		}
	}
	b.Seconds, b.Pairs, b.Lock, b.Unlock = took.Seconds(), len(lock), percentilesOf(lock), percentilesOf(unlock)
	b.Rate = float64(b.Pairs) / b.Seconds
}

// percentilesOf sorts all and returns its percentiles.
func percentilesOf(all []time.Duration) *percentiles {
	if len(all) == 0 {
		return &percentiles{}
	}
	slices.Sort(all)
	at := func(percent int) int64 { return all[(len(all)-1)*percent/100].Microseconds() }
	return &percentiles{at(50), at(90), at(99), at(100)}
}

func (b *bench) print() {
	if b.json {
		line, _ := json.Marshal(b)
		fmt.Fprintf(b.stdout, "%s\n", line)
		return
	}
	fmt.Fprintf(b.stdout, "%d clients, %.1fs: %d LOCK and UNLOCK, %.0f pairs a second\n", b.Clients, b.Seconds, b.Pairs,
		b.Rate)
	rows := [][]string{{"", "50 %", "90 %", "99 %", "MAX"}}
	for _, row := range []struct {
		name string
		p    *percentiles
	}{{"LOCK", b.Lock}, {"UNLOCK", b.Unlock}} {
		cells := []string{row.name}
		for _, micros := range []int64{row.p.P50, row.p.P90, row.p.P99, row.p.Max} {
			cells = append(cells, fmt.Sprintf("%.2f ms", float64(micros)/1000))
		}
		rows = append(rows, cells)
	}
	fmt.Fprintln(b.stdout, strings.Join(columns(rows), "\n"))
	for _, word := range slices.Sorted(maps.Keys(b.Errors)) {
		fmt.Fprintf(b.stdout, "%d times %s\n", b.Errors[word], word)
	}
}
