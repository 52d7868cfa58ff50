package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// lookAgain is how long a dial that found the wrong server waits for the Sentinels to name
	// another.
	lookAgain = time.Second
	// oldEvery is how often a former master is asked whether it still serves.
	oldEvery = 250 * time.Millisecond
	// oldPatience bounds how long connections stay with a former master that does not know that it
	// was replaced. Writes there are lost. Sentinels reconfigure such a master after about 10s.
	oldPatience = 3 * time.Second
)

// Follow follows the Sentinels until ctx ends. Without Sentinels it returns at once. Dialling
// needs it. Each time the master has changed it calls moved in a goroutine of its own. Connections
// that were dialled before must then end as soon as they can without loss, and at once when old is
// done: when the former master is gone or refuses writes, and after 3s in any case. Follow waits
// for moved.
func (u *Upstream) Follow(ctx context.Context, moved func(old context.Context)) {
	if u.sentinels == nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	u.sentinels.follow(ctx, func(from, to string) {
		u.opts.Log.Info("upstream has another master", zap.String("upstream", u.opts.Name), zap.String("from", from),
			zap.String("to", to))
		u.forget()
		wg.Go(func() {
			old, cancel := context.WithTimeout(ctx, oldPatience)
			defer cancel()
			wg.Go(func() {
				u.outlast(old, from)
				cancel()
			})
			moved(old)
		})
	})
}

// outlast returns when the server at addr is gone or is no master any more, or ctx ends.
func (u *Upstream) outlast(ctx context.Context, addr string) {
	tick := time.NewTicker(oldEvery)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, lookAgain)
		conn, err := u.dialOne(attempt, addr)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				u.opts.Log.Info("the former master is gone", zap.String("upstream", u.opts.Name), zap.String("address", addr),
					zap.String("reason", Reason(err)))
			}
			return
		}
		conn.Close()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// dialMaster dials the master that the Sentinels name. If that fails or it is no master, it waits
// a moment for the Sentinels to name another one.
func (u *Upstream) dialMaster(ctx context.Context,
	dial func(ctx context.Context, addr string) (net.Conn, error)) (net.Conn, error) {
	addr, err := u.sentinels.master(ctx, "")
	if err != nil {
		return nil, err
	}
	for {
		conn, err := u.dialWhile(ctx, addr, dial)
		if err == nil {
			return conn, nil
		}
		wait, cancel := context.WithTimeout(ctx, lookAgain)
		other, unknown := u.sentinels.master(wait, addr)
		cancel()
		if unknown != nil {
			return nil, err
		}
		addr = other
	}
}

// dialWhile dials addr as long as that is the master.
func (u *Upstream) dialWhile(ctx context.Context, addr string,
	dial func(ctx context.Context, addr string) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			now, change := u.sentinels.current()
			if now != addr {
				cancel(errReplaced)
			}
			select {
			case <-change:
			case <-ctx.Done():
				return
			}
		}
	}()
	conn, err := dial(ctx, addr)
	if err == nil && context.Cause(ctx) != nil {
		conn.Close()
		conn, err = nil, fmt.Errorf("dial %s: %w", addr, context.Cause(ctx))
	}
	cancel(nil)
	<-ended
	return conn, err
}

var errReplaced = errors.New("another server is the master now")

// forget makes the next question go to the new master. The last answer counts until then.
func (u *Upstream) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fresh = time.Time{}
}
