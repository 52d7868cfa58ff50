package main

import (
	"context"
	"net"

	"go.uber.org/zap"

	"lockproxy/resp"
)

// relay is the server of the clients. Parts that are made before it hold a relay that has none
// yet.
type relay struct {
	made   chan struct{} // closed by start
	server *resp.Server  // set by start
}

func newRelay() *relay { return &relay{made: make(chan struct{})} }

func (r *relay) start(server *resp.Server) {
	r.server = server
	close(r.made)
}

// connections returns how many clients are connected. It must not be called before start.
func (r *relay) connections() int { return r.server.Connections() }

// maxClients returns how many clients may be connected. It must not be called before start.
func (r *relay) maxClients() int { return r.server.MaxClients() }

// retire ends the connections to the upstream that were dialled under old, once they can end
// without loss. It waits for start, or until old is done.
func (r *relay) retire(old context.Context) {
	select {
	case <-r.made:
	case <-old.Done():
		select {
		case <-r.made:
		default:
			return
		}
	}
	r.server.Retire(old)
}

// serve accepts clients until ctx is done or a listener fails. Then it calls end, which must shut
// the server down.
func (r *relay) serve(ctx context.Context, listeners []net.Listener, log *zap.Logger, end func()) error {
	failed := make(chan error, 1)
	go func() { failed <- r.server.Serve(listeners...) }()
	var err error
	select {
	case <-ctx.Done():
		log.Info("ending", zap.NamedError("cause", context.Cause(ctx)), zap.Int("clients", r.connections()))
	case err = <-failed:
		log.Error("serving ended", zap.Error(err))
		failed <- err
	}
	notifyStopping()
	end()
	<-failed
	log.Info("ended")
	return err
}
