package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// loadOrder is the task of a load process. The load on locks runs in a process of its own, so
// that its processor time, which is the whole cost of a library, is separate from that of the
// measurement.
type loadOrder struct {
	Way     string   // a key of ways
	Addrs   []string // of the proxy, or of the masters
	Workers int
	Span    time.Duration
	Contend bool // all lock one key, and wait for it

	Settle   time.Duration // the workers run for this long before Span begins
	Burst    bool          // each worker sends one LOCK, all at one instant
	Rate     float64       // LOCKs a second, shared by the workers; none waits for an earlier one
	Sessions int           // no workers, but holders: of SESSION locks, and
	Holders  int           // of plain locks, which they extend

	Command string // get or set: no locks, but requests, each worker one at a time
	Size    int    // of its value
}

// loadResult is the result of a load process. Times are in microseconds.
type loadResult struct {
	Pairs, Failed    int
	Failure          string         // the first
	Kinds            map[string]int // of failures, by errorKind
	Seconds, CPU     float64
	LockP50, LockP99 float64
	PairP50, PairP99 float64
	HandP50, HandP99 float64 // Contend: from sending UNLOCK to the next holder's grant
	Fewest, Most     int     // Contend: grants of a worker
	Longest          float64 // Contend: the longest a worker waited

	Last          float64 // Burst: until the last answer
	Unsent        int     // Rate: LOCKs for which no worker was idle
	Before, After float64 // Rate: LOCK median of one worker before, and from 1 s after the end
	Lost          int     // Sessions: no longer held at the end
	Extends       int     // Holders: EXTENDs sent
	Slowest       float64 // Holders: slowest answer to an EXTEND
}

const (
	lockTTL    = "10s"
	lockFor    = 10 * time.Second // the same
	waitFor    = "30s"
	contendKey = "contended"
)

// warmPairs is how many pairs each worker does before it is measured: connections are open,
// scripts are known. warmAtOnce is how many workers do so at a time: too few to overload the
// proxy.
const (
	warmPairs  = 5
	warmAtOnce = 256
)

// loadMain is a load process: it gets ready, says so, begins at a word on its standard input, says
// when it is done, and prints its result. The words let the measurement read processor times at
// the right moments.
func loadMain(args []string) error {
	var order loadOrder
	if len(args) != 1 {
		return errors.New("load wants one argument")
	}
	if err := json.Unmarshal([]byte(args[0]), &order); err != nil {
		return err
	}
	if _, err := raiseFileLimit(); err != nil {
		return err
	}
	l := newGenerator(order)
	if err := l.prepare(); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	result, err := l.run()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// generator produces the load of a load process.
type generator interface {
	prepare() error
	run() (loadResult, error) // prints the word "done" when the measurement ends
}

func newGenerator(order loadOrder) generator {
	l := &load{order: order, ctx: context.Background()}
	switch {
	case order.Command != "":
		return &callers{order: order}
	case order.Burst:
		return &burst{l}
	case order.Rate > 0:
		return &arrivals{load: l}
	case order.Sessions+order.Holders > 0:
		return &holders{order: order}
	}
	return l
}

// load has workers that lock and unlock in a closed loop.
type load struct {
	order    loadOrder
	ctx      context.Context
	workers  []*worker
	unlocked atomic.Int64 // Contend: when the last UNLOCK was sent, since begun
	begun    time.Time
}

// worker is one of many that lock at the same time. Its figures are its own until it has ended.
type worker struct {
	locker
	key         string
	locks, both []time.Duration
	hands       []time.Duration
	failed      int
	failure     error
	kinds       map[string]int
}

// locker takes and gives back one lock at a time. Not safe for concurrent use.
type locker interface {
	lock(ctx context.Context, key string) error
	unlock(ctx context.Context, key string) error
}

// prepare opens the connections.
func (l *load) prepare() error {
	open, ok := ways[l.order.Way]
	if !ok {
		return fmt.Errorf("no way %q", l.order.Way)
	}
	lockers, err := open(l.order)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	pairs, places := warmPairs, make(chan struct{}, warmAtOnce)
	if len(lockers) > warmAtOnce {
		pairs = 1
	}
	for i, way := range lockers {
		w := &worker{locker: way, key: fmt.Sprintf("job-%d", i)}
		l.workers = append(l.workers, w)
		wg.Go(func() {
			places <- struct{}{}
			w.warm(l.ctx, pairs)
			<-places
		})
	}
	wg.Wait()
	for _, w := range l.workers {
		if w.failure != nil {
			return w.failure
		}
		if l.order.Contend {
			w.key = contendKey
		}
	}
	return nil
}

// warm does a few pairs, each at last with success.
func (w *worker) warm(ctx context.Context, pairs int) {
	deadline := time.Now().Add(patience)
	for done := 0; done < pairs; {
		err := w.lock(ctx, w.key)
		if err == nil {
			err = w.unlock(ctx, w.key)
		}
		switch {
		case err == nil:
			done++
		case time.Now().After(deadline):
			w.failure = fmt.Errorf("no lock before the measurement: %w", err)
			return
		}
	}
}

// run is the measurement.
func (l *load) run() (loadResult, error) {
	before := ownCPU()
	l.begun = time.Now()
	deadline := l.begun.Add(l.order.Settle + l.order.Span)
	end := deadline
	if !l.order.Contend {
		end = end.Add(lockFor) // a pair that was begun is ended, unless it takes too long
	}
	ctx, cancel := context.WithDeadline(l.ctx, end)
	var wg sync.WaitGroup
	for _, w := range l.workers {
		wg.Go(func() { l.work(ctx, w, deadline) })
	}
	wg.Wait()
	cancel()
	fmt.Println("done")
	r := loadResult{CPU: (ownCPU() - before).Seconds(), Seconds: time.Since(l.begun).Seconds()}
	if l.order.Settle > 0 {
		r.Seconds = l.order.Span.Seconds()
	}
	l.sum(&r)
	return r, nil
}

// work locks and unlocks until the deadline.
func (l *load) work(ctx context.Context, w *worker, deadline time.Time) {
	for {
		sent := time.Now()
		if !sent.Before(deadline) {
			return
		}
		err := w.lock(ctx, w.key)
		granted := time.Now()
		if err != nil {
			if ctx.Err() == nil && w.fail(err) {
				return
			}
			continue
		}
		if l.order.Contend {
			l.noteHandOver(w, granted, deadline)
		}
		if err := w.unlock(l.ctx, w.key); err != nil {
			if w.fail(err) {
				return
			}
			continue
		}
		l.notePair(w, sent, granted, deadline)
	}
}

// noteHandOver notes the time from the last UNLOCK of any worker to a LOCK granted in the span.
// The next UNLOCK follows it.
func (l *load) noteHandOver(w *worker, granted, deadline time.Time) {
	if last := l.unlocked.Load(); last > 0 && granted.Before(deadline) {
		w.hands = append(w.hands, granted.Sub(l.begun)-time.Duration(last))
	}
	l.unlocked.Store(int64(time.Since(l.begun)))
}

// notePair counts a pair granted in the span. With Settle it notes the times of later LOCKs, too:
// the slowest are answered after the end.
func (l *load) notePair(w *worker, sent, granted, deadline time.Time) {
	took, inSpan := granted.Sub(sent), granted.Before(deadline)
	if granted.Sub(l.begun) < l.order.Settle {
		return
	}
	if inSpan || l.order.Settle > 0 {
		w.locks = append(w.locks, took)
	}
	if inSpan {
		w.both = append(w.both, time.Since(sent))
	}
}

// fail records an error, and reports whether to give up.
func (w *worker) fail(err error) bool {
	w.failed++
	if w.failure == nil {
		w.failure, w.kinds = err, map[string]int{}
	}
	w.kinds[errorKind(err)]++
	return w.failed > 1000
}
