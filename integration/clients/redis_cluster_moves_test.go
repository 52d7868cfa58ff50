package clients

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/lab"
)

// movedSlots is how many slots, counted from 0, the test moves. Half of its keys are there.
const movedSlots = 60

// While a cluster client writes through the proxies, nodes join, slots move to one of them and
// away again, that node is deleted, a replica takes over by hand, and the new master is killed, so
// that its replica takes over by itself. Every write that was acknowledged can be read afterwards,
// and a lock is not disturbed. The client looks for moved slots once a second: docs/relay.md says
// why.
func TestClusterMovesLoseNoWrite(t *testing.T) {
	t.Parallel()
	c := startRedisCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.proxies[1].Addr, c.proxies[2].Addr},
		ReadTimeout: lab.Patience, ClusterStateReloadInterval: time.Second})
	defer rdb.Close()
	token, err := rdb.Do(t.Context(), "LOCK", "moves", "60s").Text()
	if err != nil {
		t.Fatal(err)
	}
	w := startWriters(t, c, rdb)
	w.after = func() { // the moves take longer than max-ttl on a busy machine
		if n, err := rdb.Do(t.Context(), "EXTEND", "moves", token, "60s").Int(); n != 1 {
			t.Errorf("EXTEND between two moves: got %d, %v, want 1", n, err)
		}
	}

	const first, spare, replica = 0, 3, 4
	other := c.proxies[1].Addr
	w.during(t, "add-node", func() {
		c.cli(t, "add-node", c.startNode(t), other)
		c.waitNodes(t, 0, 1, 2, spare)
		c.cli(t, "add-node", c.startNode(t), other, "--cluster-slave", "--cluster-master-id", c.id(t, first))
		c.waitNodes(t, 0, 1, 2, spare, replica)
	})
	w.during(t, "reshard to the new node", func() { c.reshard(t, first, spare) })
	if n := lab.Number(t, lab.Scalar(c.nodes[spare].Do(t, "DBSIZE"))); n == 0 {
		t.Error("keys on the new node: got none, want some that moved")
	}
	c.waitNodes(t, 0, 1, 2, spare, replica)
	w.during(t, "reshard away from it", func() { c.reshard(t, spare, first) })
	c.waitNodes(t, 0, 1, 2, spare, replica)
	w.during(t, "del-node", func() {
		c.cli(t, "del-node", other, c.id(t, spare))
		c.proxies[spare].Stop(t) // or else go-redis takes the node's map of slots, now empty, for true
		c.waitNodes(t, 0, 1, 2, replica)
	})
	w.during(t, "manual failover", func() {
		c.waitReplica(t, first)
		c.nodes[replica].Must(t, "CLUSTER", "FAILOVER")
		c.waitRole(t, replica, "master")
		c.waitNodes(t, 0, 1, 2, replica)
	})

	// Redis acknowledges a write before its replica has it. So none may be under way when it ends.
	var killed time.Time
	w.between(func() {
		c.waitReplica(t, replica)
		for _, i := range []int{0, 1, 2} {
			c.nodes[i].Must(t, "CONFIG", "SET", "cluster-node-timeout", "2000")
		}
		c.nodes[replica].Kill()
		killed = time.Now()
	})
	w.during(t, "kill -9", func() {
		c.waitRole(t, first, "master")
		t.Logf("the replica took over after %v", time.Since(killed).Round(time.Millisecond))
		c.waitNodes(t, 0, 1, 2)
	})
	// A map of slots from before the nodes agreed may still be on its way to the first client.
	after := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{other}, ReadTimeout: lab.Patience})
	defer after.Close()
	w.between(func() { w.wantAll(t, after) })
	if n, err := after.Do(t.Context(), "UNLOCK", "moves", token).Int(); n != 1 {
		t.Errorf("UNLOCK of a lock from before: got %d, %v, want 1", n, err)
	}
}

// id returns the name of a node in the cluster.
func (c *redisCluster) id(t *testing.T, node int) string {
	t.Helper()
	return lab.Scalar(c.nodes[node].Do(t, "CLUSTER", "MYID"))
}

// reshard moves the first slots from one node to another.
func (c *redisCluster) reshard(t *testing.T, from, to int) {
	t.Helper()
	c.cli(t, "reshard", c.proxies[1].Addr, "--cluster-from", c.id(t, from), "--cluster-to", c.id(t, to),
		"--cluster-slots", strconv.Itoa(movedSlots))
}

// waitReplica waits until a master has one replica, which has all writes of before the call.
func (c *redisCluster) waitReplica(t *testing.T, master int) {
	t.Helper()
	want := lab.Number(t, c.nodes[master].Info(t, "replication", "master_repl_offset"))
	lab.WaitFor(t, "a replica with all writes", lab.Patience, func() bool {
		_, offset, online := strings.Cut(c.nodes[master].Info(t, "replication", "slave0"), "state=online,offset=")
		offset, _, _ = strings.Cut(offset, ",")
		return online && lab.Number(t, offset) >= want
	})
}

// waitRole waits until a node has the role.
func (c *redisCluster) waitRole(t *testing.T, node int, role string) {
	t.Helper()
	lab.WaitFor(t, "the role "+role, lab.Patience, func() bool {
		return c.nodes[node].Info(t, "replication", "role") == role
	})
}

// writers write keys to a cluster, one after the other, until the test ends.
type writers struct {
	rdb     *redis.ClusterClient
	moved   []string     // tags of keys in the slots that move
	writing sync.RWMutex // held for reading during a write
	after   func()       // called at the end of during

	acked, ackedMoved, failed atomic.Int64
	mu                        sync.Mutex
	keys                      []string // that were acknowledged
	lastErr                   error
}

// startWriters starts the goroutines that write.
func startWriters(t *testing.T, c *redisCluster, rdb *redis.ClusterClient) *writers {
	t.Helper()
	w := &writers{rdb: rdb, moved: c.tags(t)}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() { w.run(ctx, i) })
	}
	t.Cleanup(func() { stop(); wg.Wait() })
	return w
}

// tags returns hash tags whose slots the test moves.
func (c *redisCluster) tags(t *testing.T) (tags []string) {
	t.Helper()
	host := lab.Dial(t, c.proxies[0].Addr)
	const candidates = 8000
	var all strings.Builder
	for i := range candidates {
		all.WriteString(string(lab.Encode("CLUSTER", "KEYSLOT", strconv.Itoa(i))))
	}
	host.Send(all.String())
	for i := range candidates {
		if lab.Number(t, lab.Scalar(host.Frame())) < movedSlots {
			tags = append(tags, strconv.Itoa(i))
		}
	}
	return tags
}

// run writes keys until ctx ends: a few thousand a second at most.
func (w *writers) run(ctx context.Context, writer int) {
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
		key := fmt.Sprintf("key-%d-%d", writer, n)
		if n%2 == 0 {
			key = fmt.Sprintf("{%s}-%d-%d", w.moved[n/2%len(w.moved)], writer, n)
		}
		w.write(ctx, key, n%2 == 0)
	}
}

// write writes one key, whose value is its name.
func (w *writers) write(ctx context.Context, key string, moved bool) {
	w.writing.RLock()
	defer w.writing.RUnlock()
	err := w.rdb.Set(ctx, key, key, 0).Err()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.lastErr = err
		w.failed.Add(1)
		return
	}
	w.keys = append(w.keys, key)
	w.acked.Add(1)
	if moved {
		w.ackedMoved.Add(1)
	}
}

// between calls f while no write is under way.
func (w *writers) between(f func()) {
	w.writing.Lock()
	defer w.writing.Unlock()
	f()
}

// during calls f, and fails unless writes to all slots are acknowledged meanwhile or right after.
func (w *writers) during(t *testing.T, what string, f func()) {
	t.Helper()
	start, acked, failed := time.Now(), w.acked.Load(), w.failed.Load()
	f()
	w.waitMoved(t)
	w.after()
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%s: %v, %d writes, %d errors (last %v)", what, time.Since(start).Round(time.Millisecond),
		w.acked.Load()-acked,
		w.failed.Load()-failed, w.lastErr)
}

// waitMoved waits until a key in each of the moved slots was written once more. A cluster client
// may take its time to learn of a failover.
func (w *writers) waitMoved(t *testing.T) {
	t.Helper()
	want := w.ackedMoved.Load() + int64(len(w.moved))
	if !lab.Poll(2*lab.Patience, func() bool { return w.ackedMoved.Load() >= want }) {
		w.mu.Lock()
		defer w.mu.Unlock()
		t.Fatalf("writes to the slots that move: got %d of %d, last error %v", w.ackedMoved.Load(), want, w.lastErr)
	}
}

// wantAll fails unless a client can read all acknowledged keys.
func (w *writers) wantAll(t *testing.T, rdb *redis.ClusterClient) {
	t.Helper()
	ctx := t.Context()
	lost := 0
	for keys := range slices.Chunk(w.keys, 500) {
		replies, _ := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.Get(ctx, key)
			}
			return nil
		})
		for i, key := range keys {
			if got, err := replies[i].(*redis.StringCmd).Result(); got != key {
				if lost++; lost < 5 {
					t.Errorf("GET %s after an acknowledged SET: got %q, %v", key, got, err)
				}
			}
		}
	}
	t.Logf("%d writes acknowledged, %d of them lost, %d refused", len(w.keys), lost, w.failed.Load())
}
