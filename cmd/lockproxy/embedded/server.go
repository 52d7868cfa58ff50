package embedded

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"go.uber.org/zap"
)

// Redis is a Redis inside the process, for trying lockproxy out. It is a miniredis that expires
// keys in real time, is reached through connections in memory, has the commands that ordinary
// clients and lanes need beyond miniredis, and survives miniredis' panics. It opens no ports. Safe
// for concurrent use.
type Redis struct {
	Name    string
	runID   string // 40 hex digits, the run_id of INFO
	started time.Time
	log     *zap.Logger
	mini    *miniredis.Miniredis
	srv     *server.Server // of mini; mini forgets it when closed

	peers sync.Map // the *server.Peer of each session; scripts have others

	mu       sync.Mutex
	closed   bool               // guarded by mu
	lastID   int64              // guarded by mu
	sessions map[int64]*session // by id; guarded by mu; a session takes itself out last
	wg       sync.WaitGroup     // one per session; Close waits
}

const (
	// Limits of a connection. A client's writes wait while this much is not read by the server,
	clientBuffer = 256 << 10
	// its next command waits while this much of its replies is unread,
	replyPace = 1 << 20
	// and beyond this the connection is closed, like that of a slow subscriber of Redis.
	replyLimit = 256 << 20
)

// newServer starts an empty server. The caller closes it.
func newServer(name string, log *zap.Logger) (*Redis, error) {
	var id [20]byte
	rand.Read(id[:])
	m := &Redis{
		Name: name, runID: hex.EncodeToString(id[:]), started: time.Now(), log: log,
		mini: miniredis.NewMiniRedis(), sessions: map[int64]*session{},
	}
	// The first Dial starts a miniredis without a port. Its connections are not used: their reader
	// panics on bytes that Redis refuses, on a goroutine that cannot recover.
	conn, err := m.mini.Dial()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	conn.Close()
	m.mini.ClockTTL(true)
	m.srv = m.mini.Server()
	m.srv.SetPreHook(m.preHook)
	return m, nil
}

var errServerClosed = errors.New("server closed")

// Dial returns a new connection. It ignores its arguments, which fit the Dial of other packages.
func (m *Redis) Dial(_ context.Context, _, _ string) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("dial %s: %w", m.Name, errServerClosed)
	}
	m.lastID++
	client, conn := newBufConns(m.Name, clientBuffer, replyLimit)
	s := newSession(m, m.lastID, conn)
	m.sessions[s.id] = s
	m.wg.Go(s.serve)
	return client, nil
}

// Close ends all connections and waits for their commands.
func (m *Redis) Close() {
	m.mu.Lock()
	m.closed = true
	for _, s := range m.sessions {
		s.conn.Close()
	}
	m.mu.Unlock()
	m.mini.Close()
	m.wg.Wait()
}

// remove forgets a session that has ended.
func (m *Redis) remove(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, s.id)
}

// find returns the connection with that CLIENT ID, or nil.
func (m *Redis) find(id int64) *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[id]
}

// connections returns how many connections are open, and how many there were in all.
func (m *Redis) connections() (open int, ever int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sessions), m.lastID
}

// wakeBlocked makes blocked commands check whether they may end. Every command that takes
// miniredis' lock does so.
func (m *Redis) wakeBlocked() {
	m.srv.Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), []string{"ECHO", ""})
}
