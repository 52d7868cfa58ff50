package notify

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockproxy/goredis"
	"lockproxy/plain"
	"lockproxy/quorum/internal/master"
)

// silence is the time limit for dialling, and for a master that sends no bytes.
const silence = 2 * time.Second

// Client is a client of go-redis on one connection, for commands that must not go over a lane. It
// never reconnects or retries: when the connection breaks, every call fails.
type Client struct {
	*redis.Client
	conn net.Conn
	stop func() bool // ends the watch over the context
}

// Dial connects to a master. When ctx ends, the connection closes and every call returns. The
// error is a reason like those of package master. The caller must call Close.
func Dial(ctx context.Context, o *master.Options) (*Client, error) {
	limited, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	conn, err := o.Connect(limited)
	if err != nil {
		return nil, Reason(err)
	}
	var used atomic.Bool
	dial := func(context.Context, string, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, net.ErrClosed
		}
		return goredis.Conn(conn), nil
	}
	c := &Client{conn: conn, Client: redis.NewClient(&redis.Options{
		Dialer: dial, CredentialsProvider: o.Credentials, DB: o.DB,
		Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, PoolSize: 1, PipelinePoolSize: -1,
		ReadTimeout: silence, WriteTimeout: silence, PoolTimeout: silence, ContextTimeoutEnabled: true,
		ConnMaxIdleTime:          -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
	c.stop = context.AfterFunc(ctx, func() { master.HangUp(conn) })
	return c, nil
}

// Close ends the client and its connection.
func (c *Client) Close() error {
	c.stop()
	master.HangUp(c.conn)
	return c.Client.Close()
}

// Reason turns an error of a Client into a reason like those of package master.
func Reason(err error) error {
	if said, ok := errors.AsType[redis.Error](err); ok {
		return &master.AnswerError{Text: plain.Short(said.Error())}
	}
	if bad, ok := errors.AsType[*goredis.BadReplyError](err); ok {
		return bad
	}
	return master.Reason(err, silence)
}
