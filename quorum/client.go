package quorum

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// onceConn is the one connection that a client of go-redis gets.
type onceConn struct {
	mu   sync.Mutex
	used bool
	net.Conn
}

// close breaks the connection, whoever waits on it.
func (c *onceConn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = true
	if c.Conn != nil {
		_ = bare(c.Conn).Close()
	}
}

// onceClient is a client of go-redis on one connection of its own, for what must not go over the lane. It dials once: with the
// connection everything said on it is over, and nothing is said anew behind our back. It sends nothing a second time.
func (o *MasterOptions) onceClient() (*redis.Client, *onceConn) {
	once := new(onceConn)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		once.mu.Lock()
		defer once.mu.Unlock()
		if once.used {
			return nil, net.ErrClosed
		}
		once.used = true
		conn, err := o.dial(ctx)
		once.Conn = conn
		return conn, err
	}
	return redis.NewClient(&redis.Options{
		Addr: o.Addr, Dialer: dial, CredentialsProvider: o.login, DB: o.DB,
		Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, PoolSize: 1, PipelinePoolSize: -1,
		DialTimeout: handshakeTimeout, ReadTimeout: silence, WriteTimeout: silence, PoolTimeout: silence, ContextTimeoutEnabled: true,
		MinIdleConns: 0, ConnMaxIdleTime: -1 * time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}), once
}

// clientReason turns an error of such a client into a reason.
func clientReason(err error) error {
	if said, ok := errors.AsType[redis.Error](err); ok {
		return &answerError{plain(said.Error())}
	}
	return connReason(err, silence)
}

// mayServe is nil if the master votes, else the reason why not. What must not vote is not asked either.
func (l *lane) mayServe() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.votes {
		return l.reason
	}
	return nil
}
