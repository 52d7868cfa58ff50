package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/commands/internal/queue"
	"lockproxy/quorum"
)

// simMasters hold one key in virtual time: subscribing takes 2ms, and a request 1ms.
type simMasters struct {
	mu        sync.Mutex
	info      quorum.Info
	until     time.Time     // the holder leaves; zero: never
	older     time.Duration // the lock lives so much longer with an older holder, of the fence before
	err       error
	asked     []time.Duration // since the start of the bubble
	following int
	changed   func()
	onAsk     func() // called when a request begins; may be nil

	confirming func() // called before the subscription is confirmed; may be nil
}

func (m *simMasters) Inspect(ctx context.Context, _ string) (quorum.Info, error) {
	m.mu.Lock()
	m.asked = append(m.asked, time.Since(followBegan))
	if m.onAsk != nil {
		m.onAsk()
	}
	info, err := m.info, m.err // as it was when the request began
	info.TTL, info.Latest = -1, -1
	if !m.until.IsZero() {
		info.Latest = time.Until(m.until)
		if info.TTL = info.Latest + m.older; info.TTL <= 0 {
			info = quorum.Info{}
		} else if info.Latest <= 0 {
			info.Fence, info.Latest = info.Fence-1, info.TTL
		}
	}
	m.mu.Unlock()
	select {
	case <-time.After(time.Millisecond):
	case <-ctx.Done():
		return quorum.Info{}, context.Cause(ctx)
	}
	return info, err
}

func (m *simMasters) Follow(ctx context.Context, _ string, changed func()) func() {
	select {
	case <-time.After(2 * time.Millisecond):
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.confirming != nil {
		m.confirming()
	}
	m.following++
	m.changed = changed
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.following--
	}
}

// hold gives the lock the fence; 0 is free. With announce, the masters send messages.
func (m *simMasters) hold(fence uint64, announce bool) {
	m.mu.Lock()
	m.info = quorum.Info{}
	if fence > 0 {
		m.info = quorum.Info{Held: 3, Masters: 3, Fence: fence, Holders: 1}
	}
	m.mu.Unlock()
	if announce {
		m.announce()
	}
}

// announce passes on the message of one master.
func (m *simMasters) announce() {
	m.mu.Lock()
	changed := m.changed
	m.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (m *simMasters) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *simMasters) requests() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

var followBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// desk is followers in a bubble, and the replies to its clients.
type desk struct {
	t       *testing.T
	m       *simMasters
	f       *followers
	wg      sync.WaitGroup
	mu      sync.Mutex
	replies []string
}

func inBubble(t *testing.T, f func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &simMasters{}
		d := &desk{t: t, m: m, f: newFollowers(m, m, time.Minute)}
		f(d)
		d.wg.Wait()
		d.f.close()
		if m.following != 0 || d.f.count() != 0 || len(d.f.byKey) != 0 {
			t.Errorf("left: %d subscriptions, %d clients, %d keys", m.following, d.f.count(), len(d.f.byKey))
		}
	})
}

// follow starts a client. Its reply is the fence or the error, and the time.
func (d *desk) follow(since uint64, timeout time.Duration, change ...func(*follower)) {
	c := follower{ctx: d.t.Context(), since: since, timeout: timeout}
	for _, f := range change {
		f(&c)
	}
	d.wg.Go(func() {
		info, err := d.f.wait("job", 3, c)
		text := fmt.Sprintf("%d at %v", info.Fence, time.Since(followBegan))
		if err != nil {
			text = fmt.Sprintf("%v at %v", err, time.Since(followBegan))
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.replies = append(d.replies, text)
	})
}

func (d *desk) want(want ...string) {
	d.t.Helper()
	d.wg.Wait()
	if !slices.Equal(d.replies, want) {
		d.t.Errorf("replied %q, want %q", d.replies, want)
	}
}

// TestFollowRepliesWhenTheFenceChanges: the reply comes as soon as the fence is another one.
func TestFollowRepliesWhenTheFenceChanges(t *testing.T) {
	inBubble(t, func(d *desk) { // it is another one already
		d.m.hold(7, false)
		d.follow(6, time.Minute)
		d.want("7 at 3ms")
	})
	inBubble(t, func(d *desk) { // granted
		d.follow(0, time.Minute)
		time.Sleep(time.Second)
		d.m.hold(7, true)
		d.want("7 at 1.006s")
	})
	inBubble(t, func(d *desk) { // released
		d.m.hold(7, false)
		d.follow(7, time.Minute)
		time.Sleep(time.Second)
		d.m.hold(0, true)
		d.want("0 at 1.006s")
	})
	inBubble(t, func(d *desk) { // taken over, without a message: the slow timer
		d.m.hold(7, false)
		d.follow(7, 0)
		time.Sleep(time.Second)
		d.m.hold(8, false)
		d.want("8 at 30.004s")
	})
}

// TestFollowExpiry: a holder that runs out is noticed at its time.
func TestFollowExpiry(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.m.hold(7, false)
		d.m.until = time.Now().Add(10 * time.Second)
		start := time.Now()
		d.follow(7, time.Minute)
		d.wg.Wait()
		if took := time.Since(start); took < 10*time.Second || took > 10*time.Second+5*time.Millisecond ||
			len(d.m.requests()) != 2 {
			t.Errorf("replied after %v, asked at %v", took, d.m.requests())
		}
	})
}

// TestFollowLatestExpires: where several hold the lock, the end of the latest is noticed at its
// time.
func TestFollowLatestExpires(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.m.hold(7, false)
		d.m.until, d.m.older = time.Now().Add(2*time.Second), time.Hour
		start := time.Now()
		d.follow(7, time.Minute)
		d.wg.Wait()
		if took := time.Since(start); took > 2*time.Second+5*time.Millisecond || len(d.m.requests()) != 2 {
			t.Errorf("replied %v after %v, asked at %v", d.replies, took, d.m.requests())
		}
	})
}

// TestFollowGap: a change between the first request and the subscription is not missed. The
// message about it comes before the subscription and is lost.
func TestFollowGap(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.m.hold(7, false)
		d.m.confirming = func() {
			d.m.info = quorum.Info{Held: 3, Masters: 3, Fence: 8}
		}
		d.follow(7, 20*time.Second)
		d.want("8 at 3ms")
	})
	inBubble(t, func(d *desk) { // while the first request is under way
		d.m.hold(7, false)
		d.m.onAsk = func() {
			if len(d.m.asked) == 1 {
				time.AfterFunc(time.Millisecond/2, func() { d.m.hold(8, true) })
			}
		}
		d.follow(7, 20*time.Second)
		d.want("8 at 9ms") // 2ms, 1ms, 5ms in which the other masters change, 1ms
	})
}

// TestFollowQuiet: without messages the masters are asked at the slow timer, however many clients
// follow.
func TestFollowQuiet(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.m.hold(7, false)
		for range 3 {
			d.follow(7, 100*time.Second)
		}
		d.wg.Wait()
		// the first, three of the timer, the last; and one for the clients that came after the last
		if asked := d.m.requests(); len(d.replies) != 3 || len(asked) > 6 {
			t.Errorf("replied %q, asked at %v", d.replies, asked)
		}
	})
}

// TestFollowTimeout: the reply is what holds then, asked for anew; and each client has its own
// time.
func TestFollowTimeout(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.m.hold(7, false)
		d.follow(7, 5*time.Second)
		time.Sleep(2 * time.Second)
		d.follow(7, time.Second)
		time.Sleep(10 * time.Millisecond)
		d.follow(8, time.Minute) // knows of another holder than the masters do
		d.want("7 at 2.011s", "7 at 3.001s", "7 at 5.001s")
	})
}

// TestFollowJoins: a client that joins later does not get an older answer: it may know of a later
// holder.
func TestFollowJoins(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.m.hold(7, false)
		d.follow(7, 10*time.Second)
		time.Sleep(time.Second)
		d.m.hold(8, false)
		d.follow(8, 20*time.Second)
		time.Sleep(15 * time.Second)
		d.want("8 at 1.001s", "8 at 21.001s")
	})
}

// TestFollowEarlyMessage: the first message may come before a majority has carried out the change.
// The other messages may be lost.
func TestFollowEarlyMessage(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.m.hold(7, false)
		d.follow(7, time.Minute)
		time.Sleep(time.Second)
		d.m.announce()
		time.Sleep(100 * time.Millisecond)
		d.m.hold(8, false)
		d.want("8 at 1.258s") // 5 + 1 + 50 + 1 + 200 + 1
		if asked := d.m.requests(); len(asked) != 4 {
			t.Errorf("asked at %v", asked)
		}
	})
}

// TestFollowStorm: messages of all masters, and of further changes at once, are one request.
func TestFollowStorm(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.m.hold(7, false)
		d.follow(7, time.Minute)
		time.Sleep(time.Second)
		for range 50 {
			d.m.announce()
			time.Sleep(50 * time.Microsecond)
		}
		d.m.hold(8, true)
		d.want("8 at 1.006s")
	})
}

// TestFollowFaults: without a quorum the masters are asked again with growing delay. At the end of
// its time a client gets that error, one without a timeout after maxTTL.
func TestFollowFaults(t *testing.T) {
	noQuorum := &quorum.NoQuorumError{N: 3, Needed: 2}
	text := noQuorum.Error()
	inBubble(t, func(d *desk) {
		d.m.fail(noQuorum)
		d.follow(7, 10*time.Second)
		time.Sleep(9 * time.Second)
		if n := len(d.m.requests()); n < 10 || n > 30 {
			t.Errorf("%d requests in 9s", n)
		}
		d.want(text + " at 10.001s")
	})
	inBubble(t, func(d *desk) { // it comes back
		d.m.fail(noQuorum)
		d.follow(7, time.Minute)
		time.Sleep(9 * time.Second)
		d.m.fail(nil)
		d.m.hold(8, false)
		d.wg.Wait()
		if took := time.Since(followBegan); took > 10100*time.Millisecond {
			t.Errorf("replied %q", d.replies)
		}
	})
	inBubble(t, func(d *desk) {
		d.m.fail(noQuorum)
		d.follow(7, 0)
		d.wg.Wait()
		if took := time.Since(followBegan); took < time.Minute || took > 62*time.Second {
			t.Errorf("replied %q", d.replies)
		}
	})
	inBubble(t, func(d *desk) { // the fault before does not count
		d.m.fail(noQuorum)
		d.follow(7, 0)
		time.Sleep(50 * time.Second)
		d.m.fail(nil)
		d.m.hold(7, false)
		time.Sleep(2 * time.Second)
		d.m.fail(noQuorum)
		d.wg.Wait()
		if took := time.Since(followBegan); took < 112*time.Second {
			t.Errorf("replied %q", d.replies)
		}
	})
}

// TestFollowEnds: the client leaves, the proxy drains, too many follow.
func TestFollowEnds(t *testing.T) {
	inBubble(t, func(d *desk) {
		left := make(chan struct{})
		d.follow(0, 0, func(c *follower) { c.disconnected = left })
		time.Sleep(time.Second)
		close(left)
		d.want(queue.ErrDisconnected.Error() + " at 1s")
	})
	inBubble(t, func(d *desk) {
		ctx, cancel := context.WithCancelCause(d.t.Context())
		d.follow(0, 0, func(c *follower) { c.ctx = ctx })
		time.Sleep(time.Millisecond) // the subscription is not confirmed yet
		cancel(errors.New("on purpose"))
		d.want("on purpose at 1ms")
	})
	inBubble(t, func(d *desk) {
		for range 3 {
			d.follow(0, 0)
		}
		time.Sleep(time.Second)
		d.follow(0, 0)
		time.Sleep(time.Second)
		d.f.drain()
		time.Sleep(time.Second)
		d.follow(0, 0)
		ending := queue.ErrDraining.Error()
		d.want(queue.ErrFull.Error()+" at 1s", ending+" at 2s", ending+" at 2s", ending+" at 2s", ending+" at 3s")
	})
}
