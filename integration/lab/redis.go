package lab

import (
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"lockproxy/integration/redistest"
)

// Redis is a redis-server process, without persistence unless its arguments configure it. It
// restarts at the same address; see restart.go.
type Redis struct {
	*Process
	Addr  string // host:port; stays the same over a restart
	Clock *Clock // its own clock, or nil
	Node  *Node  // its namespace, or nil
	args  []string
	path  string
	dir   string // its working directory
}

// StartRedis starts a redis-server on a free port and waits until it answers. More arguments go to
// its command line.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	return startRedis(t, place{}, args)
}

// StartServer is StartRedis for another program that takes the same arguments, such as
// valkey-server, by its path.
func StartServer(t testing.TB, path string, args ...string) *Redis {
	t.Helper()
	return startRedis(t, place{path: path}, args)
}

// FreeAddr returns a free loopback address that no other test gets.
func FreeAddr(t testing.TB) string {
	t.Helper()
	return redistest.FreeAddr(t)
}

// place configures the surroundings of a server.
type place struct {
	clock *Clock
	node  *Node
	path  string // of the program; "" for redis-server
}

func startRedis(t testing.TB, at place, args []string) *Redis {
	t.Helper()
	path := at.path
	if path == "" {
		path = redistest.Program(t)
	}
	for range 20 { // another process may take the port before the server starts
		s := &Redis{Addr: at.node.freeAddr(t), Clock: at.clock, Node: at.node, args: args, path: path, dir: redisDir(t)}
		if s.start(t) {
			return s
		}
	}
	t.Fatal("start redis-server: got no free port in 20 tries")
	return nil
}

// StartMasters starts n servers at the same time.
func StartMasters(t testing.TB, n int, args ...string) []*Redis {
	t.Helper()
	redistest.Program(t) // it may skip the test, which other goroutines must not
	return startMasters(t, make([]place, n), args)
}

// startMasters starts a server at each place.
func startMasters(t testing.TB, places []place, args []string) []*Redis {
	t.Helper()
	servers := make([]*Redis, len(places))
	var wg sync.WaitGroup
	for i, at := range places {
		wg.Go(func() { servers[i] = startRedis(t, at, args) })
	}
	wg.Wait()
	for _, s := range servers {
		if s == nil {
			t.FailNow()
		}
	}
	return servers
}

// redisDir makes a new working directory for a server.
func redisDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "redis-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// start starts the process and reports whether it answers; false means that its port was taken.
func (s *Redis) start(t testing.TB) bool {
	t.Helper()
	s.launch(t)
	return s.up()
}

// up waits until the process answers, or has ended.
func (s *Redis) up() bool {
	answers := func() bool {
		reply, err := s.Ask("PING")
		return err == nil && (reply == "+PONG\r\n" || strings.HasPrefix(reply, "-NOAUTH"))
	}
	return Poll(Patience, func() bool { return !s.Running() || answers() }) && s.Running()
}

// launch starts the process.
func (s *Redis) launch(t testing.TB) {
	t.Helper()
	host, port, _ := net.SplitHostPort(s.Addr)
	// With a clock of its own, the allocator's background thread would wait for times that have
	// passed, and compute all the time.
	// --hz 1: by default an idle server wakes ten times a second, and a test run has dozens of them.
	args := append([]string{"--bind", host, "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--enable-debug-command", "yes", "--jemalloc-bg-thread", "no", "--hz", "1"}, s.args...)
	if s.Node != nil {
		args = append(args, "--protected-mode", "no") // no client of a node is local
	}
	line := s.Node.command(s.path, args)
	s.Process = launch(t, "redis "+s.Addr, s.Clock.env(), line[0], line[1:]...)
}

// Do sends one command on a connection of its own, not through a proxy, and returns the raw reply.
func (s *Redis) Do(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := s.Ask(args...)
	if err != nil {
		t.Fatalf("%s at %s: %v", args[0], s.Addr, err)
	}
	return reply
}

// Must is Do for a command that answers OK.
func (s *Redis) Must(t testing.TB, args ...string) {
	t.Helper()
	if reply := s.Do(t, args...); !strings.HasPrefix(reply, "+OK") {
		t.Fatalf("%q at %s: got %q, want +OK", args, s.Addr, reply)
	}
}

// Ask is Do for any goroutine. It returns an error if the server does not answer within Patience.
func (s *Redis) Ask(args ...string) (string, error) {
	c, err := Connect(s.Addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.Timeout = Patience
	return c.Ask(args...)
}

// Info returns one field of INFO, or "".
func (s *Redis) Info(t testing.TB, section, field string) string {
	t.Helper()
	for line := range strings.Lines(s.Do(t, "INFO", section)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}

// RunID returns the id of the server's present run.
func (s *Redis) RunID(t testing.TB) string {
	t.Helper()
	return s.Info(t, "server", "run_id")
}

// Addrs lists the servers' addresses.
func Addrs(servers []*Redis) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.Addr)
	}
	return list
}
