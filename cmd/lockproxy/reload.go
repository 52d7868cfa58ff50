package main

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"lockproxy/cmd/lockproxy/internal/logs"
	"lockproxy/conf"
)

// reloader reads settings, certificates and passwords again on SIGHUP, and applies the changes
// that need no restart.
type reloader struct {
	args, environ []string // the sources of the settings
	files         *files
	log           *logs.Logs

	mu    sync.Mutex
	cfg   conf.Config       // in force
	apply func(conf.Config) // applies it to the running parts; nil before they run
	ready bool              // systemd knows that the start has ended
}

// onHangup reloads at every SIGHUP until end is called.
func (r *reloader) onHangup() (end func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range hangups {
			// otherwise systemd would take the end of the reload for the end of the start
			ready := r.isReady()
			if ready {
				notifyReloading()
			}
			r.reopenAudit()
			r.reload()
			if ready {
				notifyReady()
			}
		}
	})
	return func() {
		signal.Stop(hangups)
		close(hangups)
		wg.Wait()
	}
}

// notifyReady notifies systemd that the start has ended.
func (r *reloader) notifyReady() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = true
	notifyReady()
}

func (r *reloader) isReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

// reopenAudit opens the audit log's file again, and so creates it if it was moved away.
func (r *reloader) reopenAudit() {
	if err := r.log.Audit.Reopen(); err != nil {
		r.log.Error("audit-log cannot be opened again, it goes on in the old file", zap.Error(err))
	}
}

// config returns the settings in force.
func (r *reloader) config() conf.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cfg
}

// attach sets apply, and calls it with the current settings.
func (r *reloader) attach(apply func(conf.Config)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply = apply
	apply(r.cfg)
}

// reload applies every setting and file that can change, or none if one of them is wrong.
func (r *reloader) reload() {
	r.mu.Lock()
	defer r.mu.Unlock()
	loaded, err := conf.Load(r.args, r.environ)
	if err != nil {
		r.log.Error("nothing was reloaded, the settings are not good",
			zap.Strings("faults", strings.Split(err.Error(), "\n")))
		return
	}
	changes := conf.Changes(r.cfg, loaded)
	cfg, err := r.cfg.Take(loaded)
	if err != nil {
		r.log.Error("nothing was reloaded, the new settings fit only together with others that need a restart",
			zap.Strings("faults", strings.Split(err.Error(), "\n")))
		return
	}
	changed, err := r.files.reload(cfg)
	if err != nil {
		r.log.Error("nothing was reloaded, a file is invalid", zap.Error(err))
		return
	}
	r.cfg = cfg
	r.log.SetLevel(cfg.LogLevel)
	if r.apply != nil {
		r.apply(cfg)
	}
	r.log.Info("certificates and passwords reloaded", zap.Strings("changed", changed))
	r.logChanges(changes)
}

// logChanges logs which settings changed and which wait for a restart, with both values.
func (r *reloader) logChanges(changes []conf.Change) {
	var now, later []string
	for _, c := range changes {
		if c.Live {
			now = append(now, c.String())
		} else {
			later = append(later, c.String())
		}
	}
	r.log.Info("settings reloaded", zap.Strings("changed", now))
	if len(later) > 0 {
		r.log.Warn("changed settings need a restart", zap.Strings("settings", later))
	}
}
