package clients

import (
	"bufio"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// docs/recipes.md is right about go-redis and late replies, with a server that never answers a
// LOCK.
func TestGoRedisReadTimeoutsAreAsDocumented(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var locks atomic.Int32
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go countLocks(c, &locks)
		}
	}()
	for _, c := range []struct {
		name    string
		options redis.Options
		wait    time.Duration // for WithTimeout
		sent    int32
	}{
		{name: "as it is", sent: 4},
		{name: "MaxRetries", options: redis.Options{MaxRetries: -1}, sent: 1},
		{name: "WithTimeout", options: redis.Options{MaxRetries: -1, ReadTimeout: time.Minute}, wait: 2 * time.Second,
			sent: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			locks.Store(0)
			c.options.Addr, c.options.Protocol, c.options.DisableIdentity = listener.Addr().String(), 2, true
			if c.options.ReadTimeout == 0 {
				c.options.ReadTimeout = 2 * time.Second
			}
			rdb := redis.NewClient(&c.options)
			asked := rdb
			if c.wait > 0 {
				asked = rdb.WithTimeout(c.wait)
			}
			if err := asked.Do(t.Context(), "LOCK", "job", 5000).Err(); err == nil || locks.Load() != c.sent {
				t.Errorf("got LOCK %d times (%v), want %d as on the page", locks.Load(), err, c.sent)
			}
			rdb.Close()
		})
	}
}

// countLocks answers the handshake, but no LOCK.
func countLocks(c net.Conn, locks *atomic.Int32) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		switch line := strings.ToLower(lines.Text()); line {
		case "lock":
			locks.Add(1)
		case "hello": // an old server does not know it
			_, _ = c.Write([]byte("-ERR unknown command 'hello'\r\n"))
		}
	}
}
