package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"lockproxy/plain"
	"lockproxy/stat"
)

// LeftUpstream calls each with the keys at the upstream that match a pattern, at least once each.
type LeftUpstream func(ctx context.Context, pattern string, each func(key []byte)) error

// infoAdopt is the sub of LOCKPROXY INFO ADOPT.
const infoAdopt = "info adopt"

// leftCounter counts the keys at the upstream that are lock keys here: locks from the time before
// the lock listener. It goes through all keys of the upstream, so only one client at a time may
// ask.
type leftCounter struct {
	*sharedOptions
	outcomes *outcomes
	counting sync.Mutex
}

// infoAdopt is LOCKPROXY INFO ADOPT
//
//	> *3\r\n$9\r\nLOCKPROXY\r\n$4\r\nINFO\r\n$5\r\nADOPT\r\n
//	< $51\r\n# Adopt\r\nadopt_keys:job:*\r\nadopt_left_upstream:3\r\n\r\n
func (l *leftCounter) infoAdopt(c *call) {
	o := l.opts.Adopt
	if o == nil || o.Left == nil {
		c.outcome = stat.OutcomeInvalid
		c.writeError("ERR LOCKPROXY INFO ADOPT needs adopt-listen")
		return
	}
	if !l.counting.TryLock() {
		c.outcome = stat.OutcomeTryAgain
		c.writeError("TRYAGAIN the keys of the upstream are being counted for another client")
		return
	}
	defer l.counting.Unlock()
	n, err := countLeft(c.session.Context(), o)
	switch {
	case c.session.Context().Err() != nil:
		l.outcomes.writeFailure(c, context.Canceled)
	case err != nil:
		c.outcome = stat.OutcomeTryAgain
		c.writeError(plain.Line("TRYAGAIN the keys of the upstream cannot be counted: " + l.opts.Reason(err)))
	default:
		c.writeBulk(fmt.Sprintf("# Adopt\r\nadopt_keys:%s\r\nadopt_left_upstream:%d\r\n", plain.Line(o.Keys.String()), n))
	}
}

// countLeft counts each key once that matches more than one pattern. A key that SCAN returns
// twice, which it may do while the table of keys changes its size, counts twice.
func countLeft(ctx context.Context, o *AdoptOptions) (n int, err error) {
	patterns := strings.Split(o.Keys.String(), ",")
	for i, pattern := range patterns {
		var earlier AdoptKeys
		if i > 0 {
			if earlier, err = ParseAdoptKeys(strings.Join(patterns[:i], ",")); err != nil {
				return 0, err
			}
		}
		err = errors.Join(err, o.Left(ctx, pattern, func(key []byte) {
			if !earlier.Match(key) {
				n++
			}
		}))
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}
