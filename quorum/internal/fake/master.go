// Package fake has in-memory masters for tests. A [Master] answers the commands that a lane sends.
// It runs the shipped scripts on a keyspace that has the commands they call. Everything runs in
// testing/synctest.
package fake

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Master is one server. It serves in-memory connections (Dial), or runs the commands that a
// simulated network brings (Connect, Run). A connection is served in order. There is no order
// between connections.
//
// A test changes fields under Set once connections exist.
type Master struct {
	mu sync.Mutex

	*Memory // of database 0
	DBs     map[int]*Memory

	RunID    string
	Password string
	Role     string            // "master"
	Mode     string            // "standalone"
	Facts    map[string]string // what INFO says beside run_id, mode and role
	Config   map[string]string // what CONFIG GET *append* says
	Ahead    time.Duration     // of the master's clock; ends of keys are by that clock
	Clock    func() time.Time  // instead of the time and Ahead; nil: these

	// Denied makes commands that write fail with this error, until the script that calls them has
	// written something. An OOM refuses only commands that take memory. Empty: all work.
	Denied string
	// Lacks lists the commands that the user may not run: "hset", "pubsub|numsub".
	Lacks map[string]bool
	// Hook is asked before a command runs, without the lock of the master. It returns how long the
	// master takes, and a reply instead of running the command, "" to run it.
	Hook func(c *Command) (delay time.Duration, instead string)
	// Fault is asked before every command that a script calls. It returns the error with which the
	// command fails, "" to run it. Called with the lock of the master held.
	Fault func(c Call) string
	// Forbids says which keys the ACL keeps from the user: a script that names one is refused.
	// nil: none. Called with the lock of the master held.
	Forbids func(key string) bool
	Quiet   bool // keep no log
	// Work counts the commands of all scripts so far.
	Work Work

	down      bool               // refuses connections
	scripts   map[string]*script // by digest
	nextID    int64
	conns     map[int64]*Conn
	gate      chan struct{} // closed while the master runs; open: it is paused
	log       []string      // commands and operations carried out: "acquire lock:job", "CLIENT KILL"
	published []string      // "channel message"
	subs      map[string]map[*Conn]bool
}

// Work counts the commands that scripts have called, and the members or fields that these have
// written or returned.
type Work struct{ Commands, Members int }

// Conn is the master's end of a connection.
type Conn struct {
	ID     int64
	Name   string // as CLIENT SETNAME said
	db     int
	killed bool
	authed bool
	lag    time.Duration
	out    net.Conn // nil on a simulated network
	close  func()   // called with the master's lock held
}

// New returns a master that is empty and runs.
func New(runID string) *Master {
	m := &Master{
		RunID: runID, Role: "master", Mode: "standalone",
		Config: map[string]string{"appendonly": "no", "appendfsync": "everysec", "no-appendfsync-on-rewrite": "no"},
		Facts: map[string]string{"redis_version": "7.0.15", "connected_slaves": "0", "maxmemory": "0",
			"maxmemory_policy": "noeviction", "evicted_keys": "0", "aof_enabled": "0",
			"aof_rewrite_in_progress": "0", "aof_last_write_status": "ok"},
		scripts: map[string]*script{}, conns: map[int64]*Conn{}, gate: make(chan struct{}),
		subs: map[string]map[*Conn]bool{},
	}
	m.Memory = newMemory(m.NowLocked)
	m.DBs = map[int]*Memory{0: m.Memory}
	close(m.gate)
	return m
}

// Set changes the master between two commands.
func (m *Master) Set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// Dial opens a connection. Its signature is that of Dial in a master's Options.
func (m *Master) Dial(ctx context.Context, _, _ string) (net.Conn, error) { return m.DialFar(ctx, 0) }

// DialFar is Dial for a client whose commands take lag to arrive.
func (m *Master) DialFar(_ context.Context, lag time.Duration) (net.Conn, error) {
	client, server := pipe()
	c := m.Connect(func() { _ = server.Close() })
	if c == nil {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	m.Set(func() { c.out, c.lag = server, lag })
	go m.serve(c)
	return client, nil
}

// Connect accepts a connection of a simulated network; nil while the master is down. The master
// calls closed, under its lock, when it closes the connection: it must not call back.
func (m *Master) Connect(closed func()) *Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil
	}
	m.nextID++
	c := &Conn{ID: m.nextID, authed: m.Password == "", close: closed}
	m.conns[c.ID] = c
	return c
}

// Disconnect ends a connection that the client has closed.
func (m *Master) Disconnect(c *Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked(c)
}

func (m *Master) forgetLocked(c *Conn) {
	c.killed = true
	delete(m.conns, c.ID)
	for _, conns := range m.subs {
		delete(conns, c)
	}
}

// Pause stops the master like SIGSTOP: it accepts connections but runs no command.
func (m *Master) Pause() { m.Set(func() { m.gate = make(chan struct{}) }) }

// Resume ends Pause.
func (m *Master) Resume() {
	m.Set(func() {
		select {
		case <-m.gate:
		default:
			close(m.gate)
		}
	})
}

// Stop kills the process: connections break. Start brings it back with the same run_id and data.
func (m *Master) Stop() {
	m.Set(func() {
		m.down = true
		for _, c := range m.conns {
			m.forgetLocked(c)
			c.close()
		}
	})
}

// Start ends Stop.
func (m *Master) Start() { m.Set(func() { m.down = false }) }

// Down reports whether the master is stopped.
func (m *Master) Down() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.down
}

// Restart is Stop and Start as another process, which keeps the data only if keep is set.
func (m *Master) Restart(runID string, keep bool) {
	m.Stop()
	m.Set(func() { m.RebornLocked(runID, keep) })
	m.Start()
}

// RebornLocked makes the master another process.
func (m *Master) RebornLocked(runID string, keep bool) {
	m.RunID = runID
	m.Facts["evicted_keys"] = "0"
	clear(m.scripts)
	if !keep {
		m.FlushLocked()
	}
}

// FlushAll empties every database.
func (m *Master) FlushAll() { m.Set(m.FlushLocked) }

// FlushLocked is FlushAll inside Set.
func (m *Master) FlushLocked() {
	for _, db := range m.DBs {
		clear(db.keys)
	}
}

// SaveLocked returns a snapshot of database 0.
func (m *Master) SaveLocked() *Memory { return m.Memory.Clone() }

// LoadLocked replaces the data of database 0 by a copy of a snapshot.
func (m *Master) LoadLocked(saved *Memory) { m.Memory.set(saved) }

// SwapLocked is SWAPDB.
func (m *Master) SwapLocked(a, b int) {
	m.DBs[a], m.DBs[b] = m.dbLocked(b), m.dbLocked(a)
	m.Memory = m.DBs[0]
}

func (m *Master) dbLocked(n int) *Memory {
	if m.DBs[n] == nil {
		m.DBs[n] = newMemory(m.NowLocked)
	}
	return m.DBs[n]
}

// EvictLocked evicts a key of database 0 and counts it.
func (m *Master) EvictLocked(key string) {
	m.begin()
	if m.get(key) != nil {
		m.Delete(key)
		n, _ := strconv.Atoi(m.Facts["evicted_keys"])
		m.Facts["evicted_keys"] = strconv.Itoa(n + 1)
	}
}

// ResetStatLocked is CONFIG RESETSTAT.
func (m *Master) ResetStatLocked() { m.Facts["evicted_keys"] = "0" }

// NowLocked is the time by the master's clock.
func (m *Master) NowLocked() time.Time {
	if m.Clock != nil {
		return m.Clock()
	}
	return time.Now().Add(m.Ahead)
}

// Cut breaks the connections for their clients, like a network fault that heals: the master still
// runs the commands that were written.
func (m *Master) Cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		if server, ok := c.out.(*memConn); ok {
			server.out.shut() // the client reads EOF
		}
	}
}

// FlushScripts is SCRIPT FLUSH.
func (m *Master) FlushScripts() { m.Set(func() { clear(m.scripts) }) }

// Holds counts the keys of database 0 without the state hash, and reports whether secret holds
// key.
func (m *Master) Holds(key, secret string) (keys int, ours bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.Lock(key)
	ours = slices.ContainsFunc(l.Holders, func(h Holder) bool { return h.Secret == secret })
	return len(m.Names()), ours || ok && l.Secret == secret
}

// Ran counts the commands and operations carried out whose name begins with word.
func (m *Master) Ran(word string) int {
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

// Published are the messages published so far, "channel message" each.
func (m *Master) Published() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.published...)
}
