package main

import (
	"cmp"
	"context"
	"net"
	"sync"

	"go.uber.org/zap"

	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/resp"
)

// relay is the servers of the clients: one for listen, and one for adopt-listen. Parts that are
// made before them hold a relay that has none yet.
type relay struct {
	made  chan struct{} // closed by start
	main  *resp.Server  // set by start
	adopt *resp.Server  // of adopt-listen, set by start; nil without it
}

func newRelay() *relay { return &relay{made: make(chan struct{})} }

func (r *relay) start(main, adopt *resp.Server) {
	r.main, r.adopt = main, adopt
	close(r.made)
}

// servers returns the servers. It must not be called before start, nor must the other methods but
// retire.
func (r *relay) servers() []*resp.Server {
	if r.adopt == nil {
		return []*resp.Server{r.main}
	}
	return []*resp.Server{r.main, r.adopt}
}

// connections returns how many clients are connected.
func (r *relay) connections() (n int) {
	for _, server := range r.servers() {
		n += server.Connections()
	}
	return n
}

// adopted returns how many of them are connected to adopt-listen.
func (r *relay) adopted() int {
	if r.adopt == nil {
		return 0
	}
	return r.adopt.Connections()
}

// unadopted returns how many of them are connected to listen.
func (r *relay) unadopted() int { return r.main.Connections() }

// maxClients returns how many clients may be connected.
func (r *relay) maxClients() int { return r.main.MaxClients() }

func (r *relay) setMaxClients(n int) {
	for _, server := range r.servers() {
		server.SetMaxClients(n)
	}
}

// stats returns the counts of both servers.
func (r *relay) stats() (all resp.Stats) {
	for _, server := range r.servers() {
		all.Add(server.Stats())
	}
	return all
}

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
	var wg sync.WaitGroup
	for _, server := range r.servers() {
		wg.Go(func() { server.Retire(old) })
	}
	wg.Wait()
}

// shutdown shuts both servers down at the same time.
func (r *relay) shutdown(ctx context.Context) error {
	all := r.servers()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, server := range all {
		wg.Go(func() { errs[i] = server.Shutdown(ctx) })
	}
	wg.Wait()
	return cmp.Or(errs...) // both have the same cause
}

// serve accepts clients until ctx is done or a listener fails. Then it calls end, which must shut
// the servers down.
func (r *relay) serve(ctx context.Context, on openListeners, log *zap.Logger, end func()) error {
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	wg.Go(func() { failed <- r.main.Serve(on.main...) })
	if r.adopt != nil {
		wg.Go(func() { failed <- r.adopt.Serve(on.adopt...) })
	}
	var err error
	select {
	case <-ctx.Done():
		log.Info("ending", zap.NamedError("cause", context.Cause(ctx)), zap.Int("clients", r.connections()))
	case err = <-failed:
		log.Error("serving ended", zap.Error(err))
	}
	notifyStopping()
	end()
	wg.Wait()
	log.Info("ended")
	return err
}

// openListeners are where clients connect.
type openListeners struct{ main, adopt []net.Listener }

// all returns those of listen and those of adopt-listen.
func (l openListeners) all() []net.Listener {
	return append(l.main[:len(l.main):len(l.main)], l.adopt...)
}

// openToOthers returns the first listener that other machines can reach, and the setting that
// names it, or nil.
func (l openListeners) openToOthers() (name string, open net.Addr) {
	if open := listen.OpenToOthers(l.main); open != nil {
		return "listen", open
	}
	return "adopt-listen", listen.OpenToOthers(l.adopt)
}
