// Command lockproxy is a server that speaks Redis to its clients and adds LOCK and UNLOCK, held by a majority of
// independent Redis servers. Every other command goes unchanged to one Redis, the upstream.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lockproxy:", err)
		stop()
		os.Exit(1)
	}
}
