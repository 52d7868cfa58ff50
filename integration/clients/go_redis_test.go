package clients

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/lab"
)

// go-redis works in all its modes, RESP2 and RESP3, with lock commands among the others.
// TestGoRedis checks the replies of LOCK itself.
func TestGoRedisWorksInAllModes(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	for _, protocol := range []int{2, 3} {
		rdb := redis.NewClient(&redis.Options{Addr: c.Addr, Protocol: protocol, PoolSize: 20, ClientName: "ways"})
		defer rdb.Close()
		for name, step := range map[string]func(context.Context, *redis.Client) error{
			"kinds": goKinds, "pipeline": goPipeline, "transaction": goTransaction, "pubsub": goPubSub, "script": goScript,
			"blocking": goBlocking, "scan": goScan, "pool": goPool, "reconnect": goReconnect, "autopipeline": goAutoPipeline,
		} {
			t.Run(fmt.Sprintf("RESP%d/%s", protocol, name), func(t *testing.T) {
				if err := step(t.Context(), rdb); err != nil {
					t.Error(err)
				}
			})
		}
		rdb.FlushAll(t.Context())
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// goLock takes a lock. It asks again while the masters have no processor time to answer.
func goLock(ctx context.Context, rdb redis.Cmdable, key string, options ...any) (token string, err error) {
	doer := rdb.(interface {
		Do(context.Context, ...any) *redis.Cmd
	})
	lab.Poll(lab.Patience, func() bool {
		token, err = doer.Do(ctx, append([]any{"LOCK", key, "30s"}, options...)...).Text()
		return err == nil || !strings.HasPrefix(err.Error(), "NOQUORUM ") && !strings.HasPrefix(err.Error(), "TRYAGAIN ")
	})
	if err == nil && lab.TokenOf(lab.Bulk(token)) == "" {
		err = fmt.Errorf("LOCK %s: got %q", key, token)
	}
	return token, err
}

func goUnlock(ctx context.Context, rdb *redis.Client, key, token string) error {
	if n, err := rdb.Do(ctx, "UNLOCK", key, token).Int(); n != 1 || err != nil {
		return fmt.Errorf("UNLOCK %s: got %d, %w", key, n, err)
	}
	return nil
}

// goKinds takes every kind of lock: shared, limited, several keys, downgraded to shared, kept
// closed.
func goKinds(ctx context.Context, rdb *redis.Client) error {
	var readers [2]string
	var err error
	for i := range readers {
		if readers[i], err = goLock(ctx, rdb, "kinds", "SHARED"); err != nil {
			return err
		}
	}
	if _, err := goLock(ctx, rdb, "kinds"); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("LOCK beside readers: %v", err)
	}
	for _, token := range readers {
		if err := goUnlock(ctx, rdb, "kinds", token); err != nil {
			return err
		}
	}
	full, err := rdb.Do(ctx, "LOCK", "kinds", "30s", "LIMIT", 2, "FULL").Slice()
	if err != nil || len(full) != 4 {
		return fmt.Errorf("LOCK LIMIT: got %v, %w", full, err)
	}
	if err := goUnlock(ctx, rdb, "kinds", full[0].(string)); err != nil {
		return err
	}
	token, err := goLock(ctx, rdb, "kinds", "KEYS", 1, "more")
	if err != nil {
		return err
	}
	for _, do := range [][]any{
		{"EXTEND", "kinds", token, "30s", "KEYS", 1, "more"}, {"UNLOCK", "more", token},
		{"EXTEND", "kinds", token, "30s", "SHARED"}, {"UNLOCK", "kinds", token, "KEEP", "300ms"},
	} {
		if n, err := rdb.Do(ctx, do...).Int(); n != 1 || err != nil {
			return fmt.Errorf("%v: got %d, %w", do, n, err)
		}
	}
	if token, err = goLock(ctx, rdb, "kinds", "WAIT", "20s"); err != nil {
		return err
	}
	return goUnlock(ctx, rdb, "kinds", token)
}

func goPipeline(ctx context.Context, rdb *redis.Client) error {
	replies, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 100 {
			key := fmt.Sprintf("piped:%d", i)
			p.Set(ctx, key, i, 0)
			p.Do(ctx, "LOCK", key, "30s")
			p.Get(ctx, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range 100 {
		token, _ := replies[3*i+1].(*redis.Cmd).Text()
		if got := replies[3*i+2].(*redis.StringCmd).Val(); got != strconv.Itoa(i) {
			return fmt.Errorf("GET %d: got %q", i, got)
		}
		if err := goUnlock(ctx, rdb, fmt.Sprintf("piped:%d", i), token); err != nil {
			return err
		}
	}
	return nil
}

// goTransaction watches a key, takes a lock between WATCH and MULTI, and loses the race once.
func goTransaction(ctx context.Context, rdb *redis.Client) error {
	for _, spoiled := range []bool{false, true} {
		err := rdb.Watch(ctx, func(tx *redis.Tx) error {
			token, err := goLock(ctx, tx, "watched")
			if err != nil {
				return err
			}
			defer goUnlock(ctx, rdb, "watched", token)
			if spoiled {
				rdb.Incr(ctx, "watched")
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "watched"); return nil })
			return err
		}, "watched")
		if spoiled && !errors.Is(err, redis.TxFailedErr) || !spoiled && err != nil {
			return fmt.Errorf("spoiled %v: %w", spoiled, err)
		}
	}
	return nil
}

func goPubSub(ctx context.Context, rdb *redis.Client) error {
	sub := rdb.Subscribe(ctx, "news")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	if err := sub.PSubscribe(ctx, "n*"); err != nil {
		return err
	}
	for i := range 20 {
		token, err := goLock(ctx, rdb, "news")
		if err != nil {
			return err
		}
		if err := errors.Join(rdb.Publish(ctx, "news", token).Err(), goUnlock(ctx, rdb, "news", token)); err != nil {
			return err
		}
		select {
		case m := <-sub.Channel():
			if len(m.Payload) != 57 {
				return fmt.Errorf("message %d: got %q", i, m.Payload)
			}
		case <-time.After(lab.Patience):
			return errors.New("no message came")
		}
	}
	return nil
}

func goScript(ctx context.Context, rdb *redis.Client) error {
	script := redis.NewScript("return {KEYS[1], ARGV[1]}")
	rdb.ScriptFlush(ctx)
	for range 3 {
		token, err := goLock(ctx, rdb, "script")
		if err != nil {
			return err
		}
		if got, err := script.Run(ctx, rdb, []string{"k"}, token).StringSlice(); err != nil || got[1] != token {
			return fmt.Errorf("script: got %q, %w", got, err)
		}
		if err := goUnlock(ctx, rdb, "script", token); err != nil {
			return err
		}
	}
	return nil
}

func goBlocking(ctx context.Context, rdb *redis.Client) error {
	timer := time.AfterFunc(50*time.Millisecond, func() { rdb.RPush(ctx, "queue", "x") })
	defer timer.Stop()
	if got, err := rdb.BLPop(ctx, lab.Patience, "queue").Result(); err != nil || got[1] != "x" {
		return fmt.Errorf("BLPOP: got %q, %w", got, err)
	}
	if err := rdb.BLPop(ctx, time.Second, "none").Err(); !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

func goScan(ctx context.Context, rdb *redis.Client) error {
	for i := range 300 {
		rdb.HSet(ctx, fmt.Sprintf("scanned:%d", i), "f", i)
	}
	found, it := 0, rdb.Scan(ctx, 0, "scanned:*", 20).Iterator()
	for it.Next(ctx) {
		found++
	}
	if found != 300 {
		return fmt.Errorf("SCAN: got %d keys, %w", found, it.Err())
	}
	return nil
}

// goPool increments a number under a lock, from many goroutines: without the lock most increments
// would be lost.
func goPool(ctx context.Context, rdb *redis.Client) error {
	errs := make(chan error, 20)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 5 {
				token, err := goLock(ctx, rdb, "sum", "WAIT", "4s") // under go-redis' read timeout of 5s
				if err != nil {
					errs <- err
					return
				}
				n, _ := rdb.Get(ctx, "sum").Int()
				rdb.Set(ctx, "sum", n+1, 0)
				if err := goUnlock(ctx, rdb, "sum", token); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	if n, err := rdb.Get(ctx, "sum").Int(); n != 100 || err != nil {
		return fmt.Errorf("got sum %d, %w", n, err)
	}
	return nil
}

func goReconnect(ctx context.Context, rdb *redis.Client) error {
	token, err := goLock(ctx, rdb, "again")
	if err != nil {
		return err
	}
	list := rdb.ClientList(ctx).Val()
	for line := range strings.Lines(list) {
		if strings.Contains(line, "name=ways") {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
			rdb.Do(ctx, "CLIENT", "KILL", "ID", id)
		}
	}
	return goUnlock(ctx, rdb, "again", token)
}

func goAutoPipeline(ctx context.Context, rdb *redis.Client) error {
	auto, err := rdb.AutoPipeline()
	if err != nil {
		return err
	}
	defer auto.Close()
	var wg sync.WaitGroup
	errs := make(chan error, 50)
	for i := range 50 {
		wg.Go(func() {
			key := fmt.Sprintf("auto:%d", i)
			token, err := auto.Do(ctx, "LOCK", key, "30s").Text()
			if err == nil {
				err = auto.Set(ctx, key, token, 0).Err()
			}
			if got := auto.Get(ctx, key).Val(); err == nil && got != token {
				err = fmt.Errorf("GET %s: got %q, want %q", key, got, token)
			}
			if err == nil {
				err = goUnlock(ctx, rdb, key, token)
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
