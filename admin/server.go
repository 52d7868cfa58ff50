// Package admin serves operators by HTTP: metrics for Prometheus, health for load balancers,
// profiles, and a page for people. It gets its data through the functions in [Options].
package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"lockproxy/stat"
)

// Options configure a Site. Meter, State, Waiting, Locks and Why are required. Functions must be
// safe for concurrent use.
type Options struct {
	Meter   *Meter
	Version string
	Started time.Time
	Host    string   // the machine of this proxy
	Listen  []string // where clients connect to it

	// Snapshot is called every second and for every scrape.
	State func() Snapshot
	// Waiting returns the keys with the longest waits and those with the most waiting clients, at
	// most limit. It is called every second while a page is open.
	Waiting func(limit int) []stat.Waiting
	// Locks returns a page of the locks that match a pattern of Redis' SCAN. It is called one call at
	// a time, and only for an operator.
	Locks func(ctx context.Context, cursor uint64, match string, count int) (stat.LockPage, error)
	// Why returns who holds a key and who waits for it. It is called only for an operator.
	Why func(ctx context.Context, key string) (stat.Why, error)
	// Refusals returns what the lock listener has refused. It is called every second while a page is
	// open. Nil: there is no such listener.
	Refusals func() []stat.RefusedKind
	// MayRelease says whether Release would do anything. It never blocks.
	MayRelease func(by stat.Operator) error
	// Release frees the lock of key, if its fence is still that one or 0, and reports whether
	// there was one. Its error is an fs.ErrPermission if it was not allowed. Nil, with MayRelease:
	// the page cannot release locks.
	Release func(ctx context.Context, by stat.Operator, key string, fence uint64) (freed bool, err error)
	// Explain returns the text of an error of Locks, MayRelease or Release.
	Explain func(error) string

	// Token returns the secret that clients must show: a bearer token or the password of any user.
	// Nil or "": clients need no token.
	Token func() string
	// Local says that only this machine can reach the listener. Without a token, pages of other
	// sites in a browser here are refused.
	Local bool
	Unix  bool // the listener is a Unix socket
	// LogLevel serves the level of the log. Nil: there is no such address.
	LogLevel http.Handler
	Log      *zap.Logger // nil: none
}

// MaxConnections is how many connections a Site has at a time. It closes one for each further.
const MaxConnections = 128

// Further limits of one server. Operators are few.
const (
	maxProfiles   = 4
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 60 * time.Second
	maxHeader     = 16 << 10
	maxBody       = 64 << 10
)

// Site serves operators. The caller closes it.
type Site struct {
	o        Options
	http     *http.Server
	registry *prometheus.Registry
	stream   stream
	drops    drops
	locks    lockList
	whys     chan struct{} // holds a value for each question that is being answered
	wg       sync.WaitGroup
	done     chan struct{} // closed by Close
	once     sync.Once
}

// New returns a server that does not serve yet.
func New(o Options) *Site {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Token == nil {
		o.Token = func() string { return "" }
	}
	if o.Explain == nil {
		o.Explain = error.Error
	}
	s := &Site{o: o, done: make(chan struct{}), registry: Registry(o.Meter, o.State, o.Version),
		whys: make(chan struct{}, maxWhys)}
	s.locks.init()
	s.stream.done = s.done
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: zap.NewStdLog(zap.NewNop())}
	return s
}

// Serve serves ln until Close, closes ln and returns nil. It may be called once.
func (s *Site) Serve(ln net.Listener) error {
	s.wg.Go(s.sample)
	few := newLimited(ln, MaxConnections)
	s.http.ConnState, s.http.ConnContext, s.http.Handler = few.note, keepConn, few.whole(s.http.Handler)
	if err := s.http.Serve(few); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve operators: %w", err)
	}
	return nil
}

// Close ends the streams and closes the listener. Running requests may go on until ctx ends.
func (s *Site) Close(ctx context.Context) {
	s.once.Do(func() { close(s.done) })
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	s.wg.Wait()
}

// sample makes a sample each second and publishes it.
func (s *Site) sample() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	samples := newSampler(s.o.Meter, time.Now())
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		now := time.Now()
		state := s.o.State()
		s.drops.note(state.Masters, now)
		sample := samples.next(state, now)
		s.stream.publish(sample, func() []byte { return s.report(&state, &sample, now) })
	}
}
