package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// verdictLasts is how long an answer is used without asking again.
	verdictLasts = time.Second
	// askTime bounds connecting, and the wait for the next answer. After a packet without any
	// answer, no question is sent for as long.
	askTime = time.Second
	// callerTime bounds the wait of a caller: one question without answer, and its own.
	callerTime = 2 * askTime
	// packet is how many questions go out together. They cost one round trip, and Redis less than
	// a millisecond.
	packet = 256
	// maxWaiting is how many questions of one user may wait.
	maxWaiting = 4096
	// listTime bounds Writable.
	listTime = 2 * askTime
)

var errTooMany = errors.New("too many questions of this user at a time")

// Permission asks an upstream what its users may do, on a connection of its own, with the
// credentials of the address. Questions go out in packets, in which users take turns: one that
// asks much does not delay others. The caller closes it. Safe for concurrent use.
type Permission struct {
	u      *Upstream
	wake   chan struct{} // holds a value when questions wait for run
	cancel func()        // ends run and Follow
	wg     sync.WaitGroup

	moved   atomic.Bool   // the connection is to the former master
	listing chan struct{} // holds a value while a Writable asks

	mu      sync.Mutex
	known   generations // guarded by mu
	asking  map[subject]*inquiry
	waiting turns
	silent  error     // why the last packet had no answer, or nil
	until   time.Time // no question is sent until then, if silent is set
}

// subject identifies a verdict: whether user may SET key or, with config, CONFIG SET.
type subject struct {
	user, key string
	config    bool // key is empty
}

// command returns the command that the upstream is asked about.
func (s *subject) command() []string {
	if s.config {
		return []string{"CONFIG", "SET", "maxmemory", "0"}
	}
	return []string{"SET", s.key, "x"}
}

// ruling is an answer: empty, or the upstream's text of the refusal.
type ruling struct {
	refusal string
	fresh   time.Time // it is used without asking until then
}

// inquiry is a running question, which all its callers share.
type inquiry struct {
	about   subject
	keep    bool          // the answer is remembered; guarded by Permission.mu
	done    chan struct{} // closed when refusal and err are set
	refusal string
	err     error
}

// NewPermission returns a Permission that asks u. It does not connect yet, but follows the
// Sentinels of u. No other goroutine may follow them on u.
func NewPermission(u *Upstream) *Permission {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Permission{u: u, wake: make(chan struct{}, 1), cancel: cancel, listing: make(chan struct{}, 1),
		asking: make(map[subject]*inquiry)}
	p.wg.Go(func() { u.Follow(ctx, func(context.Context) { p.moved.Store(true) }) })
	p.wg.Go(func() { p.run(ctx) })
	return p
}

// Close ends the connection. Waiting questions fail.
func (p *Permission) Close() error {
	p.cancel()
	p.wg.Wait()
	return nil
}

// MayWrite reports whether user may SET key, by the answer to
//
//	> *6\r\n$3\r\nacl\r\n$6\r\ndryrun\r\n$3\r\napp\r\n$3\r\nSET\r\n$8\r\nlock:job\r\n$1\r\nx\r\n
//	< +OK\r\n or $55\r\nThis user has no permissions to access the 'lock:job' key\r\n
//
// refusal is empty if so, else the upstream's text. The answer is at most a second old while the
// upstream can be asked. If it cannot, or does not answer within two seconds, the last known
// answer counts, however old it is. If there is none, the error says why, and the caller must
// refuse. Concurrent callers share one question. If ctx ends first, the error is context.Cause.
func (p *Permission) MayWrite(ctx context.Context, user, key string) (refusal string, err error) {
	return p.may(ctx, subject{user: user, key: key})
}

// MayConfigure reports whether user may CONFIG SET, a right of administrators. It follows the
// rules of MayWrite and asks
//
//	> *7\r\n$3\r\nacl\r\n$6\r\ndryrun\r\n$3\r\napp\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n
//	< +OK\r\n or $60\r\nThis user has no permissions to run the 'config|set' command\r\n
func (p *Permission) MayConfigure(ctx context.Context, user string) (refusal string, err error) {
	return p.may(ctx, subject{user: user, config: true})
}

// Writable returns the keys that user may SET, in order. It takes at most two seconds. If the
// answer about any key is missing, it returns an error.
//
// It asks about a packet of keys at a time, one call after the other, so lists of any length delay
// no other question by more than that. It does not remember new answers: they would displace the
// ones on which MayWrite relies while the upstream is away.
func (p *Permission) Writable(ctx context.Context, user string, keys []string) (may []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTime, os.ErrDeadlineExceeded)
	defer cancel()
	select {
	case p.listing <- struct{}{}:
		defer func() { <-p.listing }()
	case <-ctx.Done():
		return nil, fmt.Errorf("ask %s: %w", p.u.Name(), context.Cause(ctx))
	}
	for some := range slices.Chunk(keys, packet) {
		begun := make([]lookup, len(some))
		p.mu.Lock()
		for i, key := range some {
			begun[i] = p.lookupLocked(subject{user: user, key: key}, false)
		}
		p.mu.Unlock()
		for i, l := range begun {
			switch refusal, err := p.result(ctx, l); {
			case err != nil:
				return nil, err
			case refusal == "":
				may = append(may, some[i])
			}
		}
	}
	return may, nil
}

func (p *Permission) may(ctx context.Context, about subject) (refusal string, err error) {
	p.mu.Lock()
	l := p.lookupLocked(about, true)
	p.mu.Unlock()
	return p.result(ctx, l)
}

// lookup is the last known verdict, and the inquiry for the next one.
type lookup struct {
	last  ruling
	known bool
	q     *inquiry // nil if last is fresh, or err is set
	err   error    // why there is no inquiry
}

// lookupLocked returns the last known verdict, and asks again unless it is fresh. With keep, the
// answer will be remembered.
func (p *Permission) lookupLocked(about subject, keep bool) (l lookup) {
	l.last, l.known = p.known.get(about)
	if !l.known || !time.Now().Before(l.last.fresh) {
		l.q, l.err = p.questionLocked(about, keep)
	}
	return l
}

// result waits for the answer to l, at most callerTime.
func (p *Permission) result(ctx context.Context, l lookup) (refusal string, err error) {
	if l.q == nil {
		if l.err != nil {
			return lastOr(l.last, l.known, l.err)
		}
		return l.last.refusal, nil
	}
	timer := time.NewTimer(callerTime)
	defer timer.Stop()
	select {
	case <-l.q.done:
	case <-timer.C:
		return lastOr(l.last, l.known, fmt.Errorf("ask %s: %w", p.u.Name(), os.ErrDeadlineExceeded))
	case <-ctx.Done():
		return "", fmt.Errorf("ask %s: %w", p.u.Name(), context.Cause(ctx))
	}
	if l.q.err != nil {
		return lastOr(l.last, l.known, l.q.err)
	}
	return l.q.refusal, nil
}

// Known returns what MayWrite returns while its answer is fresh. It never asks and never waits.
func (p *Permission) Known(user, key string) (refusal string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.known.get(subject{user: user, key: key})
	if !known || !time.Now().Before(last.fresh) {
		return "", false
	}
	return last.refusal, true
}

// questionLocked returns the running question about that, or a new one.
func (p *Permission) questionLocked(about subject, keep bool) (*inquiry, error) {
	if q := p.asking[about]; q != nil {
		q.keep = q.keep || keep
		return q, nil
	}
	if p.silent != nil && time.Now().Before(p.until) {
		return nil, p.silent
	}
	q := &inquiry{about: about, keep: keep, done: make(chan struct{})}
	if !p.waiting.add(q) {
		return nil, errTooMany
	}
	p.asking[about] = q
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return q, nil
}

// lastOr returns the last known answer, or err if there is none.
func lastOr(last ruling, known bool, err error) (string, error) {
	if known {
		return last.refusal, nil
	}
	return "", err
}

// run sends the waiting questions, packet by packet, until ctx ends.
func (p *Permission) run(ctx context.Context) {
	var l *aclLink
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			l.close()
			p.allFailed(context.Cause(ctx))
			return
		}
		for questions := p.next(); len(questions) > 0; questions = p.next() {
			if p.moved.Swap(false) {
				l.close()
				l = nil
			}
			l = p.ask(ctx, l, questions)
		}
	}
}

func (p *Permission) next() []*inquiry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting.take(packet)
}

// ask sends questions on l, or on a new connection if there is none or it was closed. It returns
// the connection for the next ones, or nil.
func (p *Permission) ask(ctx context.Context, l *aclLink, questions []*inquiry) *aclLink {
	old := l != nil
	if !old {
		var err error
		if l, err = p.u.dialACL(ctx); err != nil {
			p.failed(questions, err)
			p.allFailed(err)
			return nil
		}
	}
	n, err := l.ask(ctx, questions, func(q *inquiry) { p.settled(q) })
	switch {
	case err == nil:
		return l
	case n > 0:
		p.failed(questions[n:n+1], err) // only this one; later questions may be answered
		p.again(questions[n+1:])
	case old && !errors.Is(err, os.ErrDeadlineExceeded):
		l.close()
		return p.ask(ctx, nil, questions)
	default:
		p.failed(questions, err)
		p.allFailed(err)
	}
	l.close()
	return nil
}

// settled notes the answer to q.
func (p *Permission) settled(q *inquiry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.known.get(q.about); q.err == nil && (q.keep || known) {
		p.known.put(q.about, ruling{q.refusal, time.Now().Add(verdictLasts)})
	}
	p.silent = nil
	delete(p.asking, q.about)
	close(q.done)
}

// failed ends questions without an answer.
func (p *Permission) failed(questions []*inquiry, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failedLocked(questions, err)
}

func (p *Permission) failedLocked(questions []*inquiry, err error) {
	for _, q := range questions {
		q.err = fmt.Errorf("ask %s: %w", p.u.Name(), err)
		delete(p.asking, q.about)
		close(q.done)
	}
}

// allFailed ends all waiting questions when the upstream does not answer.
func (p *Permission) allFailed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent, p.until = fmt.Errorf("ask %s: %w", p.u.Name(), err), time.Now().Add(askTime)
	p.failedLocked(p.waiting.take(p.waiting.n), err)
}

// again puts questions back.
func (p *Permission) again(questions []*inquiry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, q := range questions {
		if !p.waiting.add(q) {
			p.failedLocked(questions[i:i+1], errTooMany)
		}
	}
}

// Check asks about the user "default" and an invented key. It returns why the upstream cannot be
// asked: it is down, older than Redis 7, or refuses ACL DRYRUN to the credentials of the address.
func (p *Permission) Check(ctx context.Context) error {
	l, err := p.u.dialACL(ctx)
	if err != nil {
		return fmt.Errorf("ask %s: %w", p.u.Name(), err)
	}
	defer l.close()
	q := &inquiry{about: subject{user: "default", key: "lockproxy"}}
	_, err = l.ask(ctx, []*inquiry{q}, func(*inquiry) {})
	return errors.Join(err, q.err)
}

// turns are the waiting questions, by user. The zero value is empty.
type turns struct {
	n     int
	of    map[string][]*inquiry // by user, in order; none is empty
	order []string              // the users, next first
}

// add appends q to the questions of its user, unless too many wait.
func (t *turns) add(q *inquiry) bool {
	user := q.about.user
	if t.of == nil {
		t.of = make(map[string][]*inquiry)
	}
	before := len(t.of[user])
	if before >= maxWaiting {
		return false
	}
	if before == 0 {
		t.order = append(t.order, user)
	}
	t.of[user] = append(t.of[user], q)
	t.n++
	return true
}

// take takes at most n questions, one of each user in turn.
func (t *turns) take(n int) []*inquiry {
	taken := make([]*inquiry, 0, min(n, t.n))
	for len(taken) < cap(taken) {
		user := t.order[0]
		t.order = t.order[1:]
		left := t.of[user]
		taken = append(taken, left[0])
		if left = left[1:]; len(left) == 0 {
			delete(t.of, user)
			continue
		}
		t.of[user] = left
		t.order = append(t.order, user)
	}
	t.n -= len(taken)
	return taken
}

// generationSize is how many verdicts a generation holds: some megabytes with keys and names of
// the greatest length.
const generationSize = 2048

// generations are the recent verdicts. When the young generation is full, it becomes the old one,
// and the old one is dropped. The zero value is empty.
type generations struct{ young, old map[subject]ruling }

func (g *generations) get(about subject) (ruling, bool) {
	if v, ok := g.young[about]; ok {
		return v, true
	}
	v, ok := g.old[about]
	return v, ok
}

func (g *generations) put(about subject, v ruling) {
	if g.young == nil || len(g.young) >= generationSize {
		g.young, g.old = make(map[subject]ruling), g.young
	}
	g.young[about] = v
}
