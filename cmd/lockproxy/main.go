// Command lockproxy is a server that speaks Redis to its clients and adds LOCK and UNLOCK, held by a majority of
// independent Redis servers. Every other command goes unchanged to one Redis, the upstream.
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

// silent keeps go-redis from writing to stderr, beside the log: what it has to say comes back as errors, too.
type silent struct{}

// Printf does nothing.
func (silent) Printf(context.Context, string, ...any) {}
