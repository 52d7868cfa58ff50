package sim

import (
	"context"
	"sync"
	"time"

	"lockproxy/quorum"
)

// several takes a few locks at once. Like an event loop that has read several commands, it sends
// all with one Flush, in packets. It gives them back in the same way, some together with the
// locks it takes next.
func (c *simClient) several(pr *simProxy) {
	claims := c.acquireAll(pr, nil)
	for rounds := c.random.IntN(3); rounds >= 0 && len(claims) > 0; rounds-- {
		if !c.w.wait(c.moment(c.w.plan.mostHold)) {
			return
		}
		if rounds > 0 {
			claims = c.acquireAll(pr, claims)
		}
	}
	if len(claims) > 0 {
		c.acquireNone(pr, claims)
	}
}

// acquireAll gives back some locks and asks for others. It returns the granted ones.
func (c *simClient) acquireAll(pr *simProxy, back []*claim) (claims []*claim) {
	time.Sleep(c.moment(0))
	var mu sync.Mutex
	var wg sync.WaitGroup
	c.giveAll(pr, back, &wg)
	for range 2 + c.random.IntN(5) {
		want := c.want(c.key())
		call := c.asks(pr, want)
		wg.Add(1)
		pr.q.AcquireAsync(want, func(lease quorum.Lease, err error) {
			defer wg.Done()
			if cl, err := call.end(lease, err); err == nil {
				mu.Lock()
				claims = append(claims, cl)
				mu.Unlock()
			}
		})
	}
	pr.q.Flush()
	wg.Wait()
	return claims
}

// acquireNone gives back locks.
func (c *simClient) acquireNone(pr *simProxy, back []*claim) {
	time.Sleep(c.moment(0))
	var wg sync.WaitGroup
	c.giveAll(pr, back, &wg)
	pr.q.Flush()
	wg.Wait()
}

// guess returns the mode in which a proxy believes the client holds the lock: mostly the right
// one.
func (c *simClient) guess(cl *claim) quorum.Mode {
	if c.chance(0.1) {
		return quorum.Mode(c.random.IntN(int(quorum.Kept) + 1))
	}
	return cl.mode
}

// giveAll begins to give back locks; the caller flushes and waits.
func (c *simClient) giveAll(pr *simProxy, back []*claim, wg *sync.WaitGroup) {
	for _, cl := range back {
		call := c.gives(cl, pr)
		wg.Add(1)
		if len(cl.keys) > 1 {
			go func() {
				defer wg.Done()
				call.finish(pr.q.Release(context.Background(), cl.keys, cl.token, 0))
			}()
			continue
		}
		pr.q.ReleaseAsync(quorum.ReleaseRequest{Key: cl.key, Token: cl.token, Likely: c.guess(cl)},
			func(held bool, err error) {
				defer wg.Done()
				call.finish(held, err)
			})
	}
}
