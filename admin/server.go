// Package admin serves operators by HTTP: metrics for Prometheus, health for load balancers, profiles, and a page for people. It knows
// nothing of the rest of the project: what it shows it is given as functions.
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

// Options say what a Server shows. Meter, State and Locks are required; functions must be safe for concurrent use.
type Options struct {
	Meter   *Meter
	Version string
	Started time.Time

	// State is called once a second and for every scrape.
	State func() State
	// Waiting returns the keys that most clients of this proxy wait for, at most limit. It is called once a second while somebody looks.
	Waiting func(limit int) []stat.Waiting
	// Locks returns a page of the locks that match a pattern of Redis' SCAN, and the cursor of the next page, 0 after the last. It is
	// called only when somebody asks to see locks, one call at a time.
	Locks func(ctx context.Context, cursor uint64, match string, count int) (next uint64, locks []stat.Lock, err error)
	// Explain is an error of Locks in words for people.
	Explain func(error) string

	// Token is what clients must show, as a bearer token or as the password of any user. Nil, or "": nobody is asked.
	Token func() string
	// Local: only this machine can reach the listener. Without a token, pages of other sites that a browser here has open are kept out.
	Local bool
	// LogLevel tells (GET) and changes (PUT) the level of the log. Nil: there is no such address.
	LogLevel http.Handler
	Log      *zap.Logger // nil: none
}

// Limits of one server. Operators are few; whoever holds more connections open is none.
const (
	maxConnections = 128
	headerTimeout  = 5 * time.Second
	readTimeout    = 15 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeader      = 16 << 10
	maxBody        = 64 << 10
)

// Server serves operators. Close ends it.
type Server struct {
	o        Options
	http     *http.Server
	registry *prometheus.Registry
	stream   stream
	locks    lockList
	wg       sync.WaitGroup
	done     chan struct{} // closed by Close
	once     sync.Once
}

// New returns a server that does nothing yet.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Token == nil {
		o.Token = func() string { return "" }
	}
	if o.Explain == nil {
		o.Explain = error.Error
	}
	s := &Server{o: o, done: make(chan struct{}), registry: registry(o.Meter, o.State, o.Version)}
	s.locks.init()
	s.stream.done = s.done
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: zap.NewStdLog(zap.NewNop())}
	return s
}

// Serve answers on ln until Close, and returns nil then. It may be called once, and closes ln.
func (s *Server) Serve(ln net.Listener) error {
	s.wg.Go(s.sample)
	few := newLimited(ln, maxConnections)
	s.http.ConnState, s.http.ConnContext, s.http.Handler = few.note, keepConn, few.whole(s.http.Handler)
	if err := s.http.Serve(few); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve operators: %w", err)
	}
	return nil
}

// Close ends the streams, lets requests under way end until ctx does, and closes the listener.
func (s *Server) Close(ctx context.Context) {
	s.once.Do(func() { close(s.done) })
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	s.wg.Wait()
}

// sample makes a sample each second and tells those who look.
func (s *Server) sample() {
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
		sample := samples.next(state, now)
		s.stream.publish(sample, func() []byte { return s.report(&state, &sample, now) })
	}
}
