package quorum

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// handshakeTimeout bounds dialling and everything a new connection says before it votes, each.
const handshakeTimeout = 2 * time.Second

// dial opens a connection to the master: the socket, its options, TLS. What has been sent and not
// acknowledged must not be delivered long after the lane was given up, so the socket drops it: at close (linger
// 0), and after the time that makes a lane dead.
func (o *MasterOptions) dial(ctx context.Context) (net.Conn, error) {
	open := o.Dial
	if open == nil {
		open = new(net.Dialer).DialContext
	}
	raw, err := open(ctx, o.network(), o.Addr)
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

// tlsConfig is TLS with the name to verify.
func (o *MasterOptions) tlsConfig() *tls.Config {
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

func (o *MasterOptions) network() string {
	if o.Network == "" {
		return "tcp"
	}
	return o.Network
}

func (o *MasterOptions) name() string {
	if o.Name == "" {
		return plain(o.Addr)
	}
	return plain(o.Name)
}

// keepLinger makes the coming Close of c deliver what was written. Only for the orderly end: every SET in front
// of it is followed by its release.
func keepLinger(c net.Conn) {
	if tcp, ok := bare(c).(*net.TCPConn); ok {
		_ = tcp.SetLinger(-1)
	}
}

// bare is the connection below TLS.
func bare(c net.Conn) net.Conn {
	if secure, ok := c.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return c
}
