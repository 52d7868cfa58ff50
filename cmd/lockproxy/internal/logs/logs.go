package logs

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"lockproxy/plain"
)

// Options configure [Logs].
type Options struct {
	Level  string // debug, info, warn or error
	Format string // console, json, or auto: console on a terminal
	Audit  string // the audit log: off, log for the other lines, or the name of a file
}

// Logs are the log, with a level that can change while lockproxy runs, and the audit log.
type Logs struct {
	*zap.Logger
	Lines io.Writer // for text that is no entry
	Audit *Audit    // nil: off
	level zap.AtomicLevel
}

// New logs to w. The caller closes the result.
func New(w io.Writer, o Options) (*Logs, error) {
	level, err := zap.ParseAtomicLevel(o.Level)
	if err != nil {
		return nil, err
	}
	encoder := newEncoder(o.Format == "console" || o.Format == "auto" && plain.IsTerminal(w))
	sink := &lineQueue{to: zapcore.AddSync(w), lines: encoder.Clone()}
	core := newLimitCore(zapcore.NewCore(encoder, sink, level))
	l := &Logs{Lines: sink, level: level, Logger: zap.New(core, zap.AddStacktrace(zapcore.PanicLevel))}
	l.Audit, err = newAudit(o.Audit, zapcore.NewCore(encoder.Clone(), sink, zapcore.InfoLevel), l.Logger)
	return l, err
}

// Close writes the lines that wait, for a second at most.
func (l *Logs) Close() {
	l.Audit.close()
	_ = l.Sync()
}

// SetLevel sets the level by its name. It ignores a name that is none.
func (l *Logs) SetLevel(name string) {
	if level, err := zapcore.ParseLevel(name); err == nil {
		l.level.SetLevel(level)
	}
}

// newEncoder writes lines for a terminal, or JSON.
func newEncoder(console bool) zapcore.Encoder {
	form := zap.NewProductionEncoderConfig()
	form.EncodeTime = zapcore.ISO8601TimeEncoder
	form.EncodeDuration = zapcore.StringDurationEncoder
	if console {
		return plainEncoder{zapcore.NewConsoleEncoder(form)}
	}
	return plainEncoder{zapcore.NewJSONEncoder(form)}
}
