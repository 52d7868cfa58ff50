package faults

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"lockproxy/integration/lab"
)

// TestForbiddenKeyHarmsNoOthers: the masters' ACL allows lockproxy only some keys. A client that
// keeps asking for other keys gets errors. The others get their locks, although all operations
// travel together.
func TestForbiddenKeyHarmsNoOthers(t *testing.T) {
	t.Parallel()
	// A busy machine needs more than the default of 50ms.
	l := lab.Start(t, lab.Config{Flags: []string{"--master-timeout", "2s"}})
	for _, s := range l.Masters {
		s.Must(t, "ACL", "SETUSER", "default", "resetkeys", "~lock:app:*", "~lockproxy:*")
	}
	addr := l.Proxies[0].Addr
	stop, refused := make(chan struct{}), make(chan error, 1)
	go func() { refused <- lockForbidden(addr, stop) }()

	const clients = 32
	pairs := lab.Long(50, 150)
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for i := range clients {
		wg.Go(func() { errs <- lockAllowed(addr, fmt.Sprint("app:", i), pairs) })
	}
	wg.Wait()
	close(stop)
	if err := <-refused; err != nil {
		t.Error(err)
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// lockAllowed locks and unlocks a key so many times.
func lockAllowed(addr, key string, pairs int) error {
	c, err := lab.Connect(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	failed, last := 0, ""
	for range pairs {
		token, reply, err := c.TryLock(key, "60s")
		if err == nil && token != "" {
			if reply, err = c.Ask("UNLOCK", key, token); reply == ":1\r\n" {
				continue
			}
		}
		if err != nil {
			return err
		}
		failed, last = failed+1, reply
	}
	if failed > 0 {
		return fmt.Errorf("%s: got %d failures in %d pairs, the last %q, want none", key, failed, pairs, last)
	}
	return nil
}

// lockForbidden asks for keys that are not allowed, until stop is closed.
func lockForbidden(addr string, stop <-chan struct{}) error {
	c, err := lab.Connect(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := 0; ; i++ {
		reply, err := c.Ask("LOCK", fmt.Sprint("other:", i), "60s")
		reply = lab.NotLate(reply)
		if err != nil || !strings.HasPrefix(reply, "-NOQUORUM 0 of 3 masters can vote, 2 needed: ") ||
			strings.Count(reply, "NOPERM ") != 3 {
			return fmt.Errorf("LOCK of a forbidden key: got %q (%v), want -NOQUORUM with three NOPERM", reply, err)
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}
