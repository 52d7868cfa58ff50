package main

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestProbeSurvivesClosedUpstream: the probe's time ends while the upstream closes the connection.
// The proxy goes on.
func TestProbeSurvivesClosedUpstream(t *testing.T) {
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
