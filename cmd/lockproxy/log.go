package main

import (
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"lockproxy/conf"
)

// logs are the log, its level, which can be changed while lockproxy runs, and the audit log.
type logs struct {
	*zap.Logger
	lines io.Writer // for words that are no entries
	level zap.AtomicLevel
	audit *auditLog // nil: off
}

// newLogs logs to w as the settings say. close ends it.
func newLogs(w io.Writer, cfg conf.Config) (*logs, error) {
	from, err := zap.ParseAtomicLevel(cfg.LogLevel)
	if err != nil {
		return nil, err
	}
	encoder := newEncoder(cfg.LogFormat == "console" || cfg.LogFormat == "auto" && isTerminal(w))
	sink := &lineQueue{to: zapcore.AddSync(w), lines: encoder.Clone()}
	l := &logs{lines: sink, level: from, Logger: zap.New(newLimitCore(zapcore.NewCore(encoder, sink, from)), zap.AddStacktrace(zapcore.PanicLevel))}
	l.audit, err = newAuditLog(cfg.AuditLog, zapcore.NewCore(encoder.Clone(), sink, zapcore.InfoLevel), l.Logger)
	return l, err
}

// close writes what is left, as far as that is taken.
func (l *logs) close() {
	l.audit.close()
	_ = l.Sync()
}

// newEncoder writes lines for people at a terminal, or JSON.
func newEncoder(console bool) zapcore.Encoder {
	form := zap.NewProductionEncoderConfig()
	form.EncodeTime = zapcore.ISO8601TimeEncoder
	form.EncodeDuration = zapcore.StringDurationEncoder
	if console {
		return plainEncoder{zapcore.NewConsoleEncoder(form)}
	}
	return plainEncoder{zapcore.NewJSONEncoder(form)}
}

// isTerminal takes a character device for a terminal. /dev/null is one, too, which does no harm.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
