package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"

	"lockproxy/goredis"
)

// SentinelOptions name the Sentinels that watch the master.
type SentinelOptions struct {
	Master string   // the Sentinels' name of the master
	Addrs  []string // host:port of each Sentinel; others are not asked
	// Login returns user and password for a new connection to a Sentinel. Nil or an empty
	// password: none is sent.
	Login func() (user, password string)
}

const (
	// sentinelEvery is how often each Sentinel is asked, in addition to its announcements.
	sentinelEvery = time.Second
	// sentinelTimeout bounds connecting, and each question.
	sentinelTimeout = time.Second
)

// sentinelView is a Sentinel's view of the master. If two differ, the one with the higher epoch
// knows the later failover.
type sentinelView struct {
	addr  string // host:port of the master; empty: not known
	epoch int64
	err   error // why addr is empty
}

// sentinels follows all Sentinels of an upstream.
type sentinels struct {
	opts SentinelOptions
	tls  func(addr string) *tls.Config
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	log  *zap.Logger

	mu    sync.Mutex
	views []sentinelView // by Sentinel; guarded by mu
	addr  string         // of the master; empty: not known yet; guarded by mu
	epoch int64          // of the failover that made it master; guarded by mu
	// closed and replaced when addr changes or a Sentinel has answered; guarded by mu
	change chan struct{}
	nudge  chan struct{} // closed and replaced to have every Sentinel asked now; guarded by mu
}

func newSentinels(opts SentinelOptions, u *Upstream) *sentinels {
	s := &sentinels{opts: opts, tls: u.tlsFor, dial: u.opts.Dial, log: u.opts.Log,
		views: make([]sentinelView, len(opts.Addrs)), change: make(chan struct{}), nudge: make(chan struct{})}
	for i := range s.views {
		s.views[i].err = errors.New("not asked yet")
	}
	return s
}

// follow asks all Sentinels until ctx ends. It calls changed, from one goroutine, when the master
// has changed.
func (s *sentinels) follow(ctx context.Context, changed func(from, to string)) {
	var wg sync.WaitGroup
	for i := range s.opts.Addrs {
		wg.Go(func() { s.followOne(ctx, i) })
	}
	defer wg.Wait()
	for known := ""; ; {
		s.mu.Lock()
		addr, change := s.addr, s.change
		s.mu.Unlock()
		if addr != known {
			if known != "" {
				changed(known, addr)
			}
			known = addr
		}
		select {
		case <-change:
		case <-ctx.Done():
			return
		}
	}
}

// followOne asks one Sentinel: now, every second, when it announces a failover, and at a nudge.
func (s *sentinels) followOne(ctx context.Context, i int) {
	addr := s.opts.Addrs[i]
	client := s.client(addr)
	defer client.Close()
	announced := make(chan struct{}, 1)
	var listener sync.WaitGroup
	listener.Go(func() { listen(ctx, client, announced) })
	defer listener.Wait()
	tick := time.NewTicker(sentinelEvery)
	defer tick.Stop()
	for failing := false; ; {
		s.mu.Lock()
		nudge := s.nudge
		s.mu.Unlock()
		v := s.ask(ctx, client)
		if ctx.Err() != nil {
			return
		}
		if bad := v.err != nil; bad != failing {
			failing = bad
			s.logContact(addr, v)
		}
		s.note(i, v)
		select {
		case <-announced:
		case <-tick.C:
		case <-nudge:
		case <-ctx.Done():
			return
		}
	}
}

func (s *sentinels) logContact(addr string, v sentinelView) {
	if v.err != nil {
		s.log.Warn("sentinel does not name the master", zap.String("sentinel", addr), zap.String("master", s.opts.Master),
			zap.String("reason", Reason(v.err)))
		return
	}
	s.log.Info("sentinel names the master again", zap.String("sentinel", addr), zap.String("master", s.opts.Master),
		zap.String("address", v.addr))
}

// client returns a client of go-redis that does not retry: the next question comes a second later.
func (s *sentinels) client(addr string) *redis.SentinelClient {
	return redis.NewSentinelClient(&redis.Options{
		Addr: addr,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialTLS(ctx, s.dial, network, addr, s.tls(addr))
			if err != nil {
				return nil, err
			}
			return goredis.Conn(conn), nil
		},
		CredentialsProvider: s.opts.Login,
		Protocol:            2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 1, PipelinePoolSize: -1,
		DialTimeout: sentinelTimeout, ReadTimeout: sentinelTimeout, WriteTimeout: sentinelTimeout,
		PoolTimeout:           sentinelTimeout,
		ContextTimeoutEnabled: true, ConnMaxIdleTime: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// listen fills announced at every failover that a Sentinel announces, until ctx ends.
func listen(ctx context.Context, client *redis.SentinelClient, announced chan<- struct{}) {
	for ctx.Err() == nil {
		receive(ctx, client, announced)
		select {
		case <-time.After(sentinelEvery):
		case <-ctx.Done():
		}
	}
}

// receive is listen on one connection, until that fails. It sends PING into silence, and more
// silence ends the connection.
func receive(ctx context.Context, client *redis.SentinelClient, announced chan<- struct{}) {
	pubsub := client.Subscribe(ctx, "+switch-master")
	defer pubsub.Close()
	defer context.AfterFunc(ctx, func() { pubsub.Close() })()
	for pinged := false; ; {
		got, err := goredis.Receive(ctx, pubsub, sentinelEvery)
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && !pinged {
			if err = pubsub.Ping(ctx); err == nil {
				pinged = true
				continue
			}
		}
		if err != nil {
			return
		}
		pinged = false
		if _, ok := got.(*redis.Message); ok {
			select {
			case announced <- struct{}{}:
			default:
			}
		}
	}
}

// ask sends SENTINEL MASTER name, and reads ip, port and config-epoch of the reply.
func (s *sentinels) ask(ctx context.Context, client *redis.SentinelClient) sentinelView {
	ctx, cancel := context.WithTimeout(ctx, sentinelTimeout)
	defer cancel()
	var fields map[string]string
	err := goredis.Call(func() (err error) {
		fields, err = client.Master(ctx, s.opts.Master).Result()
		return err
	})
	if err != nil {
		if said, ok := errors.AsType[redis.Error](err); ok {
			err = &ReplyError{said.Error()}
		}
		return sentinelView{err: err}
	}
	epoch, err := strconv.ParseInt(fields["config-epoch"], 10, 64)
	if err != nil || fields["ip"] == "" || fields["port"] == "" {
		return sentinelView{err: errors.New("unexpected reply to SENTINEL MASTER")}
	}
	return sentinelView{addr: net.JoinHostPort(fields["ip"], fields["port"]), epoch: epoch}
}

// note records the view of Sentinel i.
func (s *sentinels) note(i int, v sentinelView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views[i] = v
	// A stale Sentinel must not win because the others are unreachable. But if most Sentinels
	// agree on a lower epoch, they were set up anew and count from the beginning.
	best, votes := choose(s.views)
	if best.addr != "" && (best.epoch >= s.epoch || votes > len(s.views)/2) {
		s.addr, s.epoch = best.addr, best.epoch
	}
	close(s.change)
	s.change = make(chan struct{})
}

// choose returns the view with the highest epoch, among equals the most frequent one, and how many
// Sentinels have it. The zero view: none knows.
func choose(views []sentinelView) (best sentinelView, most int) {
	best.epoch = -1
	for _, v := range views {
		votes := 0
		for _, other := range views {
			if other.addr == v.addr && other.epoch == v.epoch {
				votes++
			}
		}
		if v.addr != "" && (v.epoch > best.epoch || v.epoch == best.epoch && votes > most) {
			best, most = v, votes
		}
	}
	return best, most
}

// current returns the master, "" if it is not known yet, and a channel that is closed when that
// may have changed.
func (s *sentinels) current() (addr string, change <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr, s.change
}

// askAll makes every Sentinel be asked now.
func (s *sentinels) askAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.nudge)
	s.nudge = make(chan struct{})
}

// master returns the master's address once it is known and differs from not, or the reason why
// there is none when ctx ends.
func (s *sentinels) master(ctx context.Context, not string) (string, error) {
	for asked := false; ; {
		addr, change := s.current()
		if addr != "" && addr != not {
			return addr, nil
		}
		if !asked {
			asked = true
			s.askAll()
		}
		select {
		case <-change:
		case <-ctx.Done():
			return "", s.unknown()
		}
	}
}

// unknown says why no master is known, in the words of the first Sentinel.
func (s *sentinels) unknown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("no Sentinel knows the master: %w",
		&ReplyError{"no Sentinel knows the master: " + Reason(s.views[0].err)})
}
