package compare

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/lab"
)

// A writer among readers that take turns: at every moment one of them holds the lock.

const (
	readFor   = 100 * time.Millisecond // half to one and a half of it
	writeFor  = 5 * time.Second        // how long the writer tries
	readerTTL = time.Second
)

// starve lets readers read repeatedly until the writer has tried. Both return an error if they
// get no lock.
func starve(t *testing.T, read func(i int) (release func(), err error), write func() error) tally {
	t.Helper()
	over := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 16 {
		readers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if release, err := read(i); err == nil {
					<-time.After(readFor/2 + rand.N(readFor))
					release()
				}
			}
		})
	}
	lab.Pass(t, 3*readFor)
	began := time.Now()
	err := write()
	t.Logf("the writer: %v after %v", err, time.Since(began))
	close(over)
	readers.Wait()
	if err != nil {
		return tally{bad: 1, tries: 1}
	}
	return tally{tries: 1}
}

func starveOurs(t *testing.T, _ size) tally {
	f := plain(t, 3, 5*time.Second)
	clients := begin(t, ours(), f, 1)
	lock := func(p proxied, args ...string) (func(), error) {
		call, err := p.ask(append([]string{"LOCK", "book", millis(readerTTL)}, args...)...)
		if err == nil && !strings.HasPrefix(call.Reply, "$57") {
			err = fmt.Errorf("LOCK: got %q", call.Reply)
		}
		if err != nil {
			return nil, err
		}
		token := lab.Scalar(call.Reply)
		return func() { _, _ = p.ask("UNLOCK", "book", token) }, nil
	}
	read := func(i int) (func(), error) {
		return lock(clients[i%2].(proxied), "SHARED", "WAIT", "1s")
	}
	return starve(t, read, func() error {
		_, err := lock(clients[0].(proxied), "WAIT", millis(writeFor))
		return err
	})
}

// readScript and writeScript implement Redisson's read-write lock, without reentrance.
const (
	readScript = `local mode = redis.call('hget', KEYS[1], 'mode')
if mode == false or mode == 'read' then
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], '1')
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`
	writeScript = `if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], '1')
return redis.call('pexpire', KEYS[1], ARGV[2])`
	leaveScript = `redis.call('hdel', KEYS[1], ARGV[1])
if redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
end
return 1`
)

func starveTheirs(t *testing.T, _ size) tally {
	rdb := redis.NewClient(&redis.Options{Addr: lab.StartRedis(t).Addr})
	t.Cleanup(func() { rdb.Close() })
	run := func(script string, who any) error {
		n, err := rdb.Eval(t.Context(), script, []string{"book"}, who, millis(readerTTL)).Int()
		if err == nil && n != 1 {
			err = fmt.Errorf("not granted")
		}
		return err
	}
	read := func(i int) (func(), error) {
		return func() { _ = run(leaveScript, i) }, run(readScript, i)
	}
	return starve(t, read, func() (err error) {
		end := time.Now().Add(writeFor)
		for ; time.Now().Before(end); <-time.After(10 * time.Millisecond) {
			if err = run(writeScript, "writer"); err == nil {
				return nil
			}
		}
		return err
	})
}
