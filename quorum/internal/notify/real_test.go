package notify

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/redistest"
	"lockproxy/quorum/internal/master"
)

// startRedis starts a redis-server with arguments and returns how to reach it.
func startRedis(t *testing.T, args ...string) *master.Options {
	t.Helper()
	s := redistest.Start(t, args...)
	return &master.Options{Network: s.Network, Addr: s.Addr}
}

// A client logs in, selects its database and has one connection. go-redis sends no command a
// second time.
func TestClient(t *testing.T) {
	o := startRedis(t, "--user", "me", "on", ">secret", "~*", "+@all", "--requirepass", "other")
	o.User, o.Password, o.DB = "me", "secret", 3
	ctx, cancel := context.WithCancel(t.Context())
	c, err := Dial(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if me, err := c.Do(ctx, "client", "info").Text(); err != nil || !strings.Contains(me, "user=me") ||
		!strings.Contains(me, "db=3") {
		t.Errorf("%q, %v", me, err)
	}
	second, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	hung := make(chan error)
	go func() { hung <- c.BLPop(context.WithoutCancel(ctx), 0, "none").Err() }()
	cancel()
	if err := <-hung; err == nil {
		t.Error("answered")
	}
	for range 3 {
		if err := c.Ping(t.Context()).Err(); err == nil {
			t.Error("answered over another connection")
		}
	}
	_ = c.Close()
}

// The fake master answers as Redis does.
func TestOnRedis(t *testing.T) {
	at := startRedis(t)
	o := Options{Masters: []Endpoint{{Name: "m", Options: at, MayServe: func() error { return nil }}},
		Timeout: 5 * time.Second}
	o.Log, o.Jitter = nopLog, func(d time.Duration) time.Duration { return d }
	s := New(o)
	defer s.Close()
	admin, err := Dial(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	told := make(chan string, 10)
	add := func(id string) { told <- id }
	hears := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Fatalf("told %q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("not told %q", want)
		}
	}
	stop := s.Subscribe(t.Context(), "job", add)
	for i := range 20 {
		id := fmt.Sprint(i)
		if n, err := admin.Publish(t.Context(), "job", id).Result(); n != 1 || err != nil {
			t.Fatalf("published to %d, %v", n, err)
		}
		hears(id)
		stop()
		stop = s.Subscribe(t.Context(), "job", add)
	}
	if n, err := admin.ClientKillByFilter(t.Context(), "type", "pubsub").Result(); n != 1 || err != nil {
		t.Errorf("killed %d, %v", n, err)
	}
	hears("") // after the connection broke
	stop()
	for deadline := time.After(time.Minute); ; {
		left := admin.PubSubChannels(t.Context(), "*").Val()
		if len(left) == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%v left", left)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
