package clients

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/lab"
)

// quietLogger drops the line that go-redis' cluster client logs for each command that COMMAND
// does not list.
type quietLogger struct{}

func (quietLogger) Printf(_ context.Context, format string, v ...any) {
	if !strings.HasPrefix(format, "info for cmd=") {
		log.Printf("redis: "+format, v...)
	}
}

func init() { redis.SetLogger(quietLogger{}) }

// redisCluster is a Redis Cluster of three nodes, each with a proxy that the node announces
// instead of itself, and three masters for the locks.
type redisCluster struct {
	nodes   []*lab.Redis
	proxies []*lab.Proxy
	masters []*lab.Redis
}

// startRedisCluster starts the servers, and has redis-cli create the cluster through the proxies.
func startRedisCluster(t *testing.T) *redisCluster {
	t.Helper()
	c := &redisCluster{masters: lab.StartMasters(t, 3)}
	create := []string{"create"}
	for range 3 {
		create = append(create, c.startNode(t))
	}
	if out := c.cli(t, create...); !strings.Contains(out, "All 16384 slots covered") {
		t.Fatalf("redis-cli --cluster create: got %s, want all slots covered", out)
	}
	c.waitNodes(t, 0, 1, 2)
	return c
}

// startNode starts one more node, which belongs to no cluster yet, and its proxy. It returns the
// proxy's address, which the node announces.
func (c *redisCluster) startNode(t *testing.T) (announced string) {
	t.Helper()
	announced = lab.FreeAddr(t)
	host, port, _ := net.SplitHostPort(announced)
	_, bus, _ := net.SplitHostPort(lab.FreeAddr(t))
	node := lab.StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "5000",
		"--cluster-announce-ip", host, "--cluster-announce-port", port, "--cluster-announce-bus-port", bus)
	proxy := lab.StartProxy(t, "--listen", announced, "--upstream", node.Addr, "--masters",
		strings.Join(lab.Addrs(c.masters), ","))
	proxy.WaitVoting(t)
	c.nodes, c.proxies = append(c.nodes, node), append(c.proxies, proxy)
	return announced
}

// cli runs redis-cli --cluster and returns its output.
func (c *redisCluster) cli(t *testing.T, args ...string) string {
	t.Helper()
	line := append([]string{"--cluster"}, args...)
	out, err := exec.Command(lab.Tool(t, "redis-cli"), append(line, "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli --cluster %s: %v\n%s", args[0], err, out)
	}
	return string(out)
}

// waitNodes waits until these nodes are connected with each other and with no others, and agree
// about who has which slots.
func (c *redisCluster) waitNodes(t *testing.T, nodes ...int) {
	t.Helper()
	lab.WaitFor(t, "the nodes to agree", 3*lab.Patience, func() bool {
		all := map[string]bool{}
		for _, i := range nodes {
			view := c.nodes[i].Do(t, "CLUSTER", "NODES")
			if strings.Count(view, " connected") != len(nodes) || !strings.Contains(c.nodes[i].Do(t, "CLUSTER", "INFO"),
				"cluster_state:ok") {
				return false
			}
			all[ownersIn(view)] = true
		}
		return len(all) == 1
	})
}

// ownersIn returns the masters and their slots in a reply to CLUSTER NODES.
//
//	< <id> <address>@<bus port> myself,master - 0 0 1 connected 0-5460
func ownersIn(view string) string {
	var owners []string
	for line := range strings.Lines(view) {
		if words := strings.Fields(line); len(words) > 8 {
			owners = append(owners, words[0]+" "+strings.Join(words[8:], " "))
		}
	}
	slices.Sort(owners)
	return strings.Join(owners, "\n")
}

// granted returns the number of locks that each proxy has granted so far.
func (c *redisCluster) granted(t *testing.T) (list []int) {
	t.Helper()
	for _, p := range c.proxies {
		host := lab.Dial(t, p.Addr)
		list = append(list, host.Counter("granted"))
		host.Close()
	}
	return list
}

// sizes returns the number of keys on each node.
func (c *redisCluster) sizes(t *testing.T) (list []int) {
	t.Helper()
	for _, n := range c.nodes {
		list = append(list, lab.Number(t, lab.Scalar(n.Do(t, "DBSIZE"))))
	}
	return list
}

// The nodes' replies about the cluster pass unchanged, and direct clients to the proxies.
func TestClusterRepliesNameOnlyProxies(t *testing.T) {
	t.Parallel()
	c := startRedisCluster(t)
	moved := 0
	for i, p := range c.proxies {
		host, direct := lab.Dial(t, p.Addr), lab.Dial(t, c.nodes[i].Addr)
		for _, command := range [][]string{{"CLUSTER", "SLOTS"}, {"CLUSTER", "SHARDS"}, {"CLUSTER", "MYID"}, {"ASKING"},
			{"READONLY"},
			{"GET", "a"}, {"GET", "b"}, {"GET", "c"}, {"MGET", "a", "b"}, {"CLUSTER", "KEYSLOT", "a"}} {
			got, want := host.Do(command...), direct.Do(command...)
			if got != want {
				t.Errorf("%q: got %q through the proxy, want %q as directly", command, got, want)
			}
			for j, other := range c.proxies {
				if strings.HasPrefix(got, "-MOVED ") && strings.HasSuffix(got, " "+other.Addr+"\r\n") && i != j {
					moved++
				}
			}
		}
		for _, n := range c.nodes {
			if slots := host.Do("CLUSTER", "SLOTS"); strings.Contains(slots, ":"+portOf(n.Addr)+"\r\n") {
				t.Errorf("CLUSTER SLOTS: got %q, want only proxies", slots)
			}
		}
		token := host.Lock("any", "30s") // any node may have the slot
		lab.Dial(t, c.proxies[(i+1)%3].Addr).Unlock("any", token)
	}
	if moved < 4 {
		t.Errorf("got %d replies MOVED, want 2 for each of the keys a, b and c", moved)
	}
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// go-redis' cluster client, given one proxy, finds the others and works through them.
func TestClusterClientOfGoRedisWorks(t *testing.T) {
	t.Parallel()
	c := startRedisCluster(t)
	ctx := t.Context()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.proxies[0].Addr}})
	defer rdb.Close()
	for i := range 100 {
		key := fmt.Sprintf("key-%d", i)
		token, err := rdb.Do(ctx, "LOCK", key, "30s").Text()
		if err != nil || lab.TokenOf(lab.Bulk(token)) == "" {
			t.Fatalf("LOCK %s: got %q, %v", key, token, err)
		}
		if err := rdb.Set(ctx, key, token, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if again, err := rdb.Do(ctx, "LOCK", key, "30s").Text(); !errors.Is(err, redis.Nil) {
			t.Fatalf("LOCK of a held key, perhaps through another proxy: got %q, %v", again, err)
		}
		if got, err := rdb.Get(ctx, key).Result(); got != token {
			t.Fatalf("GET %s: got %q, %v", key, got, err)
		}
		if n, err := rdb.Do(ctx, "UNLOCK", key, token).Int(); n != 1 || err != nil {
			t.Fatalf("UNLOCK %s: got %d, %v", key, n, err)
		}
	}
	replies, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // over all nodes
		for i := range 30 {
			p.Get(ctx, fmt.Sprintf("key-%d", i))
			p.Do(ctx, "LOCK", fmt.Sprintf("piped-%d", i), "30s")
		}
		return nil
	})
	if err != nil {
		t.Errorf("a pipeline over the cluster: %v", err)
	}
	for i := range 30 {
		token, _ := replies[2*i+1].(*redis.Cmd).Text()
		if n, err := rdb.Do(ctx, "UNLOCK", fmt.Sprintf("piped-%d", i), token).Int(); n != 1 {
			t.Errorf("UNLOCK of a pipelined LOCK: got %d, %v", n, err)
		}
	}
	t.Logf("locks granted by each proxy: %v, keys on each node: %v", c.granted(t), c.sizes(t))
	c.wantSpread(t, 100)
}

// ioredis' cluster client works through the proxies, too.
func TestClusterClientOfIoredisWorks(t *testing.T) {
	t.Parallel()
	program := node(t)
	c := startRedisCluster(t)
	host, port, _ := net.SplitHostPort(c.proxies[0].Addr)
	runProgram(t, program, "node/cluster.js", host, port)
	t.Logf("locks granted by each proxy: %v, keys on each node: %v", c.granted(t), c.sizes(t))
	c.wantSpread(t, 100)
}

// wantSpread fails unless there are n keys, some on each node, and every proxy has granted locks.
func (c *redisCluster) wantSpread(t *testing.T, n int) {
	t.Helper()
	sum := 0
	for i, size := range c.sizes(t) {
		sum += size
		if granted := c.granted(t)[i]; size == 0 || granted < 2 { // WaitVoting took one of them
			t.Errorf("node %d: got %d keys and %d locks, want some keys and at least 2 locks", i, size, granted)
		}
	}
	if sum != n {
		t.Errorf("got %d keys, want %d", sum, n)
	}
	lab.WantNoStray(t, c.masters, c.proxies...)
}

// A cluster node cannot be a master, because it would answer MOVED for most lock keys.
func TestClusterNodeCannotBeMaster(t *testing.T) {
	t.Parallel()
	node := lab.StartRedis(t, "--cluster-enabled", "yes")
	proxy := lab.StartProxy(t, "--upstream", node.Addr, "--masters", node.Addr)
	host := lab.Dial(t, proxy.Addr)
	lab.WaitFor(t, "reason", lab.Patience, func() bool {
		reply := host.Do("LOCK", "job", "30s")
		if !strings.HasPrefix(reply, "-NOQUORUM ") {
			t.Fatalf("LOCK with a cluster node as master: got %q", reply)
		}
		return strings.Contains(reply, "runs in cluster mode")
	})
}
