package compare

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Two lockers of two keys, each in its own order.

// oppositeFor is the time limit for the first of the two to get both keys.
const oppositeFor = 3 * time.Second

// opposite lets two clients lock both keys of a pair, for many pairs side by side. both locks
// them in the given order, holds them for a moment and releases them.
func opposite(t *testing.T, n int, both func(who int, keys [2]string) error) tally {
	t.Helper()
	var sum tally
	var mu sync.Mutex
	var wg, rest sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			one, two := fmt.Sprint("left-", i), fmt.Sprint("right-", i)
			done := make(chan error, 2)
			rest.Go(func() { done <- both(0, [2]string{one, two}) })
			rest.Go(func() { done <- both(1, [2]string{two, one}) })
			served := 0
			select {
			case err := <-done:
				if err == nil {
					served = 1
				}
			case <-time.After(oppositeFor * lab.Slack):
			}
			mu.Lock()
			defer mu.Unlock()
			sum = sum.plus(tally{bad: 1 - served, tries: 1})
		})
	}
	wg.Wait()
	rest.Wait()
	return sum
}

func oppositeOurs(t *testing.T, size size) tally {
	f := plain(t, 3, 10*time.Second)
	clients := begin(t, ours(), f, size.pairs/2)
	return opposite(t, size.pairs, func(who int, keys [2]string) error {
		p := clients[who].(proxied)
		call, err := p.ask("LOCK", keys[0], "10s", "KEYS", "1", keys[1], "WAIT", "5s")
		if err != nil {
			return err
		}
		token := lab.Scalar(call.Reply)
		call, err = p.ask("UNLOCK", keys[0], token, "KEYS", "1", keys[1])
		if err == nil && call.Reply != ":1\r\n" {
			err = fmt.Errorf("UNLOCK: got %q", call.Reply)
		}
		return err
	})
}

// oppositeTheirs locks one key after the other, like nested code.
func oppositeTheirs(t *testing.T, size size) tally {
	f := plain(t, 3, 10*time.Second)
	clients := begin(t, theirs(), f, size.pairs/2)
	return opposite(t, size.pairs, func(who int, keys [2]string) error {
		first, err := clients[who].lock(keys[0], 10*time.Second)
		if err != nil {
			return err
		}
		second, err := clients[who].lock(keys[1], 10*time.Second)
		if err == nil {
			err = clients[who].unlock(second)
		}
		_ = clients[who].unlock(first)
		return err
	})
}
