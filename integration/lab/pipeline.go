package lab

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Pipeline sends n commands to addr over 64 connections, a hundred at a time on each, and returns
// the replies in the order of the commands.
func Pipeline(t testing.TB, addr string, n int, command func(i int) []string) (replies []string) {
	t.Helper()
	const connections = 64
	replies = make([]string, n)
	faults := make(chan error, connections)
	var wg sync.WaitGroup
	for first := range min(connections, n) {
		wg.Go(func() {
			if err := pipelineOne(addr, replies, first, connections, command); err != nil {
				faults <- err
			}
		})
	}
	wg.Wait()
	close(faults)
	for err := range faults {
		t.Fatal(err)
	}
	return replies
}

// pipelineOne sends every step-th command, from the first on.
func pipelineOne(addr string, replies []string, first, step int, command func(i int) []string) error {
	c, err := Connect(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for first < len(replies) {
		var batch strings.Builder
		end := min(first+100*step, len(replies))
		for i := first; i < end; i += step {
			batch.WriteString(Encode(command(i)...))
		}
		if err := c.Put(batch.String()); err != nil {
			return err
		}
		for ; first < end; first += step {
			if replies[first], err = c.Next(); err != nil {
				return fmt.Errorf("reply to %q: %w", command(first), err)
			}
		}
	}
	return nil
}
