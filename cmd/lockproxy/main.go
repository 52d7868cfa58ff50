// Command lockproxy is a server that speaks Redis to its clients and adds LOCK and UNLOCK, held by
// a majority of independent Redis servers. It relays every other command to one Redis, the
// upstream.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"lockproxy/cmd/lockproxy/tool"
)

func main() {
	redis.SetLogger(silent{})
	ctx := signalled()
	args, code, done := builtin(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	if done {
		os.Exit(code)
	}
	if code, found := tool.Run(ctx, args, os.Environ(), os.Stdout, os.Stderr); found {
		os.Exit(code)
	}
	if err := run(ctx, args, os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lockproxy:", err)
		os.Exit(1)
	}
}

// builtin runs doctor, and turns help and version into the flags that do the same. done says that
// code is the exit code.
func builtin(ctx context.Context, args, environ []string, stdout, stderr io.Writer) (rest []string, code int,
	done bool) {
	if len(args) == 0 {
		return args, 0, false
	}
	switch more := args[1:]; {
	case args[0] == "doctor":
		return nil, runDoctor(ctx, more, environ, stdout, stderr), true
	case args[0] == "version" && len(more) == 0:
		return []string{"--version"}, 0, false
	case args[0] == "help" && len(more) == 0:
		return []string{"--help"}, 0, false
	case args[0] == "help" && len(more) == 1 && more[0] == "doctor":
		return nil, runDoctor(ctx, []string{"--help"}, environ, stdout, stderr), true
	case args[0] == "help" && len(more) == 1 && !strings.HasPrefix(more[0], "-"):
		return []string{more[0], "--help"}, 0, false
	}
	return args, 0, false
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
