package clients

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
)

// Libraries beside and in front of the proxy.

// A Redlock library on the same masters, with the same full key, excludes lockproxy's clients and
// is excluded by them.
func TestRedsyncExcludesLockproxy(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5)
	sync := redsyncOn(t, c.Masters)
	mutex := func() *redsync.Mutex {
		return sync.NewMutex("lock:job", redsync.WithTries(1), redsync.WithExpiry(30*time.Second))
	}
	host := lab.Dial(t, c.Addr)
	for dead := range 3 {
		if dead > 0 {
			c.Masters[dead-1].Kill()
		}
		theirs := mutex()
		if err := theirs.LockContext(t.Context()); err != nil {
			t.Fatalf("redsync with %d masters dead: %v", dead, err)
		}
		host.WantDo(lab.Null2, "LOCK", "job", "30s")
		host.WantDo(":0\r\n", "UNLOCK", "job", "0000000000000001:"+strings.Repeat("0", 40))
		if ok, err := theirs.UnlockContext(t.Context()); !ok {
			t.Fatalf("redsync lost its lock to LOCK or UNLOCK: %v", err)
		}
		token := host.Lock("job", "30s")
		var taken *redsync.ErrTaken
		if err := mutex().LockContext(t.Context()); err == nil || (dead == 0 && !errors.As(err, &taken)) {
			t.Fatalf("redsync while lockproxy holds: %v, want it taken", err)
		}
		host.Unlock("job", token)
	}
}

// go-redis, the common Go client, sees null as null, with its own handshake, pool and pipelines.
// In B34 a program ignored "not acquired", and its work ran unlocked (redis-py#621).
func TestGoRedis(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	ctx := t.Context()
	for _, protocol := range []int{2, 3} {
		rdb := redis.NewClient(&redis.Options{Addr: c.Addr, Protocol: protocol, ContextTimeoutEnabled: true})
		defer rdb.Close()
		token, err := rdb.Do(ctx, "LOCK", "job", "30s").Text()
		if err != nil || lab.TokenOf(lab.Bulk(token)) == "" {
			t.Fatalf("LOCK: got %q, %v", token, err)
		}
		if again, err := rdb.Do(ctx, "LOCK", "job", 30000).Text(); !errors.Is(err, redis.Nil) || again != "" {
			t.Errorf("LOCK of a held key: got %q, %v, want redis.Nil", again, err)
		}
		if n, err := rdb.Do(ctx, "UNLOCK", "job", token).Int(); n != 1 || err != nil {
			t.Errorf("UNLOCK: got %d, %v", n, err)
		}
		if n, err := rdb.Do(ctx, "UNLOCK", "job", token).Int(); n != 0 || err != nil {
			t.Errorf("second UNLOCK: got %d, %v", n, err)
		}
		if err := rdb.Do(ctx, "LOCK", "job", "x").Err(); err == nil ||
			!strings.HasPrefix(err.Error(), "ERR invalid expire") {
			t.Errorf("LOCK with a bad ttl: got %v", err)
		}
		checkPipeline(ctx, t, rdb)
	}
}

func checkPipeline(ctx context.Context, t *testing.T, rdb *redis.Client) {
	t.Helper()
	var set *redis.StatusCmd
	var lock *redis.Cmd
	var get *redis.StringCmd
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		set, lock, get = p.Set(ctx, "a", "1", 0), p.Do(ctx, "LOCK", "piped", "30s"), p.Get(ctx, "a")
		return nil
	})
	token, _ := lock.Text()
	if err != nil || set.Val() != "OK" || lab.TokenOf(lab.Bulk(token)) == "" || get.Val() != "1" {
		t.Errorf("pipeline: got %v, %v, %v, %v", err, set, lock, get)
	}
	if n, err := rdb.Do(ctx, "UNLOCK", "piped", token).Int(); n != 1 || err != nil {
		t.Errorf("UNLOCK: got %d, %v", n, err)
	}
	_, err = rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "a", "2", 0)
		p.Do(ctx, "LOCK", "transaction", "30s")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "LOCK is not allowed in transactions") &&
		!strings.Contains(err.Error(), "EXECABORT") {
		t.Errorf("LOCK in a transaction: got %v", err)
	}
	if a := rdb.Get(ctx, "a").Val(); a != "1" {
		t.Errorf("the aborted transaction ran: got a = %q", a)
	}
}
