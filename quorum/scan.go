package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lockproxy/goredis"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/notify"
)

const (
	defaultScan = 10
	maxScan     = 1000
	scanTime    = 2 * time.Second // for one page
)

// MaxScans is how many calls of Scan run at a time. Each may have a connection to every master.
const MaxScans = 4

// ErrInvalidCursor: the cursor of a master leaves no room for the bits of the masters.
var ErrInvalidCursor = errors.New("invalid cursor")

// Scan returns locks that hold a majority, page by page, like Redis' SCAN: call it with cursor 0,
// then with the cursor returned, until that is 0. match is a pattern as of SCAN for the key
// without Options.KeyPrefix, "" for all. count is about how many keys a page looks at: 10 if
// under 1, at most 1000. A page may be empty. Locks that exist all the time are returned, rarely
// more than once; the others may be. So may one that a master gets only after its turn.
//
// It goes through the masters that vote one by one, on connections of its own, so the lanes do not
// wait for it. A master that fails is skipped. A page takes at most 2s. Of concurrent calls,
// MaxScans run at a time, and the others wait.
//
// Errors: ErrNoQuorum (as *NoQuorumError), ErrInvalidCursor, context.Cause(ctx). Safe for
// concurrent use.
func (q *Quorum) Scan(ctx context.Context, cursor uint64, match string, count int) (
	next uint64, locks []Info, err error,
) {
	found, err := q.ScanSeen(ctx, cursor, match, count)
	if err == nil && found.Fault != nil {
		err = found.Fault
	}
	if err != nil {
		return 0, nil, err
	}
	return found.Next, found.Locks, nil
}

// Page is the result of ScanSeen.
type Page struct {
	Next  uint64
	Locks []Info
	Seen  int // masters that answered
	// Fault is nil if Locks are the locks that hold a majority. Otherwise less than a majority
	// answered, and Locks are what most of these masters have: Held counts them.
	Fault *NoQuorumError
}

// ScanSeen is Scan, but without a quorum it returns the locks that a minority has. Its errors are
// ErrInvalidCursor and context.Cause(ctx).
func (q *Quorum) ScanSeen(ctx context.Context, cursor uint64, match string, count int) (found Page, err error) {
	if ctx.Err() != nil {
		return found, context.Cause(ctx)
	}
	q.calls.enter()
	defer q.calls.leave()
	select {
	case q.scans <- struct{}{}:
		defer func() { <-q.scans }()
	case <-ctx.Done():
		return found, context.Cause(ctx)
	}
	if count < 1 {
		count = defaultScan
	}
	if match == "" {
		match = "*"
	}
	limited, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	p := newPage(q.fleet)
	defer p.close()
	keys, at, next, err := p.scan(limited, cursor, globEscape(q.opts.KeyPrefix)+match, int64(min(count, maxScan)))
	if err == nil && len(keys) > 0 {
		found.Locks = p.inspect(limited, keys, at)
	}
	if ctx.Err() != nil {
		return Page{}, context.Cause(ctx)
	}
	if err != nil {
		return Page{}, err
	}
	found.Next = next
	found.Seen, found.Fault = p.enough() // masters that do not answer may hold locks
	return found, nil
}

// page is one Scan under way.
type page struct {
	fleet   *fleet
	clients []*notify.Client // by master; nil before the first request
	answers []answer         // by master: answerYes until it fails
	skipped uint64           // the masters whose keys this scan has not gone through to the end
}

func newPage(f *fleet) *page {
	p := &page{fleet: f, clients: make([]*notify.Client, len(f.lanes)), answers: make([]answer, len(f.lanes))}
	for i, l := range f.lanes {
		p.answers[i].state = answerYes
		if err := l.MayServe(); err != nil {
			p.answers[i] = answer{state: answerUnsent, err: err}
		}
	}
	return p
}

func (p *page) close() {
	for _, c := range p.clients {
		if c != nil {
			_ = c.Close()
		}
	}
}

// ask calls do with the connection to a master, which it dials first, and reports whether that
// went well. If not, do returns the reason, and the master is left out from here on. It may be
// called for different masters at the same time.
func (p *page) ask(ctx context.Context, at int, do func(c *notify.Client) error) bool {
	if p.answers[at].state != answerYes {
		return false
	}
	var err error
	if p.clients[at] == nil {
		p.clients[at], err = notify.Dial(ctx, p.fleet.lanes[at].Options())
	}
	if err == nil {
		err = goredis.Call(func() error { return do(p.clients[at]) })
	}
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil:
		err = master.SilentError(scanTime)
	}
	p.answers[at] = answer{state: answerFailed, err: err}
	return false
}

// scan looks at some keys of one master. A master that accepts the connection but does not answer
// gets half of the time that is left, so that other masters can still be asked. A cursor is the
// cursor of the master, followed by a bit for each master that was skipped, times the number of
// masters, plus the place of the master.
func (p *page) scan(ctx context.Context, cursor uint64, match string, count int64) (
	keys []string, at int, next uint64, err error,
) {
	n := uint64(len(p.clients))
	p.skipped = cursor / n & (1<<n - 1)
	for at, inside := int(cursor%n), cursor/n>>n; at < len(p.clients); at, inside = at+1, 0 {
		var found []string
		var more uint64
		ok := p.ask(ctx, at, func(c *notify.Client) error {
			deadline, _ := ctx.Deadline()
			half := time.Until(deadline) / 2
			limited, cancel := context.WithTimeout(ctx, half)
			defer cancel()
			found, more, err = c.Scan(limited, inside, match, count).Result()
			switch {
			case err == nil:
				return nil
			case limited.Err() != nil:
				return master.SilentError(half.Round(time.Millisecond))
			}
			return notify.Reason(err)
		})
		switch {
		case !ok:
			p.skipped |= 1 << at
			continue
		case more >= math.MaxUint64>>n/n:
			return nil, 0, 0, fmt.Errorf("%w: a master uses all 64 bits of its own", ErrInvalidCursor)
		case more != 0:
			next = (more<<n|p.skipped)*n + uint64(at)
		case at+1 < len(p.clients):
			next = p.skipped*n + uint64(at) + 1
		}
		return p.ours(found), at, next, nil
	}
	return nil, 0, 0, nil
}

// ours drops keys that are named twice, and keys that are no lock by their name.
func (p *page) ours(found []string) []string {
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(key string) bool {
		return strings.HasPrefix(key, ReservedPrefix) || !strings.HasPrefix(key, p.fleet.opts.KeyPrefix)
	})
}

// enough returns how many masters have answered so far, and a fault unless they are a majority.
func (p *page) enough() (up int, fault *NoQuorumError) {
	for _, a := range p.answers {
		if a.state == answerYes {
			up++
		}
	}
	if up < majority(len(p.answers)) {
		return up, p.fleet.noQuorum(p.answers, scanTime)
	}
	return up, nil
}

// globEscape escapes a prefix for a pattern.
func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
