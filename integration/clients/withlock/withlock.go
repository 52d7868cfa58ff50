// Package withlock runs functions under locks of lockproxy, with go-redis: save it as withlock/withlock.go.
//
//	proxies := withlock.Connect(&redis.Options{Addr: "10.0.0.1:6380"}, &redis.Options{Addr: "10.0.0.2:6380"})
//	err := proxies.Do(ctx, "report", 10*time.Second, 5*time.Second, func(ctx context.Context, fence int64) error {
//		return write(ctx, report, fence)
//	})
package withlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrTaken: another held the lock for all of wait. ErrLost: the lock ended before work did.
var ErrTaken, ErrLost = errors.New("another holds the lock"), errors.New("the lock is lost")

// Proxies are addresses of one deployment. Safe for concurrent use.
type Proxies struct {
	clients []*redis.Client
	first   atomic.Int64
}

// Connect changes the time-outs in the options: those of each command count.
func Connect(options ...*redis.Options) *Proxies {
	p := &Proxies{}
	for _, o := range options { // the context of each command has the time-out
		o.ReadTimeout, o.ContextTimeoutEnabled, o.DialTimeout = -1, true, 500*time.Millisecond
		o.MaxRetries, o.DialerRetries = -1, 1
		p.clients = append(p.clients, redis.NewClient(o))
	}
	return p
}

// ask sends a command to the proxy in use. After an error the next one is in use. Null is nil.
func (p *Proxies) ask(ctx context.Context, timeout time.Duration, command ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	at := p.first.Load()
	reply, err := p.clients[at].Do(ctx, command...).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	} else if err != nil {
		p.first.Store((at + 1) % int64(len(p.clients)))
	}
	return reply, err
}

// Do runs work under the lock of key, which it renews until work returns. It waits for the lock for at
// most wait; 0 tries once. When the lock is lost, the context of work ends with the cause ErrLost.
func (p *Proxies) Do(ctx context.Context, key string, ttl, wait time.Duration,
	work func(ctx context.Context, fence int64) error) error {
	start, step := time.Now(), max(time.Second, min(wait/3, 10*time.Second)) // a proxy that hangs costs that
	sent, granted, failed := start, any(nil), 0
	for granted == nil {
		command := []any{"LOCK", key, ttl.Milliseconds(), "FULL"} // a Duration would be nanoseconds
		if sent = time.Now(); wait > 0 {                          // WAIT 0 would wait for ever
			command = append(command, "WAIT", max(1, min(step, wait-sent.Sub(start)).Milliseconds()))
		}
		var err error
		granted, err = p.ask(ctx, step+time.Second, command...)
		late := time.Since(start) >= wait
		if err == nil && granted == nil && late {
			return fmt.Errorf("%q: %w", key, ErrTaken)
		}
		if err != nil {
			if failed++; late && failed >= len(p.clients) || ctx.Err() != nil || refused(err) {
				return err
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	token, fence, validity := granted.([]any)[0], granted.([]any)[1].(int64), granted.([]any)[2].(int64)
	if wait > 0 {
		sent = time.Now() // the time since then went into waiting: extend asks how long it is held
	}
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := fmt.Errorf("%q: %w", key, ErrLost)
	timer := time.AfterFunc(time.Until(sent.Add(time.Duration(validity)*time.Millisecond)), func() { cancel(lost) })
	extend := func() {
		for held.Err() == nil { // after an error again, until the lock is lost or unlocked
			sent := time.Now()
			reply, err := p.ask(held, ttl/4, "EXTEND", key, token, ttl.Milliseconds(), "FULL")
			if err == nil { // of a lost lock validity is 0
				validity := time.Duration(reply.([]any)[1].(int64)) * time.Millisecond
				timer.Reset(time.Until(sent.Add(validity)))
				return
			}
			time.Sleep(ttl / 20)
		}
	}
	if wait > 0 {
		extend()
	}
	err := context.Cause(held)
	if err == nil {
		go func() { // ends soon after work has ended
			for range time.Tick(ttl / 3) {
				if extend(); held.Err() != nil {
					return
				}
			}
		}()
		err = work(held, fence)
	}
	timer.Stop()
	isLost := context.Cause(held) == lost
	for try := 0; try < 2 && !isLost; try++ { // also after the caller has given up; the lock may run out
		n, failed := p.ask(context.WithoutCancel(ctx), 500*time.Millisecond, "UNLOCK", key, token)
		if isLost = failed == nil && n == int64(0) && try == 0; failed == nil { // the first may have done it
			break
		}
	}
	if isLost {
		return errors.Join(lost, err)
	}
	return err
}

func refused(err error) bool {
	reply, text := redis.Error(nil), err.Error()
	return errors.As(err, &reply) && !strings.HasPrefix(text, "NOQUORUM") && !strings.HasPrefix(text, "TRYAGAIN")
}
