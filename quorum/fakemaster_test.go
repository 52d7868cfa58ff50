package quorum

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fakeMaster is a Redis master as far as a lane can tell, over in-memory connections and with its own Go version of the
// scripts. Each connection is served in order; between connections there is no order, as in Redis.
type fakeMaster struct {
	mu       sync.Mutex
	runID    string
	role     string // "master"
	mode     string // "standalone"
	password string
	down     bool // refuses connections
	store    map[string]fakeValue
	counters map[string]uint64
	state    map[string]string // the fields beside the counters: record, settings, born, durable
	facts    map[string]string // what INFO says beside the run_id, the mode and the role
	config   map[string]string // what CONFIG GET *append* says
	ahead    time.Duration     // of the master's clock: ends of keys are by that clock
	scripts  map[string]opKind
	nextID   int64
	conns    map[int64]*fakeConn
	gate     chan struct{} // closed while the master runs; open: it is paused
	log      []string      // commands carried out: "acquire key", "CLIENT KILL"

	clock func() time.Time // instead of the time and ahead; nil: these

	// hook, if set, is asked before a command is carried out, without mu: how long the master takes, and what it
	// answers instead of carrying it out ("" for the real thing). It may change under mu.
	hook func(cmd string) (delay time.Duration, instead string)
}

type fakeValue struct {
	secret string
	fence  uint64
	end    time.Time
	owner  string
}

type fakeConn struct {
	*memConn
	id     int64
	killed bool // guarded by the master's mu
	authed bool
	lag    time.Duration
	closed func() // called instead of closing memConn, with the master's mu held
}

func (c *fakeConn) Close() error {
	if c.closed != nil {
		c.closed()
		return nil
	}
	return c.memConn.Close()
}

func newFakeMaster(runID string) *fakeMaster {
	m := &fakeMaster{
		runID: runID, role: "master", mode: "standalone", store: map[string]fakeValue{}, counters: map[string]uint64{},
		state: map[string]string{}, config: map[string]string{"appendonly": "no", "appendfsync": "everysec", "no-appendfsync-on-rewrite": "no"},
		facts: map[string]string{"maxmemory": "0", "maxmemory_policy": "noeviction", "evicted_keys": "0", "aof_enabled": "0",
			"aof_rewrite_in_progress": "0", "aof_last_write_status": "ok", "connected_slaves": "0"},
		scripts: map[string]opKind{}, conns: map[int64]*fakeConn{}, gate: make(chan struct{}),
	}
	close(m.gate)
	return m
}

// dial is for MasterOptions.Dial.
func (m *fakeMaster) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return m.dialFar(ctx, 0)
}

// dialFar is dial for a client whose every command takes lag to get here.
func (m *fakeMaster) dialFar(_ context.Context, lag time.Duration) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	client, server := memPipe()
	m.nextID++
	c := &fakeConn{memConn: server, id: m.nextID, authed: m.password == "", lag: lag}
	m.conns[c.id] = c
	go m.serve(c)
	return client, nil
}

func (m *fakeMaster) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// pause stops the master as SIGSTOP does: connections are still accepted, nothing is carried out.
func (m *fakeMaster) pause() { m.set(func() { m.gate = make(chan struct{}) }) }
func (m *fakeMaster) resume() {
	m.set(func() {
		select {
		case <-m.gate:
		default:
			close(m.gate)
		}
	})
}

// stop kills the process: connections break. With a new run_id and no data it comes back by start.
func (m *fakeMaster) stop() {
	m.mu.Lock()
	m.down = true
	all := m.conns
	m.conns = map[int64]*fakeConn{}
	for _, c := range all {
		c.killed = true
	}
	m.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

func (m *fakeMaster) start() { m.set(func() { m.down = false }) }

// restart is stop and start as another process, with what it had on disk: nothing, unless keep says everything.
func (m *fakeMaster) restart(runID string, keep bool) {
	m.stop()
	m.set(func() {
		m.runID = runID
		clear(m.scripts)
		if !keep {
			m.flushLocked()
		}
	})
	m.start()
}

// flushAll empties the master.
func (m *fakeMaster) flushAll() { m.set(m.flushLocked) }

func (m *fakeMaster) flushLocked() {
	clear(m.store)
	clear(m.counters)
	clear(m.state)
}

// now is the time by the master's clock.
func (m *fakeMaster) now() time.Time {
	if m.clock != nil {
		return m.clock()
	}
	return time.Now().Add(m.ahead)
}

// cut breaks the connections; what has been written is still carried out if the gate lets it, as after a network
// fault that heals.
func (m *fakeMaster) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		c.out.shut() // the client reads EOF
	}
}

func (m *fakeMaster) flushScripts() { m.set(func() { clear(m.scripts) }) }

// holds is how many keys stand there, and whether the one named is held by secret.
func (m *fakeMaster) holds(key, secret string) (keys int, ours bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, v := range m.store {
		if m.now().Before(v.end) {
			keys++
			ours = ours || k == key && v.secret == secret
		}
	}
	return keys, ours
}

func (m *fakeMaster) ran(word string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, line := range m.log {
		if strings.HasPrefix(line, word) {
			n++
		}
	}
	return n
}

func (m *fakeMaster) serve(c *fakeConn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c.memConn)
	for {
		args, err := readFakeCommand(in)
		if err != nil {
			return
		}
		time.Sleep(c.lag)
		for wait := true; wait; {
			m.mu.Lock()
			gate := m.gate
			m.mu.Unlock()
			<-gate
			m.mu.Lock()
			wait = gate != m.gate
			m.mu.Unlock()
		}
		answer, ok := m.run(c, args)
		if !ok {
			return
		}
		if _, err := io.WriteString(c, answer); err != nil {
			continue // the client is gone, what it wrote is carried out all the same
		}
	}
}

func readFakeCommand(in *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number()
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

var fakeOps = [numScripts]string{"acquire", "raise", "release", "topup", "check", "extend", "info", "free", "look", "counters", "admit"}

func fakeSHA(body string) string {
	sum := sha1.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// run carries out one command; ok is false when the connection has been killed.
func (m *fakeMaster) run(c *fakeConn, args []string) (answer string, ok bool) {
	m.mu.Lock()
	name, op := m.nameLocked(args)
	hook := m.hook
	m.mu.Unlock()
	instead := ""
	if hook != nil {
		var delay time.Duration
		if delay, instead = hook(name); delay > 0 {
			time.Sleep(delay)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.killed {
		return "", false
	}
	if name == "AUTH" {
		c.authed = args[len(args)-1] == m.password
		if !c.authed {
			return "-WRONGPASS invalid username-password pair\r\n", true
		}
	}
	if !c.authed {
		return "-NOAUTH Authentication required.\r\n", true
	}
	if instead != "" {
		return instead, true
	}
	m.log = append(m.log, name)
	if op < numScripts {
		return m.scriptLocked(op, args), true
	}
	return m.plainLocked(c, name, args), true
}

// nameLocked is what the log calls a command: "acquire lock:job", "INFO server", "NOSCRIPT".
func (m *fakeMaster) nameLocked(args []string) (string, opKind) {
	op := opPing
	switch args[0] {
	case "EVAL":
		m.scripts[fakeSHA(args[1])] = m.opOf(args[1])
		op = m.opOf(args[1])
	case "EVALSHA":
		known, ok := m.scripts[args[1]]
		if !ok {
			return "NOSCRIPT", op
		}
		op = known
	case "CLIENT", "SCRIPT", "CONFIG":
		return args[0] + " " + args[1], op
	default:
		return args[0], op
	}
	return fakeOps[op] + " " + args[3], op
}

func (m *fakeMaster) opOf(body string) opKind {
	for op := range numScripts {
		if scripts[op].body == body {
			return op
		}
	}
	panic("unknown script")
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func (m *fakeMaster) plainLocked(c *fakeConn, name string, args []string) string {
	switch name {
	case "PING":
		return "+PONG\r\n"
	case "CLIENT ID":
		return fmt.Sprintf(":%d\r\n", c.id)
	case "CLIENT KILL":
		id, _ := strconv.ParseInt(args[3], 10, 64)
		old := m.conns[id]
		if old == nil {
			return ":0\r\n"
		}
		old.killed = true
		delete(m.conns, id)
		_ = old.Close()
		return ":1\r\n"
	case "INFO":
		var text strings.Builder
		text.WriteString("# Server\r\nredis_version:7.0.15\r\nredis_mode:" + m.mode + "\r\nrun_id:" + m.runID + "\r\nrole:" + m.role + "\r\n")
		for name, value := range m.facts {
			text.WriteString(name + ":" + value + "\r\n")
		}
		return bulk(text.String())
	case "CONFIG GET":
		var text strings.Builder
		text.WriteString(fmt.Sprintf("*%d\r\n", 2*len(m.config)))
		for name, value := range m.config {
			text.WriteString(bulk(name) + bulk(value))
		}
		return text.String()
	case "SCRIPT LOAD":
		m.scripts[fakeSHA(args[2])] = m.opOf(args[2])
		return bulk(fakeSHA(args[2]))
	case "NOSCRIPT":
		return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	}
	return "+OK\r\n"
}
