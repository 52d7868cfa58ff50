package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// ways are how a load process locks: each opens what its workers need.
var ways = map[string]func(loadOrder) ([]locker, error){
	"plain":     openPlain,
	"goredis":   openGoRedis,
	"redsync":   openRedsync,
	"redislock": openRedislock,
	"slock":     openSlock,
	"shared":    openKind("shared:", 0, "SHARED"),
	"limit":     openKind("limit:", 0, "LIMIT", "10"),
	"keys":      openKind("keys:", 3),
}

// plain is a connection to a proxy.
type plain struct {
	*client
	contend bool
	token   string
}

func openPlain(o loadOrder) ([]locker, error) {
	var list []locker
	for range o.Workers {
		c, err := dial(o.Addrs[0])
		if err != nil {
			return nil, err
		}
		c.conn.SetDeadline(time.Now().Add(2*time.Minute + o.Settle + o.Span))
		list = append(list, &plain{client: c, contend: o.Contend})
	}
	return list, nil
}

func (p *plain) lock(_ context.Context, key string) error {
	var line, token []byte
	var err error
	if p.contend {
		line, token, err = p.do("LOCK", key, lockTTL, "WAIT", waitFor)
	} else {
		line, token, err = p.do("LOCK", key, lockTTL)
	}
	if err == nil && token == nil {
		err = fmt.Errorf("LOCK: %q", line)
	}
	p.token = string(token)
	return err
}

func (p *plain) unlock(_ context.Context, key string) error {
	line, _, err := p.do("UNLOCK", key, p.token)
	if err == nil && string(line) != ":1\r\n" {
		err = fmt.Errorf("UNLOCK: %q", line)
	}
	return err
}

// kind is a connection to a proxy that takes locks of another kind, or several in one step.
type kind struct {
	*client
	prefix  string
	options []string // of LOCK
	more    int      // keys beside the first
	keys    []string // KEYS and the names after it
	token   string
}

// openKind makes a way out of LOCK with options, and of more keys that go with the first.
func openKind(prefix string, more int, options ...string) func(loadOrder) ([]locker, error) {
	return func(o loadOrder) ([]locker, error) {
		plains, err := openPlain(o)
		var list []locker
		for _, p := range plains {
			list = append(list, &kind{client: p.(*plain).client, prefix: prefix, options: options, more: more})
		}
		return list, err
	}
}

func (k *kind) lock(_ context.Context, key string) error {
	if k.more > 0 && k.keys == nil {
		k.keys = []string{"KEYS", strconv.Itoa(k.more)}
		for i := range k.more {
			k.keys = append(k.keys, k.prefix+key+"-"+strconv.Itoa(i))
		}
	}
	line, token, err := k.do(slices.Concat([]string{"LOCK", k.prefix + key, lockTTL}, k.keys, k.options)...)
	if err == nil && token == nil {
		err = fmt.Errorf("LOCK: %q", line)
	}
	k.token = string(token)
	return err
}

func (k *kind) unlock(_ context.Context, key string) error {
	line, _, err := k.do(slices.Concat([]string{"UNLOCK", k.prefix + key, k.token}, k.keys)...)
	if err == nil && string(line) != ":1\r\n" {
		err = fmt.Errorf("UNLOCK: %q", line)
	}
	return err
}

// poolOptions configures go-redis for a load: as many connections as can be busy at a time, and
// no retries or extra commands.
func poolOptions(addr string, workers int) *redis.Options {
	return &redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		PoolSize: workers, MinIdleConns: workers, ReadTimeout: time.Minute}
}

// viaGoRedis is lockproxy through an ordinary client library.
type viaGoRedis struct {
	*redis.Client
	token string
}

func openGoRedis(o loadOrder) ([]locker, error) {
	rdb := redis.NewClient(poolOptions(o.Addrs[0], o.Workers))
	var list []locker
	for range o.Workers {
		list = append(list, &viaGoRedis{Client: rdb})
	}
	return list, nil
}

func (v *viaGoRedis) lock(ctx context.Context, key string) (err error) {
	v.token, err = v.Do(ctx, "LOCK", key, lockTTL).Text()
	return err
}

func (v *viaGoRedis) unlock(ctx context.Context, key string) error {
	n, err := v.Do(ctx, "UNLOCK", key, v.token).Int()
	if err == nil && n != 1 {
		err = errors.New("UNLOCK: not held")
	}
	return err
}

// library is redsync. It does not use WithFailFast: then a release can overtake the lock's last
// SETs, and after a few thousand pairs a majority of masters holds stray keys, so that no
// measurement is possible.
type library struct {
	sync    *redsync.Redsync
	options []redsync.Option
	mutex   *redsync.Mutex
}

// redsyncConns bounds redsync's connections to each master: more of them make it slower.
const redsyncConns = 1024

func openRedsync(o loadOrder) ([]locker, error) {
	var pools []redsyncredis.Pool
	for _, addr := range o.Addrs {
		pools = append(pools, goredis.NewPool(redis.NewClient(poolOptions(addr, min(o.Workers, redsyncConns)))))
	}
	options := []redsync.Option{redsync.WithExpiry(lockFor)}
	if o.Contend {
		options = append(options, redsync.WithTries(100_000)) // until the measurement ends; the delay between two is its own
	}
	var list []locker
	for range o.Workers {
		list = append(list, &library{sync: redsync.New(pools...), options: options})
	}
	return list, nil
}

func (l *library) lock(ctx context.Context, key string) error {
	l.mutex = l.sync.NewMutex("redsync:"+key, l.options...)
	return l.mutex.LockContext(ctx)
}

func (l *library) unlock(ctx context.Context, _ string) error {
	ok, err := l.mutex.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("not unlocked")
	}
	return err
}
