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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if code, found := tool.Run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); found {
		stop()
		os.Exit(code)
	}
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lockproxy:", err)
		stop()
		os.Exit(1)
	}
}

// silent keeps go-redis from writing to stderr. Its errors come back to the callers as well.
type silent struct{}

// Printf does nothing.
func (silent) Printf(context.Context, string, ...any) {}
