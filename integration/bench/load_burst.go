package main

import (
	"fmt"
	"sync"
	"time"
)

// burst has workers that send one LOCK each, all at one instant.
type burst struct{ *load }

func (b *burst) run() (loadResult, error) {
	var wg sync.WaitGroup
	b.begun = time.Now()
	for _, w := range b.workers {
		wg.Go(func() {
			line, token, err := w.locker.(*plain).receive()
			if err == nil && token == nil {
				err = fmt.Errorf("LOCK: %q", line)
			}
			if err != nil {
				w.fail(err)
				return
			}
			took := time.Since(b.begun)
			w.locks, w.both = append(w.locks, took), append(w.both, took)
		})
	}
	for _, w := range b.workers {
		if err := w.locker.(*plain).send("LOCK", w.key, burstTTL); err != nil {
			return loadResult{}, err
		}
	}
	wg.Wait()
	r := loadResult{Seconds: time.Since(b.begun).Seconds(), Last: micros(time.Since(b.begun))}
	fmt.Println("done")
	b.sum(&r)
	return r, nil
}

// burstTTL is longer than a burst may take.
const burstTTL = "30s"

// spin keeps a processor busy until the process is ended.
func spin() {
	for n := uint64(1); n != 0; n++ {
	}
}
