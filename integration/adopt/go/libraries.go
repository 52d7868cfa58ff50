package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	zero "github.com/zeromicro/go-zero/core/stores/redis"
)

type redislockLibrary struct{ client *redislock.Client }

func newRedislock(rdb *redis.Client) (library, error) {
	return redislockLibrary{redislock.New(rdb)}, nil
}

func (l redislockLibrary) acquire(ctx context.Context, key string, ttl, wait time.Duration) (lock, error) {
	options := &redislock.Options{}
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
		options.RetryStrategy = redislock.LinearBackoff(pause)
	}
	got, err := l.client.Obtain(ctx, key, ttl, options)
	if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return redislockLock{got}, err
}

type redislockLock struct{ *redislock.Lock }

func (l redislockLock) release(ctx context.Context) (bool, error) {
	err := l.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return false, nil
	}
	return err == nil, err
}

func (l redislockLock) extend(ctx context.Context, ttl time.Duration) (bool, error) {
	err := l.Refresh(ctx, ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (l redislockLock) held(ctx context.Context) (bool, error) {
	rest, err := l.TTL(ctx)
	return rest > 0, err
}

// redsyncLibrary is redsync with one pool: no Redlock.
type redsyncLibrary struct{ sync *redsync.Redsync }

func newRedsync(rdb *redis.Client) (library, error) {
	return redsyncLibrary{redsync.New(goredis.NewPool(rdb))}, nil
}

func (l redsyncLibrary) acquire(ctx context.Context, key string, ttl, wait time.Duration) (lock, error) {
	tries := 1 + int(wait/pause)
	m := l.sync.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(tries), redsync.WithRetryDelay(pause),
		redsync.WithTimeoutFactor(0.4)) // of the ttl, for a busy machine
	if _, err := redsyncSays(true, m.LockContext(ctx)); err != nil {
		return nil, err
	}
	if m.Value() == "" {
		return nil, nil
	}
	return redsyncLock{m}, nil
}

// redsyncSays returns an error that is not "taken" or "expired".
func redsyncSays(yes bool, err error) (bool, error) {
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return false, nil
	}
	return yes && err == nil, err
}

type redsyncLock struct{ m *redsync.Mutex }

func (l redsyncLock) release(ctx context.Context) (bool, error) {
	return redsyncSays(l.m.UnlockContext(ctx))
}

// extend sets the expiry of the mutex again: it takes no other.
func (l redsyncLock) extend(ctx context.Context, _ time.Duration) (bool, error) {
	return redsyncSays(l.m.ExtendContext(ctx))
}

type goZeroLibrary struct{ store *zero.Redis }

// newGoZero uses a connection pool of its own to the server of rdb.
func newGoZero(rdb *redis.Client) (library, error) {
	o := rdb.Options()
	store, err := zero.NewRedis(zero.RedisConf{Host: o.Addr, Pass: o.Password, Type: zero.NodeType})
	return goZeroLibrary{store}, err
}

// acquire polls, because this library leaves that to its callers.
func (l goZeroLibrary) acquire(ctx context.Context, key string, ttl, wait time.Duration) (lock, error) {
	m := zero.NewRedisLock(l.store, key)
	m.SetExpire(int(ttl / time.Second))
	for end := time.Now().Add(wait); ; time.Sleep(pause) {
		got, err := m.AcquireCtx(ctx)
		if got && err == nil {
			return goZeroLock{m}, nil
		}
		if err != nil || time.Now().After(end) {
			return nil, err
		}
	}
}

type goZeroLock struct{ m *zero.RedisLock }

func (l goZeroLock) release(ctx context.Context) (bool, error) { return l.m.ReleaseCtx(ctx) }

// extend takes the lock again.
func (l goZeroLock) extend(ctx context.Context, ttl time.Duration) (bool, error) {
	l.m.SetExpire(int(ttl / time.Second))
	return l.m.AcquireCtx(ctx)
}
