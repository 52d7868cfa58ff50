package compare

import (
	"errors"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// theirs is redsync as in its README: go-redis clients with only an address, and a mutex with
// only an expiry.
func theirs() subject {
	version := moduleVersion("github.com/go-redsync/redsync/v4") + ", go-redis " +
		moduleVersion("github.com/redis/go-redis/v9")
	return subject{name: "redsync", version: version, start: startTheirs}
}

func startTheirs(t *testing.T, f *field) (clients [2]client) {
	t.Helper()
	for i := range clients {
		var pools []redsyncredis.Pool
		for _, addr := range f.addrs {
			rdb := redis.NewClient(&redis.Options{Addr: addr})
			t.Cleanup(func() { rdb.Close() })
			pools = append(pools, goredis.NewPool(rdb))
		}
		clients[i] = library{redsync.New(pools...)}
	}
	return clients
}

// library is a client of redsync.
type library struct{ sync *redsync.Redsync }

func (l library) lock(key string, ttl time.Duration) (grant, error) {
	mutex := l.sync.NewMutex("lock:"+key, redsync.WithExpiry(ttl))
	sent := time.Now()
	if err := mutex.Lock(); err != nil {
		return grant{}, err
	}
	return grant{key: key, sent: sent, back: time.Now(), until: mutex.Until(), mine: mutex}, nil
}

func (l library) unlock(g grant) error {
	ok, err := g.mine.(*redsync.Mutex).Unlock()
	if !ok && err == nil {
		err = errors.New("not unlocked")
	}
	return err
}
