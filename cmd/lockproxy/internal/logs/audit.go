package logs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"lockproxy/stat"
)

// auditLog notes who locked and unlocked what, and what operators did. It never holds a token. Nil: nothing is noted.
type Audit struct {
	log  *zap.Logger
	file *auditFile // nil: it goes among the other lines
}

// newAudit opens what the setting audit-log says; lines is where "log" goes. That a file takes no lines is told to log.
func newAudit(setting string, lines zapcore.Core, log *zap.Logger) (*Audit, error) {
	switch setting {
	case "off":
		return nil, nil
	case "log":
		return &Audit{log: zap.New(lines)}, nil
	}
	file := &auditFile{path: setting}
	if err := file.reopen(); err != nil {
		return nil, fmt.Errorf("audit-log: %w", err)
	}
	encoder := newEncoder(false)
	queue := &lineQueue{to: file, lines: encoder.Clone(), refused: func(err error) { log.Error("audit-log cannot be written, lines are lost", zap.Error(err)) }}
	return &Audit{zap.New(zapcore.NewCore(encoder, queue, zapcore.InfoLevel)), file}, nil
}

// done notes a command, if it is one of those.
func (a *Audit) Record(d stat.Event) {
	command := d.Command
	switch {
	case command == "lockproxy" && (d.Sub == "release" || d.Sub == "admit"):
		command = d.Sub
	case command != "lock" && command != "unlock" && command != "session":
		return
	}
	fields := []zap.Field{zap.String("command", command), zap.String("key", d.Key), zap.String("outcome", string(d.Outcome)), zap.Stringer("client", d.Client)}
	add := func(there bool, f zap.Field) {
		if there {
			fields = append(fields, f)
		}
	}
	add(!utf8.ValidString(d.Key), zap.String("key_hex", hex.EncodeToString([]byte(d.Key)))) // JSON shows all such bytes alike
	add(d.User != "", zap.String("user", d.User))
	add(d.Owner != "", zap.String("owner", d.Owner))
	add(d.Fence != 0, zap.Uint64("fence", d.Fence))
	add(d.TTL != 0, zap.Duration("ttl", d.TTL))
	add(d.Session, zap.Bool("session", true))
	add(d.Held != 0, zap.Duration("held", d.Held.Round(time.Millisecond)))
	a.log.Info("audit", fields...)
}

// reopen goes on in a new file where the old one was moved away.
func (a *Audit) Reopen() error {
	if a == nil || a.file == nil {
		return nil
	}
	return a.file.reopen()
}

// close ends it, once its lines are written.
func (a *Audit) close() {
	if a == nil || a.file == nil {
		return
	}
	if err := a.log.Sync(); !errors.Is(err, errLinesWait) { // else the file is in use, and the end of the process closes it
		a.file.close()
	}
}

// auditFile is a file that lines are added to, each with one write.
type auditFile struct {
	path string

	mu      sync.Mutex
	file    *os.File
	writing *os.File // what a Write is in; it closes that itself
}

var _ zapcore.WriteSyncer = (*auditFile)(nil)

func (f *auditFile) reopen() error {
	flags := os.O_APPEND | os.O_CREATE | os.O_WRONLY
	if f.used() {
		flags |= syscall.O_NONBLOCK // a pipe that nobody reads any more is an error; the start waits for its reader
	}
	file, err := os.OpenFile(f.path, flags, 0o600)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil && f.file != f.writing {
		f.file.Close()
	}
	f.file = file
	return nil
}

func (f *auditFile) used() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file != nil
}

// Write implements io.Writer, for one goroutine at a time. It may take long; reopen does not wait for it.
func (f *auditFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	file := f.file
	f.writing = file
	f.mu.Unlock()
	n, err := file.Write(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writing = nil; file != f.file { // reopened since
		file.Close()
	}
	return n, err
}

// Sync implements zapcore.WriteSyncer.
func (f *auditFile) Sync() error {
	f.mu.Lock()
	file := f.file
	f.mu.Unlock()
	return file.Sync()
}

func (f *auditFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file.Close()
}
