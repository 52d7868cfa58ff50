package main

import (
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// What systemd is told of the proxy's state. Without systemd nobody is told, and an error is of no use to anybody.

func notifyReady()    { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) }
func notifyStopping() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }
func notifyReloading() {
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec())
}

// feedWatchdog tells systemd twice in each WatchdogSec that the proxy lives, until end is called. alive returns if it does, and hangs if not.
func feedWatchdog(alive func(), log *zap.Logger) (end func()) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog cannot be understood", zap.Error(err))
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
