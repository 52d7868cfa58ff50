package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"lockproxy/integration/redistest"
	"lockproxy/quorum/internal/notify"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// redisServer is a real redis-server of this test, with a client.
type redisServer struct {
	*redis.Client
	server *redistest.Server
	addr   string
}

// startRedis starts a redis-server on a port.
func startRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	s := &redisServer{server: redistest.StartTCP(t, args...)}
	s.addr = s.server.Addr
	s.Client = redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DialerRetries: 1, Protocol: 2,
		DisableIdentity: true})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// aWhile is the limit of poll for what takes milliseconds unless the machine is busy.
const aWhile = time.Minute

// poll asks f until it says yes or limit has passed.
func poll(limit time.Duration, f func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-tick.C {
		if f() {
			return true
		}
	}
	return f()
}

// testState is the hash of record and counters under the prefix of the tests.
const testState = ReservedPrefix + "state:lock:"

var nextRunID atomic.Int64

// startMini starts a miniredis and adds commands that it lacks and a lane needs.
func startMini(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	runID := fmt.Sprintf("%040d", nextRunID.Add(1))
	var ids atomic.Int64
	m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if strings.EqualFold(cmd, "INFO") {
			c.WriteBulk("# Server\r\nredis_mode:standalone\r\nrun_id:" + runID +
				"\r\nrole:master\r\naof_enabled:0\r\n")
			return true
		}
		args = append(args, "")
		switch strings.ToUpper(cmd + " " + args[0]) {
		case "CLIENT ID":
			c.WriteInt(int(ids.Add(1)))
		case "CLIENT KILL":
			c.WriteInt(0)
		default:
			return false
		}
		return true
	})
	return m
}

// dialQuorum starts a Quorum in front of real addresses, without the restart guard, and closes it
// with the test.
func dialQuorum(t testing.TB, addrs []string, change ...func(*Options)) *Quorum {
	t.Helper()
	o := Options{KeyPrefix: "lock:", MasterTimeout: time.Second, MaxTTL: time.Minute, Fencing: true,
		Guard: GuardOff}
	for _, a := range addrs {
		o.Masters = append(o.Masters, MasterOptions{Addr: a})
	}
	for _, f := range change {
		f(&o)
	}
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = q.Close(ctx)
	})
	ctx, cancel := context.WithTimeout(t.Context(), aWhile)
	defer cancel()
	if err := q.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return q
}

// startMasters starts n redis-servers.
func startMasters(t testing.TB, n int) (servers []*redisServer, addrs []string) {
	t.Helper()
	for range n {
		s := startRedis(t)
		servers, addrs = append(servers, s), append(addrs, s.addr)
	}
	return servers, addrs
}

// eventually acquires: real machines may be too slow for one attempt.
func eventually(t testing.TB, q *Quorum, key string, ttl time.Duration) Lease {
	t.Helper()
	var lease Lease
	var err error
	if !poll(aWhile, func() bool {
		lease, err = q.Acquire(t.Context(), Request{Key: key, TTL: ttl})
		return err == nil
	}) {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return lease
}

// strays counts the lock keys on a server.
func strays(t testing.TB, s *redisServer) int {
	t.Helper()
	keys, err := s.Keys(t.Context(), "lock:*").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return len(keys)
}

func port(t testing.TB, addr string) int {
	t.Helper()
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(p)
	return n
}

// onServers runs f against three masters that are miniredis, and three that are Redis.
func onServers(t *testing.T, f func(t *testing.T, q *Quorum)) {
	for kind, start := range startThree {
		t.Run(kind, func(t *testing.T) { f(t, dialQuorum(t, start(t))) })
	}
}

// grantedOf acquires a lock that is free. It asks again like a client while masters give no answer
// within the second that an attempt lasts at most, which happens on a busy machine.
func grantedOf(t *testing.T, q *Quorum, r Request) (lease Lease) {
	t.Helper()
	if r.TTL == 0 {
		r.TTL = time.Minute
	}
	var err error
	poll(aWhile, func() bool {
		lease, err = q.Acquire(t.Context(), r)
		return !errors.Is(err, ErrNoQuorum)
	})
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return lease
}

func refusedOf(t *testing.T, q *Quorum, r Request) {
	t.Helper()
	r.TTL = time.Minute
	if lease, err := q.Acquire(t.Context(), r); !errors.Is(err, ErrHeld) {
		t.Errorf("%+v: %+v, %v, want that it is held", r, lease, err)
	}
}

func givenBack(t *testing.T, q *Quorum, key string, lease Lease) {
	t.Helper()
	if held, err := q.Release(t.Context(), []string{key}, lease.Token, 0); !held || err != nil {
		t.Errorf("release of %s: %v, %v", key, held, err)
	}
}

// waitDrained waits until every lane votes, has no pending release and has been pinged after its
// last request.
func waitDrained(t *testing.T, proxies []*Quorum) {
	t.Helper()
	for _, q := range proxies {
		done := poll(aWhile, func() bool {
			for _, st := range q.Masters() {
				if st.State != stat.StateVoting || st.Repairs != 0 || st.Unanswered != 0 {
					return false
				}
			}
			return q.calls.running.Load() == 0
		})
		if !done {
			t.Fatalf("lanes do not come to rest: %+v", q.Masters())
		}
	}
}

// startThree starts three masters of a kind.
var startThree = map[string]func(t *testing.T) []string{
	"miniredis": func(t *testing.T) []string {
		return []string{startMini(t).Addr(), startMini(t).Addr(), startMini(t).Addr()}
	},
	"redis": func(t *testing.T) []string { _, addrs := startMasters(t, 3); return addrs },
}

// subscribed returns at how many masters there are subscriptions to the releases of a full key.
func subscribed(t *testing.T, addrs []string, fullKey string) (n int) {
	t.Helper()
	channel := wire.ReleasedPrefix + fullKey
	for _, addr := range addrs {
		c, err := notify.Dial(t.Context(), &MasterOptions{Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		n += int(min(1, c.PubSubNumSub(t.Context(), channel).Val()[channel]))
		_ = c.Close()
	}
	return n
}

// waitSubscribed waits until each server has a subscriber to the releases of a key. Watch itself
// waits only for a majority of them.
func waitSubscribed(t *testing.T, addrs []string, fullKey string) {
	t.Helper()
	if !poll(aWhile, func() bool { return subscribed(t, addrs, fullKey) == len(addrs) }) {
		t.Fatalf("subscribed at %d masters of %d", subscribed(t, addrs, fullKey), len(addrs))
	}
}

// dialMaster opens a client of a master for the time of the test.
func dialMaster(t *testing.T, o *MasterOptions) *notify.Client {
	t.Helper()
	c, err := notify.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
