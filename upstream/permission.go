package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// verdictLasts is how long an answer is used without asking again.
	verdictLasts = time.Second
	// askTime bounds one question. After one without an answer nobody asks for as long.
	askTime = time.Second
	// askers is how many questions may be under way at a time.
	askers = 8
)

// Permission asks an upstream what its users may do, on connections of its own, with the credentials of the address. Close
// it when it is not needed any more. Safe for concurrent use.
type Permission struct {
	u      *Upstream
	client *redis.Client

	mu     sync.Mutex
	known  generations // guarded by mu
	asking map[subject]*inquiry
	silent error     // why the last question had no answer, or nil
	until  time.Time // nobody asks before, where silent is set
}

// subject is what a verdict is about.
type subject struct{ user, key string }

// verdict is an answer: empty, or the upstream's words for the refusal.
type verdict struct {
	refusal string
	fresh   time.Time // until then it is used without asking
}

// inquiry is a question under way, which all callers who want to know the same share.
type inquiry struct {
	done    chan struct{} // closed when refusal and err are set
	refusal string
	err     error
}

// NewPermission returns a Permission that asks u. It connects to nothing yet.
func NewPermission(u *Upstream) *Permission {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return u.Dial(ctx) }
	return &Permission{u: u, asking: make(map[subject]*inquiry), client: redis.NewClient(&redis.Options{
		Addr: u.opts.Addr, Dialer: dial, Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, PoolSize: askers, PipelinePoolSize: -1, ContextTimeoutEnabled: true,
		DialTimeout: u.opts.DialTimeout, ReadTimeout: askTime, WriteTimeout: askTime, PoolTimeout: askTime,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
}

// Close ends the connections.
func (p *Permission) Close() error { return p.client.Close() }

// MayWrite tells whether user may SET key, by the answer to
//
//	> *6\r\n$3\r\nacl\r\n$6\r\ndryrun\r\n$3\r\napp\r\n$3\r\nSET\r\n$8\r\nlock:job\r\n$1\r\nx\r\n
//	< +OK\r\n or $55\r\nThis user has no permissions to access the 'lock:job' key\r\n
//
// refusal is empty if so, else the upstream's words. The answer is at most a second old while the upstream can be asked; if it cannot,
// the last known one counts, whatever its age. If there is none, the error says why, and the caller must refuse. Concurrent callers
// share one question. A caller whose ctx ends gets context.Cause.
func (p *Permission) MayWrite(ctx context.Context, user, key string) (refusal string, err error) {
	about := subject{user, key}
	p.mu.Lock()
	last, known := p.known.get(about)
	now := time.Now()
	if known && now.Before(last.fresh) {
		p.mu.Unlock()
		return last.refusal, nil
	}
	q := p.asking[about]
	if q == nil {
		if p.silent != nil && now.Before(p.until) {
			err := p.silent
			p.mu.Unlock()
			return lastOr(last, known, err)
		}
		q = &inquiry{done: make(chan struct{})}
		p.asking[about] = q
		go p.settle(context.WithoutCancel(ctx), about, q) // it must not end with the one that happened to ask
	}
	p.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
		return "", fmt.Errorf("ask %s: %w", p.u.Name(), context.Cause(ctx))
	}
	if q.err != nil {
		return lastOr(last, known, q.err)
	}
	return q.refusal, nil
}

// lastOr is the last known answer, or err if there is none.
func lastOr(last verdict, known bool, err error) (string, error) {
	if known {
		return last.refusal, nil
	}
	return "", err
}

// settle asks, and notes the answer.
func (p *Permission) settle(ctx context.Context, about subject, q *inquiry) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	q.refusal, q.err = p.ask(ctx, about)
	_, answered := errors.AsType[*ReplyError](q.err)
	p.mu.Lock()
	delete(p.asking, about)
	switch {
	case q.err == nil:
		p.known.put(about, verdict{q.refusal, time.Now().Add(verdictLasts)})
		p.silent = nil
	case !answered:
		p.silent, p.until = q.err, time.Now().Add(askTime)
	}
	p.mu.Unlock()
	close(q.done)
}

// ask asks once. A *ReplyError says that there is an upstream, and that it does not answer such questions.
func (p *Permission) ask(ctx context.Context, about subject) (refusal string, err error) {
	text, err := p.client.ACLDryRun(ctx, about.user, "SET", about.key, "x").Result()
	said, isReply := errors.AsType[redis.Error](err)
	if err != nil && !isReply && ctx.Err() == nil { // an old connection may have been closed since
		text, err = p.client.ACLDryRun(ctx, about.user, "SET", about.key, "x").Result()
		said, isReply = errors.AsType[redis.Error](err)
	}
	switch {
	case err == nil && text == "OK":
		return "", nil
	case err == nil:
		return text, nil
	case isReply && strings.Contains(said.Error(), "not found"): // ERR User 'app' not found: it was deleted
		return strings.TrimPrefix(said.Error(), "ERR "), nil
	case isReply:
		return "", &ReplyError{said.Error()}
	}
	return "", fmt.Errorf("ask %s: %w", p.u.Name(), err)
}

// Check asks about nobody in particular, and returns why the upstream cannot be asked: it is down, older than Redis 7, or does not allow
// this to the credentials of the address.
func (p *Permission) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, err := p.ask(ctx, subject{"default", "lockproxy"})
	return err
}

// generationSize is how many verdicts a generation holds. With keys and names as long as they may be that is some megabytes.
const generationSize = 2048

// generations are the verdicts of late: when the young ones are many they become the old ones, and the old ones are forgotten. The zero value
// is empty.
type generations struct{ young, old map[subject]verdict }

func (g *generations) get(about subject) (verdict, bool) {
	if v, ok := g.young[about]; ok {
		return v, true
	}
	v, ok := g.old[about]
	return v, ok
}

func (g *generations) put(about subject, v verdict) {
	if g.young == nil || len(g.young) >= generationSize {
		g.young, g.old = make(map[subject]verdict), g.young
	}
	g.young[about] = v
}
