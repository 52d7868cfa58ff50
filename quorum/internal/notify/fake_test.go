package notify

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/master"
)

// fakeMaster speaks as much of Redis as subscriptions need, over connections in memory.
type fakeMaster struct {
	mu       sync.Mutex
	changed  *sync.Cond
	conns    map[*fakeConn]bool
	hung     bool                 // it takes no command
	slow     bool                 // it takes no SUBSCRIBE, and no command after one
	down     error                // why it refuses connections
	barred   error                // why it may not serve
	answer   string               // to SCAN and commands for subscriptions, instead of what Redis says
	latency  func() time.Duration // of each command and each write; nil: none
	dials    int
	commands []string // for subscriptions that came
}

// fakeConn is the master's end of a connection. fakeMaster.mu guards its fields.
type fakeConn struct {
	net.Conn
	in       [][]string
	out      []byte
	channels map[string]bool
}

func newFakeMaster() *fakeMaster {
	m := &fakeMaster{conns: make(map[*fakeConn]bool)}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// set changes the master under its mutex.
func (m *fakeMaster) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	m.changed.Broadcast()
}

func (m *fakeMaster) master(i int) Endpoint {
	o := &master.Options{Addr: "memory", Dial: m.dial}
	return Endpoint{Name: fmt.Sprint("m", i), Options: o, MayServe: m.mayServe}
}

func (m *fakeMaster) mayServe() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.barred
}

func (m *fakeMaster) dial(context.Context, string, string) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dials++
	if m.down != nil {
		return nil, m.down
	}
	ours, theirs := net.Pipe()
	c := &fakeConn{Conn: theirs, channels: make(map[string]bool)}
	m.conns[c] = true
	go m.read(c)
	go m.serve(c)
	return ours, nil
}

// read takes commands, and notices when the other end has closed.
func (m *fakeMaster) read(c *fakeConn) {
	in := bufio.NewReader(c)
	for {
		args, err := readCommand(in)
		if err != nil {
			m.cut(c)
			return
		}
		m.set(func() { c.in = append(c.in, args) })
	}
}

func (m *fakeMaster) takesLocked(c *fakeConn) bool {
	return len(c.in) > 0 && !m.hung && (!m.slow || c.in[0][0] != "subscribe")
}

func (m *fakeMaster) handleLocked(c *fakeConn, args []string) {
	say := func(form string, args ...any) { c.out = fmt.Appendf(c.out, form, args...) }
	name := strings.ToUpper(args[0])
	ours := strings.HasSuffix(name, "SUBSCRIBE")
	if ours {
		m.commands = append(m.commands, strings.Join(args, " "))
	}
	switch {
	case m.answer != "" && (ours || name == "SCAN"):
		say("%s", m.answer)
	case ours:
		for _, channel := range args[1:] {
			if delete(c.channels, channel); name == "SUBSCRIBE" {
				c.channels[channel] = true
			}
			say("*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:%d\r\n", len(name), strings.ToLower(name), len(channel), channel,
				len(c.channels))
		}
	case name == "PING" && len(c.channels) > 0:
		say("*2\r\n$4\r\npong\r\n$0\r\n\r\n")
	case name == "PING":
		say("+PONG\r\n")
	default:
		say("-ERR unknown command\r\n")
	}
}

// serve handles commands and writes replies and messages.
func (m *fakeMaster) serve(c *fakeConn) {
	for {
		m.mu.Lock()
		for m.conns[c] && len(c.out) == 0 && !m.takesLocked(c) {
			m.changed.Wait()
		}
		if m.takesLocked(c) {
			m.handleLocked(c, c.in[0])
			c.in = c.in[1:]
		}
		b, alive, latency := c.out, m.conns[c], m.latency
		c.out = nil
		m.mu.Unlock()
		if latency != nil {
			time.Sleep(latency())
		}
		if _, err := c.Write(b); err != nil || !alive {
			return
		}
	}
}

// cut ends a connection; nil: all of them.
func (m *fakeMaster) cut(c *fakeConn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for each := range m.conns {
		if c == nil || each == c {
			_ = each.Close()
			delete(m.conns, each)
		}
	}
	m.changed.Broadcast()
}

// publish sends a message to the subscribers of channel.
func (m *fakeMaster) publish(channel, id string) {
	m.set(func() {
		for c := range m.conns {
			if c.channels[channel] {
				c.out = fmt.Appendf(c.out, "*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(channel), channel, len(id), id)
			}
		}
	})
}

// subscribed lists the channels with a subscriber.
func (m *fakeMaster) subscribed() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]bool)
	for c := range m.conns {
		maps.Copy(all, c.channels)
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), " ")
}

// count returns how many connections there have been, and how many there are.
func (m *fakeMaster) count() (dials, conns int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dials, len(m.conns)
}

// said lists the commands that came since the last call.
func (m *fakeMaster) said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := strings.Join(m.commands, ", ")
	m.commands = nil
	return all
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	args := make([]string, n)
	for i := range args {
		var size int
		if size, err = number(); err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err = io.ReadFull(in, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, err
}

// heard collects the calls of a watcher.
type heard struct {
	mu  sync.Mutex
	ids []string
}

func (h *heard) add(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, id)
}

// take returns the releases heard since its last call, "-" for "".
func (h *heard) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, id := range h.ids {
		if id == "" {
			id = "-"
		}
		all = append(all, id)
	}
	h.ids = nil
	return strings.Join(all, " ")
}

var errDown = errors.New("refused the connection")

var nopLog = zap.NewNop()

const testTimeout = 50 * time.Millisecond

// inBubble runs f with subscriptions at n masters.
func inBubble(t *testing.T, n int, f func(t *testing.T, s *Subscriptions, masters []*fakeMaster)) {
	t.Helper()
	inBubbleFirst(t, "", n, f)
}

// inBubbleFirst is inBubble, with a channel to which connections subscribe first.
func inBubbleFirst(t *testing.T, first string, n int, f func(t *testing.T, s *Subscriptions, masters []*fakeMaster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var masters []*fakeMaster
		o := Options{First: first, Timeout: testTimeout, Log: nopLog,
			Jitter: func(d time.Duration) time.Duration { return d }}
		for i := range n {
			masters = append(masters, newFakeMaster())
			o.Masters = append(o.Masters, masters[i].master(i))
		}
		s := New(o)
		defer func() {
			s.Close()
			wait(time.Second)
			for i, m := range masters {
				if _, conns := m.count(); conns != 0 {
					t.Errorf("master %d: %d connections after Close", i, conns)
				}
			}
		}()
		f(t, s, masters)
	})
}

// wait lets time pass until only ticks happen.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }
