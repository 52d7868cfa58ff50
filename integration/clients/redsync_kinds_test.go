package clients

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Redlock libraries and locks of several holders or keys, on the same masters.

// kindsBeside returns, by name, options of LOCK with its keys.
func kindsBeside() map[string]struct{ options, keys []string } {
	return map[string]struct{ options, keys []string }{
		"shared": {[]string{"SHARED"}, []string{"job"}},
		"limit":  {[]string{"LIMIT", "10"}, []string{"job"}},
		"keys":   {[]string{"KEYS", "2", "job2", "job3"}, []string{"job", "job2", "job3"}},
	}
}

// redsyncOn returns the library on these masters.
func redsyncOn(t *testing.T, masters []*lab.Redis) *redsync.Redsync {
	t.Helper()
	var pools []redsyncredis.Pool
	for _, s := range masters {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { rdb.Close() })
		pools = append(pools, goredis.NewPool(rdb))
	}
	return redsync.New(pools...)
}

// A lock of any kind refuses the library at each of its keys, and the library leaves it
// unchanged; if the library holds one of the keys, no kind is granted, and the other keys stay
// free.
func TestRedsyncAndKindsExcludeEachOther(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5)
	sync, host := redsyncOn(t, c.Masters), lab.Dial(t, c.Addr)
	mutex := func(key string) *redsync.Mutex {
		return sync.NewMutex("lock:"+key, redsync.WithTries(1), redsync.WithExpiry(30*time.Second))
	}
	for name, kind := range kindsBeside() {
		lock := append([]string{"LOCK", "job", "30s"}, kind.options...)
		for _, key := range kind.keys {
			token := host.WantToken(lock...)
			lab.WantHolders(t, c.Masters, key, 5)
			var taken *redsync.ErrTaken
			theirs := mutex(key)
			if err := theirs.LockContext(t.Context()); !errors.As(err, &taken) {
				t.Errorf("%s: redsync at %s: got %v, want it taken", name, key, err)
			}
			if ok, _ := theirs.UnlockContext(t.Context()); ok {
				t.Errorf("%s: redsync unlocked %s, which it never held", name, key)
			}
			host.WantDo(":1\r\n", withKeys([]string{"UNLOCK", "job", token}, kind.keys)...)
			lab.WantKeysGone(t, c.Masters, lab.Patience)

			theirs = mutex(key)
			if err := theirs.LockContext(t.Context()); err != nil {
				t.Fatalf("%s: redsync at free key %s: %v", name, key, err)
			}
			host.WantDo(lab.Null2, lock...)
			lab.WaitFor(t, "only the library's key left", lab.Patience, func() bool {
				return fmt.Sprint(lab.Census(t, c.Masters[:1])[c.Masters[0].Addr]) == "["+key+"]"
			})
			if ok, err := theirs.UnlockContext(t.Context()); !ok {
				t.Errorf("%s: redsync lost its lock: %v", name, err)
			}
		}
	}
}

// withKeys adds KEYS for all keys but the first, if there are any.
func withKeys(args, keys []string) []string {
	if len(keys) == 1 {
		return args
	}
	return append(append(args, "KEYS", fmt.Sprint(len(keys)-1)), keys[1:]...)
}

// SET NX PX on all masters, which Redis' page on Redlock shows, and locks of any kind exclude each
// other. A foreign value stays unchanged.
func TestSetAndKindsExcludeEachOther(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	set := func(key, want string) {
		t.Helper()
		for _, s := range c.Masters {
			got := s.Do(t, "SET", "lock:"+key, "theirs", "NX", "PX", "30000")
			if got != want {
				t.Errorf("SET %s: got %q, want %q", key, got, want)
			}
		}
	}
	for _, kind := range kindsBeside() {
		lock := append([]string{"LOCK", "job", "30s"}, kind.options...)
		token := host.WantToken(lock...)
		for _, key := range kind.keys {
			lab.WantHolders(t, c.Masters, key, 3)
			set(key, lab.Null2)
		}
		host.WantDo(":1\r\n", withKeys([]string{"UNLOCK", "job", token}, kind.keys)...)
		for _, key := range kind.keys {
			lab.WantKeysGone(t, c.Masters, lab.Patience)
			set(key, "+OK\r\n")
			host.WantDo(lab.Null2, lock...)
			for _, s := range c.Masters {
				if got := s.Do(t, "GET", "lock:"+key); got != lab.Bulk("theirs") {
					t.Errorf("GET %s: got %q", key, got)
				}
				s.Do(t, "DEL", "lock:"+key)
			}
		}
	}
}
