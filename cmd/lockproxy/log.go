package main

import (
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger logs to w from level on. format is "console", "json" or "auto": console if w is a terminal.
func newLogger(w io.Writer, level, format string) (*zap.Logger, error) {
	from, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, err
	}
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = zapcore.ISO8601TimeEncoder
	config.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(config)
	if format == "console" || format == "auto" && isTerminal(w) {
		encoder = zapcore.NewConsoleEncoder(config)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), from)
	return zap.New(core, zap.AddStacktrace(zapcore.PanicLevel)), nil
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
