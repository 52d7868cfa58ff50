package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lockproxy/goredis"
)

// Each master notifies each watcher of the channel once, and no other watcher.
func TestEachMasterNotifiesItsWatchersOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
		var a, b, other heard
		start := time.Now()
		defer s.Subscribe(t.Context(), "job", a.add)()
		defer s.Subscribe(t.Context(), "job", b.add)()
		synctest.Wait()
		defer s.Subscribe(t.Context(), "jobs", other.add)()
		if d := time.Since(start); d != 0 {
			t.Errorf("took %v although all masters answer", d)
		}
		synctest.Wait()
		for _, m := range masters {
			m.publish("job", "x")
		}
		synctest.Wait()
		if a, b, other := a.take(), b.take(), other.take(); a != "x x x" || b != "x x x" || other != "" {
			t.Errorf("told %q, %q and %q", a, b, other)
		}
		for i, m := range masters {
			if dials, _ := m.count(); dials != 1 {
				t.Errorf("master %d: %d connections", i, dials)
			}
			if got := m.said(); got != "subscribe job, subscribe jobs" {
				t.Errorf("master %d was asked %q", i, got)
			}
		}
	})
}

// Each connection subscribes to the configured first channel first.
func TestFirstChannelIsSubscribedFirst(t *testing.T) {
	inBubbleFirst(t, "all", 1, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
		defer s.Subscribe(t.Context(), "job", new(heard).add)()
		synctest.Wait()
		masters[0].cut(nil)
		wait(maxPause)
		if got := masters[0].said(); got != "subscribe all, subscribe job, subscribe all, subscribe job" {
			t.Errorf("asked %q", got)
		}
	})
}

// Subscribe waits for a majority, and only until the timeout, the end of ctx or Close.
func TestSubscribeReturns(t *testing.T) {
	for _, c := range []struct {
		name string
		hung int
		ctx  time.Duration
		want time.Duration
	}{
		{"one of three hangs", 1, time.Hour, 0},
		{"two of three hang", 2, time.Hour, testTimeout},
		{"the caller gives up", 2, 10 * time.Millisecond, 10 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
				for _, m := range masters[:c.hung] {
					m.set(func() { m.hung = true })
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.ctx)
				defer cancel()
				start := time.Now()
				s.Subscribe(ctx, "job", new(heard).add)()
				if d := time.Since(start); d != c.want {
					t.Errorf("took %v, want %v", d, c.want)
				}
			})
		})
	}
	t.Run("closed", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *Subscriptions, _ []*fakeMaster) {
			var h heard
			stop := s.Subscribe(t.Context(), "job", h.add)
			s.Close()
			stop()
			start := time.Now()
			s.Subscribe(t.Context(), "job", h.add)()
			if d := time.Since(start); d != 0 || !s.idle() || h.take() != "" {
				t.Errorf("took %v after Close, or something is left", d)
			}
		})
	})
}

// A Subscribe that returned without a majority gets each confirmation until there is one.
func TestLateConfirmation(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
		for _, m := range masters[1:] {
			m.set(func() { m.hung = true })
		}
		var h heard
		defer s.Subscribe(t.Context(), "job", h.add)()
		if got := h.take(); got != "" {
			t.Errorf("told %q before Subscribe returned", got)
		}
		for i, want := range []string{"-", "-", "", ""} {
			masters[1+i].set(func() { masters[1+i].hung = false })
			synctest.Wait()
			if got := h.take(); got != want {
				t.Errorf("confirmation %d: told %q, want %q", i+2, got, want)
			}
		}
	})
}

// A subscription that broke and was made anew notifies every watcher, also one that came after the
// loss.
func TestSubscriptionMadeAnewNotifiesAll(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
		var early, late heard
		defer s.Subscribe(t.Context(), "job", early.add)()
		synctest.Wait()
		m := masters[0]
		m.set(func() { m.down = errDown })
		m.cut(nil)
		wait(5 * time.Second)
		defer s.Subscribe(t.Context(), "job", late.add)()
		if early, late := early.take(), late.take(); early != "" || late != "" {
			t.Errorf("told %q and %q before the master is back", early, late)
		}
		m.set(func() { m.down = nil })
		wait(maxPause)
		if early, late := early.take(), late.take(); early != "-" || late != "-" {
			t.Errorf("told %q and %q, want each once", early, late)
		}
		// It breaks twice before it is confirmed again.
		m.set(func() { m.slow = true })
		m.cut(nil)
		wait(maxPause)
		m.cut(nil)
		m.set(func() { m.slow = false })
		wait(maxPause)
		if got := early.take(); got != "-" {
			t.Errorf("told %q after two losses, want it once", got)
		}
	})
}

// A channel that is let go and watched again is confirmed when the master has confirmed all
// requests.
func TestStopAndAgain(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
		m := masters[0] // a majority needs both
		hold := func(hung, slow bool) {
			m.set(func() { m.hung, m.slow = hung, slow })
			synctest.Wait()
		}
		stop := s.Subscribe(t.Context(), "job", new(heard).add)
		synctest.Wait()
		hold(true, false)
		stop()
		synctest.Wait() // UNSUBSCRIBE is on its way
		var h heard
		start := time.Now()
		stop = s.Subscribe(t.Context(), "job", h.add)
		if d := time.Since(start); d != testTimeout {
			t.Errorf("sure after %v, and nothing is confirmed", d)
		}
		hold(false, true)
		if got := h.take(); got != "" || m.subscribed() != "" {
			t.Errorf("told %q when UNSUBSCRIBE was confirmed", got)
		}
		hold(false, false)
		if got := h.take(); got != "-" {
			t.Errorf("told %q when SUBSCRIBE was confirmed late", got)
		}
		m.publish("job", "x")
		synctest.Wait()
		if got := h.take(); got != "x" {
			t.Errorf("told %q", got)
		}
		stop()
		if got := m.said(); got != "subscribe job, unsubscribe job, subscribe job" {
			t.Errorf("sent %q", got)
		}
	})
}

// A channel that is let go and watched again before a request was sent stays confirmed.
func TestAgainBeforeUnsubscribe(t *testing.T) {
	b := &subscriber{wake: make(chan struct{}, 1), dirty: make(map[*topic]struct{})}
	s := &Subscriptions{subscribers: []*subscriber{b}, topics: make(map[string]*topic)}
	b.subs = s
	sends := func(want string) {
		t.Helper()
		if on, off := b.takeDirty(); fmt.Sprint(on, off) != want {
			t.Errorf("sends %v %v, want %s", on, off, want)
		}
	}
	confirm := func() { s.notify("job", "", func(t *topic) []*watcher { return t.confirmed(0) }) }
	w := s.add("job", nil)
	sends("[job] []")
	confirm()
	confirm() // an answer without a request
	s.remove(w)
	w = s.add("job", nil)
	if w.state != assured {
		t.Error("not sure although the subscription stands")
	}
	sends("[] []")
	s.remove(w)
	s.remove(w)
	sends("[] [job]")
	w = s.add("job", nil)
	s.remove(w)
	sends("[] []")
	confirm()
	if len(s.topics) != 0 || len(b.dirty) != 0 {
		t.Error("a topic is left")
	}
	confirm()
}

// Many channels share one connection, which closes when it has been idle for a while.
func TestOneConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
		const channels = 1000
		var wg sync.WaitGroup
		stops := make([]func(), channels)
		for i := range stops {
			wg.Go(func() { stops[i] = s.Subscribe(t.Context(), fmt.Sprint("job", i), new(heard).add) })
		}
		wg.Wait()
		synctest.Wait()
		for i, m := range masters {
			dials, conns := m.count()
			if n := len(strings.Fields(m.subscribed())); dials != 1 || conns != 1 || n != channels {
				t.Errorf("master %d: %d channels on %d connections after %d", i, n, conns, dials)
			}
		}
		wait(time.Hour)
		masters[0].cut(nil)
		wait(keepFor/2 - 2*time.Second)
		if n := len(strings.Fields(masters[0].subscribed())); n != channels {
			t.Errorf("%d channels on the second connection", n)
		}
		for _, stop := range stops {
			stop()
			stop()
		}
		synctest.Wait()
		if !s.idle() || masters[0].subscribed() != "" {
			t.Error("channels are left")
		}
		wait(keepFor / 2)
		wantConns(t, masters, 1) // it may still be of use
		wait(keepFor / 2)
		wantConns(t, masters, 0)
		start := time.Now()
		defer s.Subscribe(t.Context(), "job", new(heard).add)()
		if d := time.Since(start); d != 0 {
			t.Errorf("took %v to connect again", d)
		}
	})
}

// wantConns fails unless each master has n connections.
func wantConns(t *testing.T, masters []*fakeMaster, n int) {
	t.Helper()
	for i, m := range masters {
		if _, conns := m.count(); conns != n {
			t.Errorf("master %d has %d connections, want %d", i, conns, n)
		}
	}
}

// Silence ends a connection only if the master does not answer PING either.
func TestSilentMasterIsPingedFirst(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
		var h heard
		defer s.Subscribe(t.Context(), "job", h.add)()
		wait(time.Minute)
		if dials, _ := masters[0].count(); dials != 1 {
			t.Errorf("%d connections, want one: the master answers PING", dials)
		}
		masters[0].set(func() { masters[0].hung = true })
		wait(3 * silence)
		masters[0].set(func() { masters[0].hung = false })
		wait(maxPause)
		if dials, _ := masters[0].count(); dials < 2 || h.take() != "-" {
			t.Errorf("%d connections, want a new one and a wake-up", dials)
		}
	})
}

// A master that may not serve is not asked, until it may.
func TestMayServe(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
		m := masters[0]
		m.set(func() { m.barred = errDown })
		defer s.Subscribe(t.Context(), "job", new(heard).add)()
		wait(time.Minute)
		if dials, _ := m.count(); dials != 0 {
			t.Errorf("%d connections", dials)
		}
		m.set(func() { m.barred = nil })
		wait(maxPause)
		if got := m.subscribed(); got != "job" {
			t.Errorf("subscribed to %q a second later", got)
		}
	})
}

// A refusal is logged once, and answers that Redis never gives do no harm.
func TestStrangeAnswers(t *testing.T) {
	for answer, warnings := range map[string]int{
		"-NOPERM this user has no permissions\r\n": 1,
		"*0\r\n":                    0,
		"*1\r\n:5\r\n":              0,
		"+OK\r\n":                   0,
		"*2\r\n$7\r\nmessage\r\n":   0,
		"*2\r\n$3\r\nfoo\r\n:1\r\n": 0,
		"*3\r\n$9\r\nsubscribe\r\n$3\r\njob\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$3\r\njob\r\n:1\r\n": 0,
	} {
		t.Run(fmt.Sprintf("%q", answer), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
				core, logs := observer.New(zap.WarnLevel)
				s.opts.Log = zap.New(core)
				masters[0].set(func() { masters[0].answer = answer })
				var h heard
				defer s.Subscribe(t.Context(), "job", h.add)()
				wait(time.Minute)
				masters[1].publish("job", "x")
				synctest.Wait()
				if got := h.take(); got != "x" || logs.Len() != warnings {
					t.Errorf("told %q, %d warnings, want x and %d", got, logs.Len(), warnings)
				}
			})
		})
	}
}

// TestImpossibleLengths: a length that no reply has ends the connection, with a reason. go-redis
// would allocate it. LOCKPROXY LOCKS has such connections, too.
func TestImpossibleLengths(t *testing.T) {
	for _, header := range []string{"$", "*", "=", "!", "~", "%", ">"} {
		for _, before := range []string{"", "*2\r\n$1\r\n0\r\n"} {
			answer := before + header + "1099511627776\r\n"
			t.Run(fmt.Sprintf("%q", answer), func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, s *Subscriptions, masters []*fakeMaster) {
					m := masters[0]
					m.set(func() { m.answer = answer })
					defer s.Subscribe(t.Context(), "job", new(heard).add)()
					for name, use := range map[string]func(c *Client) error{
						"scan": func(c *Client) error { return c.Scan(t.Context(), 0, "*", 10).Err() },
						"subscription": func(c *Client) error {
							pubsub := c.Subscribe(t.Context())
							defer pubsub.Close()
							_ = pubsub.Subscribe(t.Context(), "job")
							_, err := goredis.Receive(t.Context(), pubsub, silence)
							return err
						},
					} {
						wantReplyError(t, m, name, use, strings.Contains("$*", header))
					}
					wait(minPause)
					if dials, _ := m.count(); dials < 4 {
						t.Errorf("%d connections: the subscriptions do not go on", dials)
					}
				})
			})
		}
	}
}

// wantReplyError fails unless use ends with a ReplyError, which names the length if long is set.
func wantReplyError(t *testing.T, m *fakeMaster, name string, use func(c *Client) error, long bool) {
	t.Helper()
	client, err := Dial(t.Context(), m.master(0).Options)
	if err != nil {
		t.Fatal(err)
	}
	err = use(client)
	client.Close()
	bad, ok := errors.AsType[*goredis.BadReplyError](Reason(err))
	if !ok || long && !strings.Contains(bad.Error(), "announces a reply of 1099511627776 ") {
		t.Errorf("%s: the reason is %v", name, Reason(err))
	}
}
