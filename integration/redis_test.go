package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// redisServer is a redis-server process of its own, without persistence.
type redisServer struct {
	*process
	addr string // host:port; stays the same over a restart
	args []string
	path string
}

// startRedis starts a redis-server on a free port and waits until it answers. More arguments go to its command line.
func startRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	path := tool(t, "redis-server")
	for range 20 { // another process may take the port between our look and the server's start
		s := &redisServer{addr: freeAddr(t), args: args, path: path}
		if s.start(t) {
			return s
		}
	}
	t.Fatal("no port found for redis-server")
	return nil
}

// startMasters starts n servers side by side.
func startMasters(t testing.TB, n int, args ...string) []*redisServer {
	t.Helper()
	tool(t, "redis-server") // skips here, since the goroutines below must not
	servers := make([]*redisServer, n)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() { servers[i] = startRedis(t, args...) })
	}
	wg.Wait()
	for _, s := range servers {
		if s == nil {
			t.FailNow()
		}
	}
	return servers
}

// restart starts a killed server again at its old address, empty.
func (s *redisServer) restart(t testing.TB) {
	t.Helper()
	s.kill()
	waitFor(t, "redis at its old address", patience, func() bool { return s.start(t) })
}

// start runs the process and reports whether it came up; false means that its port was taken.
func (s *redisServer) start(t testing.TB) bool {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "redis-")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(s.addr)
	args := append([]string{"--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "no",
		"--enable-debug-command", "local"}, s.args...)
	s.process = launch(t, "redis "+s.addr, s.path, args...)
	up := func() bool {
		reply, err := s.ask("PING")
		return err == nil && (reply == "+PONG\r\n" || strings.HasPrefix(reply, "-NOAUTH"))
	}
	return poll(patience, func() bool { return !s.running() || up() }) && s.running()
}

// do sends one command on a connection of its own, past the proxy, and returns the raw reply.
func (s *redisServer) do(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := s.ask(args...)
	if err != nil {
		t.Fatalf("%s at %s: %v", args[0], s.addr, err)
	}
	return reply
}

func (s *redisServer) ask(args ...string) (string, error) {
	c, err := connect(s.addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.timeout = time.Second * slack
	return c.do(args...)
}

// info returns one field of INFO, or "".
func (s *redisServer) info(t testing.TB, section, field string) string {
	t.Helper()
	for line := range strings.Lines(s.do(t, "INFO", section)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}

func addrs(servers []*redisServer) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.addr)
	}
	return list
}

// freeAddr finds a loopback port below those that the system gives to outgoing connections: one of these could
// otherwise sit on the port of a killed server, or even connect to itself there.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 11000+rand.IntN(21000))
		if _, taken := handedOut.LoadOrStore(addr, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// handedOut holds the addresses that freeAddr returned, so that parallel tests never share one.
var handedOut sync.Map
