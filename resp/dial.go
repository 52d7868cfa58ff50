package resp

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// A failed dial is not repeated for a while, the longer the more time it took: a client that goes on sending, or thousands of them, would
// else keep a process busy with dialling, or hang in one dial after the other where the upstream does not answer.
const (
	dialPause     = 20 * time.Millisecond
	dialPauseMost = time.Second
)

// dialFailure is the last dial that failed. The zero value is none. Safe for concurrent use.
type dialFailure struct {
	mu    sync.Mutex
	err   error
	until time.Time // its error is good for so long
}

// current returns the error of a dial that failed a moment ago, or nil.
func (f *dialFailure) current() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil && time.Now().Before(f.until) {
		return f.err
	}
	return nil
}

// set notes the outcome of a dial that took so long.
func (f *dialFailure) set(err error, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.until = err, time.Now().Add(min(max(took, dialPause), dialPauseMost))
}

// dial opens a connection to the upstream, unless that failed a moment ago.
func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	if err := s.down.current(); err != nil {
		return nil, err
	}
	start := time.Now()
	up, err := s.o.Dial(ctx)
	if err != nil && !errors.Is(err, context.Canceled) { // that says nothing of the upstream
		s.down.set(err, time.Since(start))
	}
	return up, err
}
