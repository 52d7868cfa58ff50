package main

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestProbeTooLate: the time is over while the upstream ends the connection. The proxy goes on.
func TestProbeTooLate(t *testing.T) {
	p := newProbe(func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		there.Close()
		return here, nil
	})
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for range 200 {
		if _, err := p.ask(ctx); err == nil {
			t.Fatal("an upstream that has gone answered")
		}
	}
}
