package notify

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"lockproxy/goredis"
	"lockproxy/quorum/internal/master"
)

const (
	maxAtOnce   = 256 // channels in one command
	minPause    = 20 * time.Millisecond
	maxPause    = time.Second      // between connections
	steadyAfter = time.Second      // a connection that lived so long is followed by minPause
	keepFor     = 10 * time.Second // an unused connection stays open for half of this, or all
)

// errUnused ends an unused connection.
var errUnused = errors.New("is not needed")

// subscriber keeps the subscriptions at one master.
type subscriber struct {
	subs   *Subscriptions
	master Endpoint
	index  int
	wake   chan struct{} // capacity 1: dirty has something, or a topic is new
	warned string        // what run has logged last

	// Topics to compare with the commands that were sent. nil without a connection. Guarded by
	// subs.mu.
	dirty map[*topic]struct{}
}

func (b *subscriber) changedLocked(t *topic) {
	if b.dirty != nil {
		b.dirty[t] = struct{}{}
	}
	b.signal()
}

func (b *subscriber) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run keeps a connection while there are topics.
func (b *subscriber) run(ctx context.Context) {
	pause := minPause
	for ctx.Err() == nil {
		if b.subs.idle() {
			select {
			case <-b.wake:
			case <-ctx.Done():
			}
			continue
		}
		began := time.Now()
		if b.master.MayServe() == nil {
			err := b.serve(ctx)
			if err == errUnused {
				continue
			}
			b.complain(err)
		}
		if time.Since(began) >= steadyAfter {
			pause = minPause
		}
		select {
		case <-time.After(b.subs.opts.Jitter(pause)):
		case <-ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// complain logs why messages are missed. It warns of a refusal, which only the operator can
// change.
func (b *subscriber) complain(err error) {
	fields := []zap.Field{zap.String("master", b.master.Name), zap.Error(err)}
	if said, ok := errors.AsType[*master.AnswerError](err); ok && said.Text != b.warned {
		b.warned = said.Text
		b.subs.opts.Log.Warn("master refuses subscriptions: those who wait for a lock hear of a release late", fields...)
		return
	}
	b.subs.opts.Log.Debug("no subscriptions at a master", fields...)
}

// serve is the life of one connection. It returns why the connection ended.
func (b *subscriber) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client, err := Dial(ctx, b.master.Options)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	pubsub := client.Subscribe(ctx)
	defer func() { _ = pubsub.Close() }()
	if err := pubsub.Ping(ctx); err != nil { // logs in
		return Reason(err)
	}
	if first := b.subs.opts.First; first != "" {
		if err := pubsub.Subscribe(ctx, first); err != nil {
			return Reason(err)
		}
	}
	b.connected()
	defer b.disconnected()
	var receiver sync.WaitGroup
	receiver.Go(func() { cancel(b.receive(ctx, pubsub)) })
	cancel(b.send(ctx, pubsub))
	receiver.Wait()
	return context.Cause(ctx)
}

func (b *subscriber) connected() {
	b.subs.mu.Lock()
	defer b.subs.mu.Unlock()
	b.dirty = make(map[*topic]struct{})
	for _, t := range b.subs.topics {
		b.dirty[t] = struct{}{}
	}
	b.signal()
}

func (b *subscriber) disconnected() {
	b.subs.mu.Lock()
	defer b.subs.mu.Unlock()
	b.dirty = nil
	for _, t := range b.subs.topics {
		t.disconnected(b.index)
		b.subs.tidyLocked(t)
	}
}

// send subscribes and unsubscribes, until ctx ends, a write fails, or there have been no topics
// for a while.
func (b *subscriber) send(ctx context.Context, pubsub *redis.PubSub) error {
	tick := time.NewTicker(keepFor / 2)
	defer tick.Stop()
	for idle := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			was := idle
			if idle = b.subs.idle(); idle && was {
				return errUnused
			}
		case <-b.wake:
			if err := b.sendDirty(ctx, pubsub); err != nil {
				return Reason(err)
			}
		}
	}
}

func (b *subscriber) sendDirty(ctx context.Context, pubsub *redis.PubSub) error {
	for {
		on, off := b.takeDirty()
		if len(on)+len(off) == 0 {
			return nil
		}
		if len(off) > 0 {
			if err := pubsub.Unsubscribe(ctx, off...); err != nil {
				return err
			}
		}
		if len(on) > 0 {
			if err := pubsub.Subscribe(ctx, on...); err != nil {
				return err
			}
		}
	}
}

// takeDirty returns the channels to subscribe to now, and those to unsubscribe from: all that are
// dirty, or as many as one command may name.
func (b *subscriber) takeDirty() (on, off []string) {
	b.subs.mu.Lock()
	defer b.subs.mu.Unlock()
	for t := range b.dirty {
		if len(on)+len(off) == maxAtOnce {
			break
		}
		delete(b.dirty, t)
		s := &t.at[b.index]
		switch {
		case t.wanted() && !s.on():
			on = append(on, t.channel)
		case !t.wanted() && s.on():
			off = append(off, t.channel)
		default:
			continue
		}
		s.sent++
	}
	return on, off
}

// receive reads messages until the connection breaks. It sends PING after a silence, and a second
// silence ends the connection.
func (b *subscriber) receive(ctx context.Context, pubsub *redis.PubSub) error {
	for pinged := false; ; {
		got, err := goredis.Receive(ctx, pubsub, silence)
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && !pinged {
			if err = pubsub.Ping(ctx); err == nil {
				pinged = true
				continue
			}
		}
		if err != nil {
			return Reason(err)
		}
		pinged = false
		switch got := got.(type) {
		case *redis.Message:
			b.subs.notify(got.Channel, got.Payload, (*topic).all)
		case *redis.Subscription:
			b.subs.notify(got.Channel, "", func(t *topic) []*watcher { return t.confirmed(b.index) })
		}
	}
}
