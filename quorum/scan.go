package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	defaultScan = 10
	maxScan     = 1000
	scanTime    = 2 * time.Second // for one page
)

// ErrInvalidCursor: a cursor that no Scan of these masters returned.
var ErrInvalidCursor = errors.New("invalid cursor")

// Scan returns locks that hold a majority, page by page, as Redis' SCAN does: the first page is asked for with
// cursor 0, each next one with the cursor returned, and after the last that is 0. match is a pattern as of SCAN for the key
// without Options.KeyPrefix, "" for all. count is about how many keys a page looks at: 10 if under 1, at most 1000. A page
// may be empty. Locks that are there all the time are returned, rarely more than once; the others may be.
//
// It goes through the masters that vote one by one, on connections of its own: the lanes do not wait for it. A
// master that fails is skipped. A page takes at most 2s.
//
// Errors: ErrNoQuorum (as *NoQuorumError), ErrInvalidCursor, context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) Scan(ctx context.Context, cursor uint64, match string, count int) (next uint64, locks []Info, err error) {
	if ctx.Err() != nil {
		return 0, nil, context.Cause(ctx)
	}
	q.enter()
	defer q.leave()
	if count < 1 {
		count = defaultScan
	}
	if match == "" {
		match = "*"
	}
	limited, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	p := q.newPage()
	defer p.close()
	keys, at, next, err := p.scan(limited, cursor, globEscape(q.opts.KeyPrefix)+match, int64(min(count, maxScan)))
	if err == nil && len(keys) > 0 {
		locks, err = p.inspect(limited, keys, at)
	}
	if ctx.Err() != nil {
		return 0, nil, context.Cause(ctx)
	}
	if err != nil {
		return 0, nil, err
	}
	return next, locks, nil
}

// page is one Scan under way.
type page struct {
	q       *Quorum
	clients []*redis.Client // by master; nil where errs says why
	answers []answer        // by master: only err is used
}

func (q *Quorum) newPage() *page {
	p := &page{q: q, clients: make([]*redis.Client, len(q.lanes)), answers: make([]answer, len(q.lanes))}
	for i, l := range q.lanes {
		if p.answers[i].err = l.mayServe(); p.answers[i].err == nil {
			p.clients[i], _ = l.opts.onceClient()
		}
	}
	return p
}

func (p *page) close() {
	for i := range p.clients {
		p.drop(i, nil)
	}
}

// drop leaves a master out from here on.
func (p *page) drop(master int, reason error) {
	if c := p.clients[master]; c != nil {
		_ = c.Close()
		p.clients[master], p.answers[master].err = nil, reason
	}
}

// scan looks at some keys of one master. A cursor is that of the master, times the number of masters, plus its place.
func (p *page) scan(ctx context.Context, cursor uint64, match string, count int64) (keys []string, at int, next uint64, err error) {
	n := uint64(len(p.clients))
	for at, inside := int(cursor%n), cursor/n; at < len(p.clients); at, inside = at+1, 0 {
		if p.clients[at] == nil {
			continue
		}
		found, more, err := p.clients[at].Scan(ctx, inside, match, count).Result()
		if err != nil {
			p.drop(at, clientReason(err))
			continue
		}
		switch {
		case more > (math.MaxUint64-n)/n:
			return nil, 0, 0, fmt.Errorf("%w: a master uses all 64 bits of its own", ErrInvalidCursor)
		case more != 0:
			next = more*n + uint64(at)
		case at+1 < len(p.clients):
			next = uint64(at) + 1
		}
		return p.ours(found), at, next, nil
	}
	return nil, 0, 0, p.enough()
}

// ours drops what is named twice, and what is no lock by its name.
func (p *page) ours(found []string) []string {
	seen := make(map[string]struct{}, len(found))
	keys := found[:0]
	for _, key := range found {
		if _, twice := seen[key]; twice || strings.HasPrefix(key, ReservedPrefix) || !strings.HasPrefix(key, p.q.opts.KeyPrefix) {
			continue
		}
		seen[key] = struct{}{}
		keys = append(keys, key)
	}
	return keys
}

// enough is an error unless a majority has answered so far.
func (p *page) enough() error {
	up := 0
	for _, a := range p.answers {
		if a.err == nil {
			up++
		}
	}
	if up < majority(len(p.answers)) {
		return p.q.noQuorumOf(p.answers)
	}
	return nil
}

// inspect asks all masters for keys that master at holds, and returns those that hold a majority, leaving out
// those that an earlier master holds too: they were found there.
func (p *page) inspect(ctx context.Context, keys []string, at int) ([]Info, error) {
	stand := make([][]standing, len(p.clients)) // by master and key; nil without an answer
	var wg sync.WaitGroup
	for i, c := range p.clients {
		if c == nil {
			continue
		}
		wg.Go(func() { stand[i], p.answers[i].err = p.q.standings(ctx, c, keys) })
	}
	wg.Wait()
	if err := p.enough(); err != nil {
		return nil, err
	}
	var locks []Info
	for k, key := range keys {
		values := make([]standing, len(stand))
		for i := range stand {
			if stand[i] != nil {
				values[i] = stand[i][k]
			}
		}
		info, _ := winner(values)
		if info.Held == 0 || foundBefore(values, at) {
			continue
		}
		info.Key = strings.TrimPrefix(key, p.q.opts.KeyPrefix)
		locks = append(locks, info)
	}
	return locks, nil
}

// foundBefore reports whether a master before at holds what at holds.
func foundBefore(values []standing, at int) bool {
	for _, v := range values[:at] {
		if v.id != "" && v.id == values[at].id {
			return true
		}
	}
	return false
}

// standings asks one master for all keys at once.
func (q *Quorum) standings(ctx context.Context, c *redis.Client, keys []string) ([]standing, error) {
	pipe := c.Pipeline()
	for _, key := range keys {
		pipe.Eval(ctx, infoLua, []string{key, q.enc.stateKey}, "")
	}
	got, err := pipe.Exec(ctx)
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, clientReason(err)
	}
	values := make([]standing, len(keys))
	for i, cmd := range got {
		text, err := cmd.(*redis.Cmd).Text()
		a := answer{kind: '$', text: text, null: errors.Is(err, redis.Nil)}
		if text == "OTHER" {
			a.kind = '+'
		}
		if values[i], err = parseStanding(a); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// globEscape makes a prefix stand for itself in a pattern.
func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
