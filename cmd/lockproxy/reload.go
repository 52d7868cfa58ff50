package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"lockproxy/upstream"
)

// reloadOnHangup reads certificates and passwords again on SIGHUP, and calls settings for the rest, until end is called.
func reloadOnHangup(files *files, log *zap.Logger, settings func()) (end func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range hangups {
			logReload(files, log)
			settings()
		}
	})
	return func() {
		signal.Stop(hangups)
		close(hangups)
		wg.Wait()
	}
}

// logReload reloads and says what came of it.
func logReload(files *files, log *zap.Logger) {
	changed, err := files.reload()
	if err != nil {
		log.Error("nothing was reloaded, a file is not good", zap.Error(err))
		return
	}
	log.Info("certificates and passwords reloaded", zap.Strings("changed", changed))
}

// follow keeps up with the Sentinels of up, beyond the end of ctx, until end is called. moved is called as Follow says.
func follow(ctx context.Context, up *upstream.Upstream, moved func(old context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { up.Follow(ctx, moved) })
	return func() {
		cancel()
		wg.Wait()
	}
}
