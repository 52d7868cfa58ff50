// Package fake has in-memory masters for tests. A [Master] answers the commands that a lane sends.
// It runs the shipped scripts on a keyspace that has the commands they call. Everything runs in
// testing/synctest.
package fake

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Master is one server. It serves in-memory connections (Dial), or runs the commands that a
// simulated network brings (Connect, Run). A connection is served in order. There is no order
// between connections.
//
// A test changes fields under Set once connections exist. mu guards all parts.
type Master struct {
	mu sync.Mutex

	databases
	server
	faults
	journal
	Work Work // of all scripts so far

	scripts scriptCache
	subs    subscribers

	down   bool // refuses connections
	nextID int64
	conns  map[int64]*Conn
	gate   chan struct{} // closed while the master runs; open: it is paused
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
		server: newServer(runID), scripts: scriptCache{}, conns: map[int64]*Conn{}, gate: make(chan struct{}),
		subs: subscribers{},
	}
	m.databases = newDatabases(m.NowLocked)
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
	m.subs.forget(c)
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

// Stop makes the server unreachable: connections break, and commands that have not run never do.
// The process lives on: run_id, data and scripts stay.
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
	m.ResetStatLocked()
	clear(m.scripts)
	if !keep {
		m.FlushLocked()
	}
}

// FlushAll empties every database.
func (m *Master) FlushAll() { m.Set(m.FlushLocked) }

// EvictLocked evicts a key of database 0 and counts it.
func (m *Master) EvictLocked(key string) {
	m.begin()
	if m.get(key) != nil {
		m.Delete(key)
		m.countEvicted()
	}
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
	return m.ran(word)
}

// Published are the messages published so far, "channel message" each.
func (m *Master) Published() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.published...)
}
