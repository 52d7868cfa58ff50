package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum"
)

// fullMasters grant the first attempt. The others wait until they can be sent, and leave with
// their client.
type fullMasters struct {
	mu    sync.Mutex
	asked int
}

func (f *fullMasters) AcquireAsync(r quorum.Request, done func(quorum.Lease, error)) (leave func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	switch {
	case f.asked == 1:
		done(quorum.Lease{Token: quorum.Token{Secret: r.Owner}, Validity: r.TTL}, nil)
	case f.asked < 1000:
		return func() bool { return true }
	default: // ends a client that asks without end
		done(quorum.Lease{}, quorum.ErrBusy)
	}
	return nil
}

func (*fullMasters) Flush() {}

func (*fullMasters) Watch(context.Context, string, func(id string)) func() { return func() {} }

// TestInvitedLeaves: a reader that was invited leaves while its attempt waits to be sent. It must
// not ask again.
func TestInvitedLeaves(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(disconnected chan struct{}, cancel context.CancelCauseFunc, qs *Queues)
		want error
	}{
		{"client", func(disconnected chan struct{}, _ context.CancelCauseFunc, _ *Queues) { close(disconnected) },
			ErrDisconnected},
		{"drain", func(_ chan struct{}, _ context.CancelCauseFunc, qs *Queues) { qs.Drain() }, ErrDraining},
		{"context", func(_ chan struct{}, cancel context.CancelCauseFunc, _ *Queues) { cancel(context.Canceled) },
			context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				masters := new(fullMasters)
				qs := New(masters, masters, 5, 10, time.Minute)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				disconnected, ended := make(chan struct{}), make(chan error, 1)
				want := quorum.Request{Key: "job", TTL: time.Second, Mode: quorum.Shared}
				first, err := qs.join(nil, want, waitLimits{ctx: ctx})
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					_, err := qs.Wait(ctx, disconnected, 0, nil, want)
					ended <- err
				}()
				// Another reader is in front of the one that leaves, so that one does not lead.
				synctest.Wait()
				qs.mu.Lock()
				last := qs.byKey["job"].waiters[1]
				qs.mu.Unlock()
				if _, err, _ := first.try(true); err != nil {
					t.Fatal(err)
				}
				qs.mu.Lock()
				last.invited = true
				qs.mu.Unlock()
				last.wake()
				synctest.Wait()
				c.end(disconnected, cancel, qs)
				if err := <-ended; !errors.Is(err, c.want) {
					t.Errorf("ended with %v, want %v", err, c.want)
				}
				if masters.asked != 2 {
					t.Errorf("asked %d times, want 2", masters.asked)
				}
				qs.leave(first)
			})
		})
	}
}
