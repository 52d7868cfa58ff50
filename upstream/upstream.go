// Package upstream connects to the Redis that serves all other commands, and finds out which
// commands that server accepts without authentication.
package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Options configure an [Upstream]. Network and Addr are required, or Sentinel.
type Options struct {
	Name     string // for errors and logs; empty: Addr. It must hold no credentials
	Network  string // "tcp" or "unix"
	Addr     string // host:port or a path
	User     string // ACL user; empty with a Password means the default user
	Password string // empty: no AUTH is sent
	DB       int    // database to SELECT; 0: no SELECT is sent
	// TLS returns the TLS configuration of a new connection, also of those to Sentinels; nil:
	// none. It must not block. An empty ServerName is taken from Addr.
	TLS func() *tls.Config
	// Login, if not nil, replaces User and Password. It is called for every connection and must
	// not block.
	Login func() (user, password string)
	// Sentinel, if not nil, replaces Network and Addr: the server is the master that Sentinels
	// name. Follow must run.
	Sentinel *SentinelOptions

	// DialTimeout bounds connecting, TLS, AUTH and SELECT together, and a question of Ask. 0 means
	// 5s.
	DialTimeout time.Duration
	// Dial opens the bare connection. Nil means a net.Dialer with TCP keepalive.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log may be nil. Only the Sentinels are logged.
	Log *zap.Logger
}

// Upstream dials one upstream and remembers its answers. It holds no connection, so it needs no
// Close. Safe for concurrent use.
type Upstream struct {
	opts      Options
	sentinels *sentinels    // nil: Addr is the server
	changed   chan struct{} // holds a value when AuthRequired was learnt or has changed

	mu       sync.Mutex
	facts    GuestRules // the last answer; guarded by mu
	known    bool       // facts hold an answer; guarded by mu
	answered time.Time  // when that came; guarded by mu
	fresh    time.Time  // facts are used without asking until then; guarded by mu
	question *question  // the running one, or nil; guarded by mu
	slow     bool       // the last question was not answered within patience; guarded by mu
}

// New returns an Upstream. It does not connect.
func New(opts Options) *Upstream {
	if opts.Name == "" {
		opts.Name = opts.Addr
	}
	if opts.DialTimeout <= 0 {
		opts.DialTimeout = 5 * time.Second
	}
	if opts.Dial == nil {
		opts.Dial = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Login == nil {
		user, password := opts.User, opts.Password
		opts.Login = func() (string, string) { return user, password }
	}
	u := &Upstream{opts: opts, changed: make(chan struct{}, 1)}
	if opts.Sentinel != nil {
		u.sentinels = newSentinels(*opts.Sentinel, u)
	}
	return u
}

// tlsFor returns the TLS configuration for the server at addr, or nil.
func (u *Upstream) tlsFor(addr string) *tls.Config {
	if u.opts.TLS == nil {
		return nil
	}
	config := u.opts.TLS()
	if config.ServerName != "" {
		return config
	}
	config = config.Clone()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		config.ServerName = host
	}
	return config
}

// Name returns what errors and logs call this upstream. It holds no credentials.
func (u *Upstream) Name() string { return u.opts.Name }

// Trusted reports whether Dial logs in, so that the upstream serves every client.
func (u *Upstream) Trusted() bool {
	_, password := u.opts.Login()
	return password != ""
}

// User returns the user whom Dial logs in; "default" if it names none, or logs nobody in.
func (u *Upstream) User() string {
	if user, password := u.opts.Login(); password != "" && user != "" {
		return user
	}
	return "default"
}

// keepAlive detects within a minute that the other machine is gone. Idle connections stay open.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// Dial connects. If the address has credentials or a database, it sends AUTH and SELECT and checks
// their replies. The connection is raw and at the start of the client's conversation: no byte
// after those replies has been read, and no deadline is set. With TLS it is a *tls.Conn.
//
// Reason shortens its errors, which hold no credentials.
func (u *Upstream) Dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, u.opts.DialTimeout)
	defer cancel()
	if u.sentinels != nil {
		return u.dialMaster(ctx, u.dialOne)
	}
	return u.dialOne(ctx, u.opts.Addr)
}

// dialOne connects to the server at addr and introduces the connection. If Sentinels named the
// server, it must be a master.
func (u *Upstream) dialOne(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := u.connectTo(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := u.during(ctx, conn, u.introduce); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// connect opens the connection, with TLS, and sends no command.
func (u *Upstream) connect(ctx context.Context) (net.Conn, error) {
	if u.sentinels != nil {
		return u.dialMaster(ctx, u.connectTo)
	}
	return u.connectTo(ctx, u.opts.Addr)
}

func (u *Upstream) connectTo(ctx context.Context, addr string) (net.Conn, error) {
	network := u.opts.Network
	if u.sentinels != nil {
		network = "tcp"
	}
	conn, err := dialTLS(ctx, u.opts.Dial, network, addr, u.tlsFor(addr))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", u.opts.Name, err)
	}
	return conn, nil
}

// HandshakeError is a failed TLS handshake with the upstream or a Sentinel.
type HandshakeError struct{ Err error }

// Error returns the error after "handshake: ".
func (e *HandshakeError) Error() string { return "handshake: " + e.Err.Error() }

// Unwrap returns the error of the handshake.
func (e *HandshakeError) Unwrap() error { return e.Err }

// dialTLS opens a connection and, unless config is nil, speaks TLS on it. If the handshake fails,
// the error is a *HandshakeError.
func dialTLS(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), network,
	addr string, config *tls.Config) (net.Conn, error) {
	conn, err := dial(ctx, network, addr)
	if err != nil || config == nil {
		return conn, err
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &HandshakeError{err}
	}
	return secured, nil
}

// during runs talk on conn. If ctx ends first, it interrupts talk through the deadline. Afterwards
// conn has no deadline. If ctx ended, the error is its cause, or a timeout that came earlier.
func (u *Upstream) during(ctx context.Context, conn net.Conn, talk func(net.Conn) error) error {
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		conn.SetDeadline(time.Unix(1, 0))
	})
	err := talk(conn)
	if !stop() {
		<-cut // so that its deadline is not set after this one is cleared
		if err == nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("talk to %s: %w", u.opts.Name, err)
	}
	conn.SetDeadline(time.Time{})
	return nil
}
