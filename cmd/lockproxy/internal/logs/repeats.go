package logs

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Of each message, for each master, at most logBurst lines are written in logWindow. The next line
// says how many were not.
const (
	logBurst  = 10
	logWindow = 10 * time.Second
	logKinds  = 1024 // how many different messages it keeps apart at a time
)

// limitCore drops lines of level info to error that repeat too often. It keeps all debug lines.
type limitCore struct {
	zapcore.Core
	seen *repeats
}

// newLimitCore limits the lines that reach core.
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

// lineKind is what two lines that repeat have in common.
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

// take reports whether a line may be written, and how many of its kind were dropped since the last
// one.
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
