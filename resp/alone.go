package resp

import (
	"context"
	"net"
	"time"
)

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

// alone returns the failure of the last dial; nil if there is none, or no Options.Alone.
func (u *uplink) alone() *alone {
	a, _ := u.failed.(*alone)
	return a
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
