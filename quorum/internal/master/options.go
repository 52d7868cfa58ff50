package master

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"lockproxy/plain"
)

// Options say how one master is reached.
type Options struct {
	Name     string // as the operator wrote it, without credentials; used in messages. Empty: Addr
	ID       string // what all proxies call this master, however they reach it. Empty: address, database
	Network  string // "tcp" or "unix"; empty: tcp
	Addr     string // host:port, or the path of a socket
	User     string // empty: the default user
	Password string // empty: no AUTH
	DB       int    // selected on every connection

	// Login, if not nil, takes the place of User and Password. It is called for every connection
	// and must not block.
	Login func() (user, password string)
	// TLS returns how to speak TLS. It is called for every connection and must not block. Without
	// ServerName the host of Addr is verified. nil: plain.
	TLS func() *tls.Config

	// Dial opens the connection below TLS. Safe for concurrent use. nil: net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Validate lists all faults of o, which is master number i.
func (o *Options) Validate(i int) (faults []error) {
	if o.Addr == "" {
		faults = append(faults, fmt.Errorf("master %d has no address", i+1))
	}
	if n := o.network(); n != "tcp" && n != "unix" {
		faults = append(faults, fmt.Errorf("master %d has network %q, want tcp or unix", i+1, n))
	}
	if o.DB < 0 {
		faults = append(faults, fmt.Errorf("master %d has database %d", i+1, o.DB))
	}
	return faults
}

// NameOf returns the name of the master for messages.
func (o *Options) NameOf() string {
	if o.Name == "" {
		return plain.Short(o.Addr)
	}
	return plain.Short(o.Name)
}

// IDOf returns the master's name in the settings that all proxies share.
func (o *Options) IDOf() string {
	if o.ID != "" {
		return o.ID
	}
	if o.DB != 0 {
		return fmt.Sprintf("%s/%d", o.Addr, o.DB)
	}
	return o.Addr
}

// Credentials returns who to log in as on a new connection. Without a password there is no login.
func (o *Options) Credentials() (user, password string) {
	if o.Login != nil {
		return o.Login()
	}
	return o.User, o.Password
}

func (o *Options) network() string {
	if o.Network == "" {
		return "tcp"
	}
	return o.Network
}

// Connect dials the master, sets the options of the socket and begins TLS. Bytes that were sent
// and not acknowledged must not arrive long after the lane gave the connection up. So the socket
// drops them on close (linger 0), and after the silence that makes a lane dead. For the error, see
// Reason.
func (o *Options) Connect(ctx context.Context) (net.Conn, error) {
	dial := o.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	raw, err := dial(ctx, o.network(), o.Addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		if err := errors.Join(tcp.SetNoDelay(true), tcp.SetLinger(0), setUserTimeout(tcp, silence)); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("set socket options: %w", err)
		}
	}
	if o.TLS == nil {
		return raw, nil
	}
	secure := tls.Client(raw, o.tlsConfig())
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secure, nil
}

// tlsConfig returns the TLS configuration with the name to verify.
func (o *Options) tlsConfig() *tls.Config {
	cfg := o.TLS()
	if cfg.ServerName != "" || cfg.InsecureSkipVerify {
		return cfg
	}
	cfg = cfg.Clone()
	if host, _, err := net.SplitHostPort(o.Addr); err == nil {
		cfg.ServerName = host
	}
	return cfg
}
