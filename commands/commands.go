// Package commands says what each lock command means: arguments in, reply out. Its handlers run on redcon's mux, on connections
// served by package resp.
package commands

import (
	"context"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/quorum"
	"lockproxy/resp"
)

// Locker grants and releases locks; *quorum.Quorum is one.
type Locker interface {
	Acquire(ctx context.Context, key string, ttl time.Duration) (quorum.Lease, error)
	Release(ctx context.Context, key string, token quorum.Token) (bool, error)
	Abandon(key string, token quorum.Token)
}

var _ Locker = (*quorum.Quorum)(nil)

// Gate knows whether the upstream refuses commands of a connection that has not authenticated.
type Gate interface {
	// AuthRequired returns an error if the upstream was never asked with success; then nobody may lock who has not authenticated.
	AuthRequired(ctx context.Context) (bool, error)
}

// Options say what the commands work with. Locker and Gate are required.
type Options struct {
	Locker      Locker
	Gate        Gate
	KeyPrefix   string // in front of every key on the masters
	MinTTL      time.Duration
	MaxTTL      time.Duration
	ShowMasters bool        // name masters by address in errors, not by their place in the list
	Log         *zap.Logger // may be nil
}

// handlers is what the commands share.
type handlers struct{ Options }

// Register adds the handlers to mux, one for each of resp.CommandNames.
func Register(mux *redcon.ServeMux, o Options) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	h := &handlers{o}
	mux.Handle("lock", h.serve("lock", parseLock, h.lock))
	mux.Handle("unlock", h.serve("unlock", parseUnlock, h.unlock))
	for _, name := range []string{"extend", "lockinfo", "lockproxy"} {
		mux.Handle(name, h.serve(name, parseLater, h.later))
	}
}

// call is one command on its way: the connection, and the arguments once they are parsed.
type call struct {
	redcon.Conn
	session *resp.Session
	name    string // in lower case
	args
}
