package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Net is a network of its own. Its namespaces reach each other through a hub, which forwards their
// packets and can lose them. Unlike with a relay, the systems on both sides do not notice the
// loss, like those on a broken network: they see no end of a connection, and send lost bytes again
// when the network heals. The tests' own connections begin at the hub, and no fault disturbs them.
// The network ends with its processes and leaves the machine's own network alone.
type Net struct {
	hub *Process

	mu    sync.Mutex
	rules map[path]int
}

// Node is a namespace with one address, for a server or a proxy.
type Node struct {
	IP     string
	holder *Process // keeps the namespace
}

// path leads from one node to another; its rule is how many of a hundred packets get lost.
type path struct{ from, to *Node }

// hubs maps addresses of nodes to their nets, for Connect; nodes counts them, so that all nets
// differ in their addresses.
var (
	hubs  sync.Map
	nodes atomic.Int32
)

// errNotRoot: only root may make namespaces.
var errNotRoot = errors.New("network namespaces need root")

// NetMissing returns the reason why NewNet cannot work here, or nil.
var NetMissing = sync.OnceValue(func() error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	for _, name := range []string{"ip", "nft", "nsenter", "sleep"} {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}
	return tryNamespace()
})

// NewNet makes a network without nodes. If the system does not let it, the test is skipped, or
// fails if CI is set and the user is root.
func NewNet(t testing.TB) *Net {
	t.Helper()
	if err := NetMissing(); errors.Is(err, errNotRoot) {
		t.Skip(err)
	} else if err != nil {
		missing(t, err)
	}
	n := &Net{hub: holdNamespace(t, "hub"), rules: map[path]int{}}
	run(t, n.hub, "", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward && ip link set lo up")
	return n
}

// Node adds a namespace.
func (n *Net) Node(t testing.TB) *Node {
	t.Helper()
	i := nodes.Add(1)
	subnet := fmt.Sprintf("10.77.%d.", i)
	node, gate := &Node{IP: subnet + "2", holder: holdNamespace(t, fmt.Sprint("node ", i))}, subnet+"1"
	hubs.Store(node.IP, n)
	pid := strconv.Itoa(node.holder.Cmd.Process.Pid)
	run(t, n.hub, strings.Join([]string{
		fmt.Sprintf("link add v%d type veth peer name eth0 netns %s", i, pid),
		fmt.Sprintf("addr add %s/30 dev v%d", gate, i),
		fmt.Sprintf("link set v%d up", i),
	}, "\n"), "ip", "-batch", "-")
	run(t, node.holder, strings.Join([]string{
		"link set lo up",
		fmt.Sprintf("addr add %s/30 dev eth0", node.IP),
		"link set eth0 up",
		"route add default via " + gate,
	}, "\n"), "ip", "-batch", "-")
	return node
}

// Drop loses so many of a hundred packets from one node to another; 0 heals that direction, 100
// cuts it. The other direction does not change.
func (n *Net) Drop(t testing.TB, from, to *Node, percent int) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules[path{from, to}] = percent
	n.applyLocked(t)
}

// Cut loses all packets between two nodes.
func (n *Net) Cut(t testing.TB, a, b *Node) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules[path{a, b}], n.rules[path{b, a}] = 100, 100
	n.applyLocked(t)
}

// Heal ends all losses.
func (n *Net) Heal(t testing.TB) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.rules)
	n.applyLocked(t)
}

// applyLocked replaces all rules. nft needs each on a line of its own.
func (n *Net) applyLocked(t testing.TB) {
	t.Helper()
	text := strings.Builder{}
	text.WriteString("flush ruleset\ntable ip lab {\nchain forward {\n")
	text.WriteString("type filter hook forward priority 0; policy accept;\n")
	for p, percent := range n.rules {
		if percent == 0 {
			continue
		}
		some := ""
		if percent < 100 {
			some = fmt.Sprintf("numgen random mod 100 < %d ", percent)
		}
		fmt.Fprintf(&text, "ip saddr %s ip daddr %s %sdrop\n", p.from.IP, p.to.IP, some)
	}
	text.WriteString("}\n}\n")
	run(t, n.hub, text.String(), "nft", "-f", "-")
}

// run executes a program in the namespace that a process holds.
func run(t testing.TB, holder *Process, input, name string, args ...string) {
	t.Helper()
	full := inNamespace(holder, name, args)
	cmd := exec.Command(full[0], full[1:]...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s in %s: %v\n%s%s", name, holder.name, err, input, out)
	}
}

// command returns the command line that runs a program in the node, or outside if n is nil. The
// program replaces nsenter in its process, so it has the process id of the command.
func (n *Node) command(name string, args []string) []string {
	if n == nil {
		return append([]string{name}, args...)
	}
	return inNamespace(n.holder, name, args)
}

// freeAddr returns a free address in the node, or on loopback if n is nil.
func (n *Node) freeAddr(t testing.TB) string {
	t.Helper()
	if n == nil {
		return FreeAddr(t)
	}
	_, port, _ := net.SplitHostPort(FreeAddr(t))
	return net.JoinHostPort(n.IP, port)
}

func inNamespace(holder *Process, name string, args []string) []string {
	return append([]string{"nsenter", "-t", strconv.Itoa(holder.Cmd.Process.Pid), "-n", name}, args...)
}

// dialer returns the function that opens connections to addr, from the hub if addr is in a Net.
func dialer(addr string) func(network, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	if n, ok := hubs.Load(host); ok {
		return n.(*Net).dial
	}
	return (&net.Dialer{Timeout: Patience}).Dial
}

// StartRedisAt is StartRedis in a node.
func StartRedisAt(t testing.TB, node *Node, args ...string) *Redis {
	t.Helper()
	return startRedis(t, place{node: node}, args)
}

// LaunchAt starts a program in a node.
func LaunchAt(t testing.TB, node *Node, name string, args ...string) *Process {
	t.Helper()
	line := node.command(Tool(t, name), args)
	return Launch(t, name, line[0], line[1:]...)
}
