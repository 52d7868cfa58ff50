package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// arrivals sends LOCKs at a fixed rate and waits for none of them. Each takes an idle worker,
// which unlocks and is idle again; if none is idle the LOCK is not sent.
type arrivals struct {
	*load
	calm *worker // has the proxy to itself before and after
	idle chan *arrival
}

type arrival struct {
	*worker
	locks chan struct{} // one value for each LOCK to send
}

func (a *arrivals) prepare() error {
	if err := a.load.prepare(); err != nil {
		return err
	}
	one := a.order
	one.Workers = 1
	list, err := openPlain(one)
	if err != nil {
		return err
	}
	a.calm = &worker{locker: list[0], key: "calm"}
	return nil
}

func (a *arrivals) run() (r loadResult, err error) {
	r.Before = a.calmMedian()
	a.idle = make(chan *arrival, len(a.workers))
	var list []*arrival
	var wg sync.WaitGroup
	for _, w := range a.workers {
		one := &arrival{w, make(chan struct{}, 1)}
		list = append(list, one)
		a.idle <- one
		wg.Go(func() { a.serve(one) })
	}
	r.Unsent = a.arrive()
	end := time.Now()
	for _, one := range list {
		close(one.locks)
	}
	time.Sleep(time.Until(end.Add(afterLoad)))
	r.After = a.calmMedian()
	wg.Wait()
	fmt.Println("done")
	r.Seconds = a.order.Span.Seconds()
	a.workers = append(a.workers, a.calm) // for its errors
	a.sum(&r)
	return r, nil
}

// afterLoad is how long the proxy has to recover.
const afterLoad = time.Second

// arrive lets LOCKs arrive for the span and returns how many were not sent.
func (a *arrivals) arrive() (unsent int) {
	a.begun = time.Now()
	for arrived := 0; ; {
		passed := time.Since(a.begun)
		if passed >= a.order.Span {
			return unsent
		}
		for due := int(a.order.Rate * passed.Seconds()); arrived < due; arrived++ {
			select {
			case one := <-a.idle:
				one.locks <- struct{}{}
			default:
				unsent++
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// serve locks and unlocks for each value that arrives. It counts pairs granted in the span.
func (a *arrivals) serve(one *arrival) {
	for range one.locks {
		sent := time.Now()
		err := one.lock(a.ctx, one.key)
		granted := time.Now()
		if err == nil {
			err = one.unlock(a.ctx, one.key)
		}
		if err != nil {
			one.fail(err)
		} else {
			one.worker.locks = append(one.worker.locks, granted.Sub(sent))
			if granted.Sub(a.begun) < a.order.Span {
				one.both = append(one.both, time.Since(sent))
			}
		}
		a.idle <- one
	}
}

// calmMedian is the median of the LOCKs of one worker in half a second, in microseconds. One that
// fails counts with its time, and as an error.
func (a *arrivals) calmMedian() float64 {
	var list []time.Duration
	for begun := time.Now(); time.Since(begun) < 500*time.Millisecond; {
		sent := time.Now()
		err := a.calm.lock(a.ctx, a.calm.key)
		list = append(list, time.Since(sent))
		if err == nil {
			err = a.calm.unlock(a.ctx, a.calm.key)
		}
		if err != nil {
			a.calm.fail(err)
		}
	}
	slices.Sort(list)
	return micros(list[len(list)/2])
}
