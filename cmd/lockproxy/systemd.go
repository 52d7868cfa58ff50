package main

import (
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// These functions report the proxy's state to systemd. Without systemd they have no effect.
// Callers could not handle their errors, so they return none.

func notifyReady()    { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) }
func notifyStopping() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }
func notifyReloading() {
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec())
}

// feedWatchdog reports to systemd twice in each WatchdogSec that the proxy works, until end is
// called. alive hangs if the proxy does not work.
func feedWatchdog(alive func(), log *zap.Logger) (end func()) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the settings of systemd's watchdog are invalid", zap.Error(err))
	}
	if err != nil || within <= 0 {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(within / 2)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				alive()
				_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
