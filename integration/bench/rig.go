package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// rig starts servers on loopback ports of their own and ends them all at its close.
type rig struct {
	options
	ctx   context.Context
	dir   string // of all files; goes with the rig
	procs []*process
	wg    sync.WaitGroup // one a process

	files      int    // how many a process may have open
	loadBefore string // the machine's load at the start
}

func newRig(ctx context.Context, o options, files int) (*rig, error) {
	dir, err := os.MkdirTemp("", "lockproxy-bench-")
	if err != nil {
		return nil, err
	}
	return &rig{options: o, ctx: ctx, dir: dir, files: files, loadBefore: loadAverage()}, nil
}

func (r *rig) close() {
	for _, p := range r.procs {
		p.stop()
	}
	r.wg.Wait()
	os.RemoveAll(r.dir)
}

// endFrom ends the servers started since there were n of them.
func (r *rig) endFrom(n int) {
	for _, p := range r.procs[n:] {
		p.stop()
	}
	r.procs = r.procs[:n]
}

// freeAddr returns an address with a free port.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// server is one that clients talk to.
type server struct {
	*process
	addr string
}

// patience is how long a server may take to come up, or to answer.
const patience = 10 * time.Second

// up starts a server that listens on a free port, and waits until it answers PING. line makes its
// command line.
func (r *rig) up(name string, line func(addr string) ([]string, error)) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	args, err := line(addr)
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, err
	}
	p, err := r.launch(name, path, args[1:]...)
	if err != nil {
		return nil, err
	}
	err = r.poll(func() error {
		select {
		case <-p.done:
			return errEnded
		default:
			return expect(addr, "+PONG\r\n", "PING")
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w\n%s", name, err, p.words())
	}
	return &server{p, addr}, nil
}

var errEnded = errors.New("it has ended")

// poll asks until there is no error, for as long as patience lasts.
func (r *rig) poll(ask func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := ask()
		if err == nil || errors.Is(err, errEnded) || time.Now().After(deadline) {
			return err
		}
		if err := r.wait(20 * time.Millisecond); err != nil {
			return err
		}
	}
}

// wait lets time pass, unless the run ends before.
func (r *rig) wait(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// redis starts a redis-server without persistence. It accepts only 127.0.0.1 as its own machine
// unless protected mode is off.
func (r *rig) redis(name string) (*server, error) {
	return r.up(name, func(addr string) ([]string, error) {
		host, port, _ := net.SplitHostPort(addr)
		return []string{"redis-server", "--bind", host, "--port", port, "--dir", r.dir, "--save", "", "--appendonly", "no",
			"--protected-mode", "no",
			"--maxclients", fmt.Sprint(r.files - 100), "--tcp-backlog", "511"}, nil
	})
}

// mostClients is how many clients a proxy may have that needs a file for each side, and some for
// itself.
func (r *rig) mostClients() int { return (r.files - 60) / 2 }

// haproxy starts HAProxy in TCP mode before a server, with the two threads that the goals name.
func (r *rig) haproxy(upstream string) (*server, error) {
	return r.up("haproxy", func(addr string) ([]string, error) {
		path, err := r.file("haproxy.cfg", fmt.Sprintf(haproxyConfig, r.mostClients(), addr, upstream))
		return []string{"haproxy", "-db", "-f", path}, err
	})
}

const haproxyConfig = `global
  nbthread 2
  maxconn %d
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen redis
  bind %s
  server redis %s
`

// twemproxy starts nutcracker before a server.
func (r *rig) twemproxy(upstream string) (*server, error) {
	stats, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(stats)
	return r.up("twemproxy", func(addr string) ([]string, error) {
		path, err := r.file("nutcracker.yml", fmt.Sprintf(twemproxyConfig, addr, upstream))
		return []string{"nutcracker", "-c", path, "-a", "127.0.0.1", "-s", port}, err
	})
}

const twemproxyConfig = `redis:
  listen: %s
  redis: true
  hash: fnv1a_64
  distribution: modula
  auto_eject_hosts: false
  preconnect: true
  timeout: 60000
  servers:
   - %s:1
`

// proxy starts a lockproxy with its defaults and what flags say.
func (r *rig) proxy(name, binary string, flags ...string) (*server, error) {
	return r.proxyBy(name, []string{binary}, flags...)
}

// proxyBy is proxy with a command that may begin with another program.
func (r *rig) proxyBy(name string, command []string, flags ...string) (*server, error) {
	return r.up(name, func(addr string) ([]string, error) {
		return slices.Concat(command, []string{"--listen", addr}, flags), nil
	})
}

// file writes a configuration file and returns its path.
func (r *rig) file(name, text string) (string, error) {
	path := filepath.Join(r.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// note prints progress for the person at the terminal.
func (r *rig) note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+strings.TrimSuffix(format, "\n")+"\n",
		append([]any{time.Now().Format("15:04:05")}, args...)...)
}
