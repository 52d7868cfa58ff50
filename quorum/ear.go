package quorum

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

const (
	keepEars   = 10 * time.Second // connections outlive the last watched key by this
	maxAtOnce  = 256              // channels in one SUBSCRIBE
	maxEarWait = time.Second      // back-off after a connection that failed
)

// ear hears the releases of one master. Its fields are guarded by ears.mu.
type ear struct {
	ears *ears
	lane *lane
	wake chan struct{} // holds a value when dirty has something

	warned string // what was logged last; used by run only

	running bool
	dirty   map[string]struct{} // channels to be looked at: watched or let go
	subs    map[string]subState // of the connection there is; nil without one
}

// startLocked makes the ear run.
func (m *ear) startLocked() {
	if !m.running {
		m.running = true
		m.ears.start(m.run)
	}
}

// changedLocked is told that channel is watched, or no more.
func (m *ear) changedLocked(channel string) {
	if m.subs == nil {
		return // the next connection begins with all
	}
	m.dirty[channel] = struct{}{}
	m.poke()
}

func (m *ear) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run keeps the ear connected as long as it is needed.
func (m *ear) run(ctx context.Context) {
	wait := minBackoff
	for !m.done() {
		began := time.Now()
		err := m.serve(ctx)
		if err == nil {
			continue
		}
		if time.Since(began) >= steadyAfter {
			wait = minBackoff
		}
		m.complain(err)
		sleep(ctx, m.ears.q.opts.dice.jitter(wait))
		wait = min(2*wait, maxEarWait)
	}
}

// complain logs why releases are not heard. What the master forbids only the operator can change.
func (m *ear) complain(err error) {
	fields := []zap.Field{zap.String("master", m.lane.names[m.lane.index]), zap.Error(err)}
	if said, ok := errors.AsType[*answerError](err); ok && said.text != m.warned {
		m.warned = said.text
		m.ears.q.log.Warn("a master does not tell of releases, those who wait are woken late", fields...)
		return
	}
	m.ears.q.log.Debug("releases of a master are not heard", fields...)
}

// done ends run when nothing has been watched for a while.
func (m *ear) done() bool {
	e := m.ears
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || m.unusedLocked() > keepEars {
		m.running = false
		return true
	}
	return false
}

// unusedLocked is how long nothing has been watched.
func (m *ear) unusedLocked() time.Duration {
	if m.ears.idle.IsZero() {
		return 0
	}
	return time.Since(m.ears.idle)
}

// serve is the life of one connection; nil if it ended because it was not needed.
func (m *ear) serve(ctx context.Context) error {
	if err := m.lane.mayServe(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, conn := m.lane.opts.onceClient()
	defer func() { _ = client.Close() }()
	defer context.AfterFunc(ctx, conn.close)()
	sub := client.Subscribe(ctx)
	defer func() { _ = sub.Close() }()
	if err := sub.Ping(ctx); err != nil {
		return clientReason(err)
	}
	broken := make(chan error, 1)
	m.begin()
	var wg sync.WaitGroup
	wg.Go(func() { broken <- m.listen(ctx, sub) })
	err := m.speak(ctx, sub, broken)
	cancel()
	conn.close()
	wg.Wait()
	m.end()
	return err
}

// begin makes every watched key wait for its SUBSCRIBE.
func (m *ear) begin() {
	m.ears.mu.Lock()
	defer m.ears.mu.Unlock()
	m.subs, m.dirty = make(map[string]subState), make(map[string]struct{})
	for channel := range m.ears.watched {
		m.dirty[channel] = struct{}{}
	}
	m.poke()
}

func (m *ear) end() {
	m.ears.mu.Lock()
	defer m.ears.mu.Unlock()
	m.subs, m.dirty = nil, nil
	m.ears.lostLocked(m.lane.index)
}

// speak sends what has to be subscribed and unsubscribed, until the connection breaks or is not needed any more.
func (m *ear) speak(ctx context.Context, sub *redis.PubSub, broken <-chan error) error {
	unused := time.NewTicker(keepEars / 4)
	defer unused.Stop()
	for {
		select {
		case err := <-broken:
			return err
		case <-ctx.Done():
			return nil
		case <-unused.C:
			if m.isUnused() {
				return nil
			}
		case <-m.wake:
			for {
				on, off := m.takeDirty()
				if len(on)+len(off) == 0 {
					break
				}
				if err := subscribe(ctx, sub, on, off); err != nil {
					return clientReason(err)
				}
			}
		}
	}
}

func (m *ear) isUnused() bool {
	m.ears.mu.Lock()
	defer m.ears.mu.Unlock()
	return m.unusedLocked() > keepEars
}

func subscribe(ctx context.Context, sub *redis.PubSub, on, off []string) error {
	if len(off) > 0 {
		if err := sub.Unsubscribe(ctx, off...); err != nil {
			return err
		}
	}
	if len(on) > 0 {
		return sub.Subscribe(ctx, on...)
	}
	return nil
}

// listen takes what the master says, until the connection breaks. Silence is answered with a PING, and more silence ends it.
func (m *ear) listen(ctx context.Context, sub *redis.PubSub) error {
	pinged := false
	for {
		got, err := sub.ReceiveTimeout(ctx, silence)
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && !pinged {
			if err := sub.Ping(ctx); err != nil {
				return clientReason(err)
			}
			pinged = true
			continue
		}
		if err != nil {
			return clientReason(err)
		}
		pinged = false
		switch got := got.(type) {
		case *redis.Message:
			m.heard(got.Channel, got.Payload)
		case *redis.Subscription:
			m.settled(got.Channel)
		}
	}
}

// heard tells everybody who watches the key.
func (m *ear) heard(channel, id string) {
	for _, l := range m.ears.listeners(channel) {
		l.released(id)
	}
}

func (e *ears) listeners(channel string) (all []*listener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.watched[channel]; w != nil {
		for l := range w.listeners {
			all = append(all, l)
		}
	}
	return all
}
