// Command lockproxy is a server that speaks Redis to its clients and adds LOCK and UNLOCK, held by
// a majority of independent Redis servers. It relays every other command to one Redis, the
// upstream.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"lockproxy/cmd/lockproxy/tool"
)

func main() {
	redis.SetLogger(silent{})
	ctx := signalled()
	if code, found := tool.Run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); found {
		os.Exit(code)
	}
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lockproxy:", err)
		os.Exit(1)
	}
}

// signalled returns a context that the first SIGINT or SIGTERM ends. From then on a second one
// ends the process at once.
func signalled() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-signals
		signal.Stop(signals)
		cancel(fmt.Errorf("%s signal received", first))
	}()
	return ctx
}

// silent keeps go-redis from writing to stderr. Its errors come back to the callers as well.
type silent struct{}

// Printf drops the message.
func (silent) Printf(context.Context, string, ...any) {}
