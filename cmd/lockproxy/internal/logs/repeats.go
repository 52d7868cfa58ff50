package logs

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A line that comes again and again says nothing new and hides others: of each message, for each master, so many are written in so long. The
// next one that is written tells how many were not.
const (
	logBurst  = 10
	logWindow = 10 * time.Second
	logKinds  = 1024 // how many messages are told apart at a time
)

// limitCore drops lines of level info to error that repeat too often. Debug is asked for by somebody who wants all.
type limitCore struct {
	zapcore.Core
	seen *repeats
}

// newLimitCore limits what reaches core.
func newLimitCore(core zapcore.Core) zapcore.Core {
	return &limitCore{core, &repeats{kinds: map[lineKind]*repeat{}}}
}

// With implements zapcore.Core.
func (c *limitCore) With(fields []zap.Field) zapcore.Core {
	return &limitCore{c.Core.With(fields), c.seen}
}

// Check implements zapcore.Core.
func (c *limitCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c *limitCore) Write(entry zapcore.Entry, fields []zap.Field) error {
	if entry.Level < zapcore.InfoLevel || entry.Level > zapcore.ErrorLevel {
		return c.Core.Write(entry, fields)
	}
	kind := lineKind{message: entry.Message}
	for _, f := range fields {
		if f.Key == "master" && f.Type == zapcore.StringType {
			kind.master = f.String
		}
	}
	dropped, ok := c.seen.take(kind, entry.Time)
	if !ok {
		return nil
	}
	if dropped > 0 {
		fields = append(fields[:len(fields):len(fields)], zap.Int("not_shown", dropped))
	}
	return c.Core.Write(entry, fields)
}

// kindOfLine is what makes two lines the same.
type lineKind struct{ message, master string }

type repeat struct {
	since   time.Time
	written int
	dropped int
}

// repeats counts lines. Safe for concurrent use.
type repeats struct {
	mu    sync.Mutex
	kinds map[lineKind]*repeat
}

// take tells whether a line may be written, and how many of its kind were dropped since the last that was.
func (r *repeats) take(kind lineKind, now time.Time) (dropped int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kinds[kind]
	if k == nil {
		if len(r.kinds) >= logKinds {
			clear(r.kinds)
		}
		k = &repeat{since: now}
		r.kinds[kind] = k
	}
	if now.Sub(k.since) >= logWindow {
		k.since, k.written = now, 0
	}
	if k.written >= logBurst {
		k.dropped++
		return 0, false
	}
	k.written++
	dropped, k.dropped = k.dropped, 0
	return dropped, true
}
