package adopt

import (
	"io"
	"net"
	"sync"
	"testing"

	"lockproxy/integration/lab"
)

// adopted is a deployment with two proxies that have a lock listener.
type adopted struct {
	*lab.Lab
	near, far string // the addresses of the lock listeners
}

// startAdopted starts a deployment. It returns once both proxies can lock.
func startAdopted(t *testing.T, config lab.Config) *adopted {
	t.Helper()
	config.Proxies = -1
	config.Flags = append([]string{"--adopt-keys", patterns}, config.Flags...)
	d := &adopted{Lab: lab.Start(t, config), near: lab.FreeAddr(t), far: lab.FreeAddr(t)}
	for _, addr := range []string{d.near, d.far} {
		d.StartProxy(t, "--adopt-listen", addr)
	}
	for _, p := range d.Proxies {
		p.WaitVoting(t)
	}
	return d
}

// switchboard is an address that leads to another, like a load balancer or a name.
type switchboard struct {
	addr     string
	listener net.Listener

	mu     sync.Mutex
	target string
	conns  []net.Conn
	ended  sync.WaitGroup
}

func startSwitch(target string) (*switchboard, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &switchboard{addr: listener.Addr().String(), listener: listener, target: target}
	s.ended.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.carry(c)
		}
	})
	return s, nil
}

// carry connects c to the present target.
func (s *switchboard) carry(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, err := net.Dial("tcp", s.target)
	if err != nil {
		c.Close()
		return
	}
	s.conns = append(s.conns, c, to)
	for _, pair := range [][2]net.Conn{{c, to}, {to, c}} {
		s.ended.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			pair[0].Close()
		})
	}
}

// turn closes all connections. New ones lead to another target.
func (s *switchboard) turn(target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target = target
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

func (s *switchboard) close() {
	s.listener.Close()
	s.turn("")
	s.ended.Wait()
}
