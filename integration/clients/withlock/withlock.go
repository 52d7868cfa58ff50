// Package withlock runs functions under locks of lockproxy: save it as withlock/withlock.go.
//
//	proxies := withlock.Connect(redis.Options{}, "10.0.0.1:6380", "10.0.0.2:6380") // once
//	err := proxies.Do(ctx, "report", 10*time.Second, 5*time.Second, write) // write(ctx, fence)
package withlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var ErrTaken, ErrLost = errors.New("another holds the lock"), errors.New("the lock is lost")

// Proxies sends a command to the proxy in use. After an error the next one is in use.
type Proxies func(ctx context.Context, timeout time.Duration, words ...any) (any, error)

// Connect takes options for all addresses. Each command has a time-out of its own.
func Connect(options redis.Options, addrs ...string) Proxies {
	clients, first := make([]*redis.Client, len(addrs)), new(atomic.Int64)
	for i, addr := range addrs {
		o := options
		o.Addr, o.DialTimeout, o.ReadTimeout = addr, 500*time.Millisecond, -1
		o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries = true, -1, 1
		clients[i] = redis.NewClient(&o)
	}
	return func(ctx context.Context, timeout time.Duration, words ...any) (any, error) {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		at := first.Load()
		reply, err := clients[at].Do(limited, words...).Result()
		if errors.Is(err, redis.Nil) {
			return nil, ErrTaken
		} else if err != nil && ctx.Err() == nil {
			first.Store((at + 1) % int64(len(clients)))
			time.Sleep(timeout / 20)
		}
		return reply, err
	}
}

// Do runs work under the lock of key and renews it. It waits at most wait (0: one try, or three if
// proxies fail), or returns ErrTaken. A lost lock ends work's context with ErrLost, and ends Do.
func (ask Proxies) Do(ctx context.Context, key string, ttl, wait time.Duration,
	work func(ctx context.Context, fence int64) error) error {
	start, ms, granted, err := time.Now(), ttl.Milliseconds(), any(nil), error(nil)
	for tries := 1; granted == nil; tries++ {
		step := max(time.Second, min(wait/3, 10*time.Second)) // a proxy that hangs costs that
		words := []any{"LOCK", key, ms, "FULL"}
		if wait > 0 { // WAIT 0 would wait for ever
			words = append(words, "WAIT", max(1, min(step, wait-time.Since(start)).Milliseconds()))
		}
		granted, err = ask(ctx, step+time.Second, words...)
		over := time.Since(start) >= wait && (tries > 2 || errors.Is(err, ErrTaken))
		passing := redis.HasErrorPrefix(err, "NOQUORUM") || redis.HasErrorPrefix(err, "TRYAGAIN")
		if err != nil && (over || ctx.Err() != nil || redis.HasErrorPrefix(err, "") && !passing) {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	full := granted.([]any)
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := fmt.Errorf("%q: %w", key, ErrLost)
	timer := time.AfterFunc(ttl, func() { cancel(lost) })
	var renew func()
	hold := func(sent time.Time, validity any) {
		timer.Reset(time.Until(sent.Add(time.Duration(validity.(int64)) * time.Millisecond)))
		time.AfterFunc(ttl/3, renew)
	}
	renew = func() { // after an error again, until the lock is lost or unlocked
		sent := time.Now()
		reply, err := ask(held, ttl/4, "EXTEND", key, full[0], ms, "FULL")
		if err == nil {
			hold(sent, reply.([]any)[1]) // of a lost lock validity is 0
		} else if held.Err() == nil {
			renew()
		}
	}
	if time.Since(start) > ttl/10 { // LOCK has waited: EXTEND for a fresh validity
		renew()
	} else {
		hold(start, full[2])
	}
	if err = context.Cause(held); err == nil {
		err = work(held, full[1].(int64))
	}
	for try, isLost := 0, context.Cause(held) == lost; !isLost; try++ { // after a cancel, too
		n, failed := ask(context.WithoutCancel(ctx), 450*time.Millisecond, "UNLOCK", key, full[0])
		if n == int64(1) || try > 0 { // the first may have done it, though no reply came
			return err
		}
		isLost = failed == nil
	}
	return errors.Join(lost, err)
}
