// Program go runs lock libraries for Go. The protocol is in ../program_test.go.
//
// It is a module of its own, so that the product does not need these libraries.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/zeromicro/go-zero/core/logx"
)

// pause is the time between two tries of a library that waits.
const pause = 20 * time.Millisecond

// library makes locks over one connection pool.
type library interface {
	// acquire returns nil if another client holds the lock. It tries again for the time of wait.
	acquire(ctx context.Context, key string, ttl, wait time.Duration) (lock, error)
}

// lock returns false if the library says that the lock is lost.
type lock interface {
	release(ctx context.Context) (bool, error)
	extend(ctx context.Context, ttl time.Duration) (bool, error)
}

var libraries = map[string]func(rdb *redis.Client) (library, error){
	"redislock": newRedislock, "redsync": newRedsync, "go-zero": newGoZero,
}

type client struct {
	rdb  *redis.Client // for op add, and of most libraries
	lib  library
	lock lock // the last one
}

type request struct {
	ID      int    `json:"id"`
	Who     int    `json:"who"`
	Op      string `json:"op"`
	Library string `json:"library"`
	Addr    string `json:"addr"`
	Pass    string `json:"password"`
	Key     string `json:"key"`
	TTL     int    `json:"ttl"`
	Wait    int    `json:"wait"`
}

type answer struct {
	ID    int    `json:"id"`
	Yes   bool   `json:"yes"`
	Error string `json:"error,omitempty"`
}

func connect(r request) (*client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: r.Addr, Password: r.Pass})
	make, ok := libraries[r.Library]
	if !ok {
		return nil, errors.New("unknown library")
	}
	lib, err := make(rdb)
	return &client{rdb: rdb, lib: lib}, err
}

func (c *client) run(ctx context.Context, r request) (bool, error) {
	ttl, wait := time.Duration(r.TTL)*time.Millisecond, time.Duration(r.Wait)*time.Millisecond
	switch r.Op {
	case "close":
		return true, c.rdb.Close()
	case "acquire":
		l, err := c.lib.acquire(ctx, r.Key, ttl, wait)
		if l == nil || err != nil {
			return false, err
		}
		c.lock = l
		return true, nil
	case "release":
		return c.lock.release(ctx)
	case "extend":
		return c.lock.extend(ctx, ttl)
	case "add": // loses a count if another client is between the two commands
		n, err := c.rdb.Get(ctx, r.Key).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		return true, c.rdb.Set(ctx, r.Key, n+1, 0).Err()
	case "held":
		if l, ok := c.lock.(interface {
			held(ctx context.Context) (bool, error)
		}); ok {
			return l.held(ctx)
		}
	}
	return false, errors.New("unknown op " + r.Op)
}

func main() {
	logx.Disable()
	clients := map[int]*client{}
	var mu sync.Mutex // of the encoder
	out := json.NewEncoder(os.Stdout)
	say := func(a answer, err error) {
		if err != nil {
			a.Yes, a.Error = false, err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(a)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			say(answer{}, err)
			continue
		}
		if r.Op == "connect" {
			c, err := connect(r)
			clients[r.Who] = c
			say(answer{ID: r.ID, Yes: err == nil}, err)
			continue
		}
		c := clients[r.Who]
		go func() {
			yes, err := c.run(context.Background(), r)
			say(answer{ID: r.ID, Yes: yes}, err)
		}()
	}
}
