// Package withlock runs functions under locks of lockproxy, with go-redis.
package withlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ErrTaken = errors.New("another holds the lock")
	ErrLost  = errors.New("the lock is lost")
)

// Do runs work under the lock of key, which it renews until work returns. It waits for the lock
// for at most wait; 0 tries once. When the lock is lost, the context of work ends with the cause
// ErrLost, and Do returns ErrLost. Work sends the fence with all that it writes.
func Do(ctx context.Context, rdb *redis.Client, key string, ttl, wait time.Duration,
	work func(ctx context.Context, fence int64) error) error {
	// Milliseconds, because go-redis writes a Duration in nanoseconds. A read time-out over wait,
	// because it sends a command again after that. WAIT 0 would wait for ever.
	command := []any{"LOCK", key, ttl.Milliseconds(), "FULL"}
	if wait > 0 {
		command = append(command, "WAIT", max(1, wait.Milliseconds()))
	}
	sent := time.Now()
	granted, err := rdb.WithTimeout(wait+5*time.Second).Do(ctx, command...).Slice()
	if errors.Is(err, redis.Nil) {
		return ErrTaken
	}
	if err != nil {
		return err
	}
	token, fence, validity := granted[0], granted[1].(int64), granted[2].(int64)

	held, cancel := context.WithCancelCause(ctx)
	until := sent.Add(wait).Add(milliseconds(validity)) // at the latest, if it had to wait
	lost := time.AfterFunc(time.Until(until), func() { cancel(ErrLost) })
	extend := func() error {
		sent := time.Now()
		reply, err := rdb.WithTimeout(ttl/3).Do(held, "EXTEND", key, token, ttl.Milliseconds(), "FULL").Slice()
		if err == nil { // of a lost lock validity is 0
			lost.Reset(time.Until(sent.Add(milliseconds(reply[1].(int64)))))
		}
		return err
	}
	if wait > 0 { // from here on it is known
		err = extend()
	}
	var renewing sync.WaitGroup
	if err == nil {
		renewing.Go(func() { renew(held, ttl, extend) })
		err = work(held, fence)
	}
	isLost := errors.Is(context.Cause(held), ErrLost)
	cancel(nil)
	renewing.Wait()
	lost.Stop()

	// Also after the caller has given up. On an error the release goes on, or the lock runs out.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	if n, failed := rdb.Do(ctx, "UNLOCK", key, token).Int(); isLost || failed == nil && n == 0 {
		return errors.Join(ErrLost, err)
	}
	return err
}

// renew extends the lock every third of its ttl, and more often while there is no majority.
func renew(held context.Context, ttl time.Duration, extend func() error) {
	pause := ttl / 3
	for {
		select {
		case <-held.Done():
			return
		case <-time.After(pause):
		}
		if pause = ttl / 3; extend() != nil {
			pause = ttl / 20
		}
	}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
