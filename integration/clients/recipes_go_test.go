package clients

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"

	"lockproxy/integration/clients/withlock"
	"lockproxy/integration/lab"
)

// withlock, which docs/recipes.md shows, does as the page says.
func TestWithlockKeepsItsPromises(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--admin-commands", "on")
	host := lab.Dial(t, c.Addr)
	proxies := withlock.Connect(redis.Options{}, c.Addr)
	wantRenewedThenWaited(t, proxies, host)
	wantWorkErrors(t, proxies, host)
	t.Run("released by an operator", func(t *testing.T) {
		wantErrLost(t, proxies, func() { host.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job") })
	})
	t.Run("no majority", func(t *testing.T) { // last, because the masters stay dead
		wantErrLost(t, proxies, func() { c.Masters[0].Kill(); c.Masters[1].Kill() })
	})
}

// wantRenewedThenWaited: work that takes longer than the ttl keeps its lock, which is released
// afterwards. Later work that waits for the key gets it with a greater fence.
func wantRenewedThenWaited(t *testing.T, proxies withlock.Proxies, host *lab.Client) {
	t.Helper()
	ctx := t.Context()
	var first int64
	err := proxies.Do(ctx, "job", 9*time.Second, 0, func(held context.Context, fence int64) error {
		first = fence
		if err := proxies.Do(ctx, "job", time.Second, 0, nil); !errors.Is(err, withlock.ErrTaken) {
			t.Errorf("Do of a held key: got %v, want ErrTaken", err)
		}
		lab.Pass(t, 9500*time.Millisecond) // longer than the ttl, so it must be renewed
		return held.Err()
	})
	if err != nil {
		t.Errorf("Do with a renewed lock: got %v", err)
	}
	host.WantDo(lab.Null2, "LOCKINFO", "job")

	token := host.Lock("job", "30s")
	waited := make(chan error, 1)
	go func() {
		waited <- proxies.Do(ctx, "job", 20*time.Second, 30*time.Second, func(held context.Context, fence int64) error {
			if fence <= first {
				t.Errorf("got fence %d after %d, want a greater one", fence, first)
			}
			return held.Err()
		})
	}()
	host.WaitWaiting(1)
	host.Unlock("job", token)
	if err := <-waited; err != nil {
		t.Errorf("Do after a wait: got %v", err)
	}
}

// wantWorkErrors: Do returns the error of the work, and that of a caller who gives up. Neither is
// ErrLost, and the lock is released.
func wantWorkErrors(t *testing.T, proxies withlock.Proxies, host *lab.Client) {
	t.Helper()
	wrong := errors.New("wrong")
	err := proxies.Do(t.Context(), "job", 20*time.Second, 0, func(context.Context, int64) error { return wrong })
	if !errors.Is(err, wrong) || errors.Is(err, withlock.ErrLost) {
		t.Errorf("Do with an error of the work: got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	err = proxies.Do(ended, "job", 20*time.Second, 0, func(held context.Context, _ int64) error {
		cancel()
		<-held.Done()
		return context.Cause(held)
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, withlock.ErrLost) {
		t.Errorf("Do after the caller gave up: got %v", err)
	}
	host.WantDo(lab.Null2, "LOCKINFO", "job") // released nevertheless
}

// wantErrLost: the context of work that loses its lock ends, and Do returns ErrLost.
func wantErrLost(t *testing.T, proxies withlock.Proxies, lose func()) {
	t.Helper()
	err := proxies.Do(t.Context(), "job", 3*time.Second, 0, func(held context.Context, _ int64) error {
		lose()
		select {
		case <-held.Done():
			return context.Cause(held)
		case <-time.After(lab.Patience):
			return nil
		}
	})
	if !errors.Is(err, withlock.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
}

// go-redis passes the push of a lost lock to a handler when it uses the connection.
func TestGoRedisHandlesLossPush(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--admin-commands", "on")
	rdb := redis.NewClient(&redis.Options{Addr: c.Addr})
	defer rdb.Close()
	heard := make(pushes, 1)
	if err := rdb.RegisterPushNotificationHandler("lock", heard, false); err != nil {
		t.Fatal(err)
	}
	own := rdb.Conn()
	defer own.Close()
	token, err := own.Do(t.Context(), "LOCK", "job", 9000, "SESSION").Text()
	if err != nil {
		t.Fatal(err)
	}
	lab.Dial(t, c.Addr).WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
	lab.WaitFor(t, "the push", lab.Patience, func() bool { return own.Ping(t.Context()).Err() == nil && len(heard) == 1 })
	if got := <-heard; len(got) != 4 || got[1] != "lost" || got[2] != "job" || got[3] != token {
		t.Errorf("got %q, want the push that job is lost", got)
	}
}

// pushes is a handler of go-redis.
type pushes chan []any

func (p pushes) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext,
	notification []any) error {
	p <- notification
	return nil
}
