package resp

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// A failed dial is not repeated at once: a client that goes on sending, or thousands of them,
// would keep the process busy with dialling. A client that comes within dialPause waits for its
// end, and dials then. After a dial that took longer to fail, clients get its error at once, for
// as long as the dial took, but for dialPauseMost at most.
const (
	dialPause     = 20 * time.Millisecond
	dialPauseMost = time.Second
)

// dialFailure is the last dial that failed. The zero value is none. Safe for concurrent use.
type dialFailure struct {
	mu     sync.Mutex
	err    error
	at     time.Time // when it failed
	until  time.Time // no dial before
	slow   bool      // clients get its error until then
	good   time.Time // when a dial last succeeded
	probed time.Time // when back last dialled
}

// current returns the error that a client which came at the given time gets without a dial of its
// own; or else how long it must wait before it dials.
func (f *dialFailure) current(came time.Time) (wait time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait = time.Until(f.until)
	if f.err != nil && (f.slow && wait > 0 || f.at.After(came)) {
		return 0, f.err
	}
	return wait, nil
}

// set notes a dial that failed after so long.
func (f *dialFailure) set(err error, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.at, f.slow = err, time.Now(), took > dialPause
	f.until = f.at.Add(min(max(took, dialPause), dialPauseMost))
}

// succeeded notes a dial that succeeded.
func (f *dialFailure) succeeded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.good = time.Now()
}

// dial calls open, unless that has just failed.
func (f *dialFailure) dial(ctx context.Context, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
	came := time.Now()
	for {
		wait, err := f.current(came)
		if err != nil {
			return nil, err
		}
		if wait <= 0 {
			break
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	start := time.Now()
	up, err := open(ctx)
	switch {
	case err == nil:
		f.succeeded()
	case !errors.Is(err, context.Canceled): // a cancelled dial is no failure of the upstream
		f.set(err, time.Since(start))
	}
	return up, err
}

// probeEvery is the pause between two dials that only find out whether the upstream is back.
const probeEvery = time.Second

// back reports whether the upstream was dialled since the given time. If no client has tried for a
// while, back tries.
func (f *dialFailure) back(ctx context.Context, since time.Time, open func(context.Context) (net.Conn, error)) bool {
	f.mu.Lock()
	back := f.good.After(since)
	due := !back && time.Since(f.at) >= probeEvery && time.Since(f.probed) >= probeEvery
	if due {
		f.probed = time.Now()
	}
	f.mu.Unlock()
	if !due {
		return back
	}
	up, err := f.dial(ctx, open)
	if err != nil {
		return false
	}
	up.Close()
	return true
}

// alone is the error of an uplink whose upstream could not be dialled, on a server with
// Options.Alone. It is the pump's.
type alone struct {
	error
	ever  bool      // Alone has answered: the connection is never relayed
	at    time.Time // when the dial had failed
	until uint64    // that counts for requests that begin before so many bytes of the client
}

// lasts reports whether the failure counts for a request that begins after so many bytes of the
// client. a may be nil.
func (a *alone) lasts(begin uint64) bool { return a != nil && (a.ever || begin < a.until) }

// Unwrap returns the error of the dial.
func (a *alone) Unwrap() error { return a.error }
