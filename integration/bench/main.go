package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// longest bounds a run, even if a process hangs.
const longest = 45 * time.Minute

func main() {
	if len(os.Args) > 1 && os.Args[1] == "load" {
		exit(loadMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "spin" {
		spin()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, longest, errors.New("took too long"))
	defer cancel()
	exit(run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run measures the parts that the environment selects, and writes the report.
func run(ctx context.Context) error {
	o, err := readOptions(os.Getenv)
	if err != nil {
		return err
	}
	files, err := raiseFileLimit()
	if err != nil {
		return err
	}
	r, err := newRig(ctx, o, files)
	if err != nil {
		return err
	}
	defer r.close()
	begun := time.Now()
	var out report
	for _, part := range parts {
		if !o.runs(part.name) {
			continue
		}
		if err := part.measure(r, &out); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	text := out.text(r, time.Since(begun))
	fmt.Print(text)
	if o.result == "" {
		return nil
	}
	return os.WriteFile(o.result, []byte(text), 0o644)
}

// parts are the parts of a run, in order.
var parts = []struct {
	name    string
	measure func(*rig, *report) error
}{
	{"relay", measureRelay},
	{"cpu", measureCPU},
	{"locks", measureLocks},
	{"kinds", measureKinds},
	{"adopt", measureAdopt},
	{"wait", measureWait},
	{"load", measureLoad},
	{"beside", measureBeside},
	{"idle", measureIdle},
	{"versions", measureVersions},
}

// partNames lists them for people.
func partNames() string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}
