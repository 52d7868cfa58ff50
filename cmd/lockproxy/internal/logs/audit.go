package logs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"lockproxy/plain"
	"lockproxy/stat"
)

// Audit logs who locked and unlocked what, and what operators did. It counts refusals of clients
// that have not logged in, and writes a line for them once a second. It never contains a token.
// Nil logs no line.
type Audit struct {
	log     *zap.Logger
	file    *auditFile // nil: lines go to the log
	noLogin *loginRefusals
}

// auditTo returns an Audit without a file of its own.
func auditTo(lines zapcore.Core) *Audit {
	log := zap.New(lines)
	return &Audit{log: log, noLogin: newRefusals(func(last *stat.Event, count, addresses int) {
		log.Info("audit", append(auditFields(last), zap.Int("refusals", count), zap.Int("addresses", addresses))...)
	})}
}

// newAudit opens the destination of the setting audit-log. lines is the destination of "log". If a
// file takes no lines, log says so.
func newAudit(setting string, lines zapcore.Core, log *zap.Logger) (*Audit, error) {
	switch setting {
	case "off":
		return nil, nil
	case "log":
		return auditTo(lines), nil
	}
	file := &auditFile{path: setting}
	if err := file.reopen(); err != nil {
		return nil, fmt.Errorf("audit-log: %w", err)
	}
	encoder := newEncoder(false)
	queue := &lineQueue{to: file, lines: encoder.Clone(),
		refused: func(err error) { log.Error("audit-log cannot be written, lines are lost", zap.Error(err)) }}
	audit := auditTo(zapcore.NewCore(encoder, queue, zapcore.InfoLevel))
	audit.file = file
	return audit, nil
}

// CheckAudit returns why the file of the setting audit-log could not be opened. It does not open a
// pipe, whose reader would take that for the end, and does not create the file: another user may
// check the settings than the one who runs lockproxy.
func CheckAudit(setting string) error {
	if setting == "off" || setting == "log" {
		return nil
	}
	info, err := os.Stat(setting)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = takesFiles(filepath.Dir(setting))
	case err == nil && (info.Mode().IsRegular() || info.IsDir()):
		err = closed(os.OpenFile(setting, os.O_APPEND|os.O_WRONLY, 0))
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err // its path may be that of another file
	}
	if err != nil {
		return fmt.Errorf("audit-log %s: %w", setting, err)
	}
	return nil
}

// takesFiles returns an error if no file can be created in dir.
func takesFiles(dir string) error {
	file, err := os.CreateTemp(dir, ".lockproxy-check-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	return file.Close()
}

// closed closes a file that could be opened.
func closed(file *os.File, err error) error {
	if err != nil {
		return err
	}
	return file.Close()
}

// Record logs or counts an event, if the audit log is about its command.
func (a *Audit) Record(d stat.Event) {
	switch {
	case auditCommand(&d) == "":
	case d.NoLogin:
		a.noLogin.add(&d)
	default:
		a.log.Info("audit", auditFields(&d)...)
	}
}

// auditCommand returns the name of the event's command in the audit log, or "" if that is not
// about it.
func auditCommand(d *stat.Event) string {
	switch d.Command {
	case "lockproxy":
		if d.Sub == "release" || d.Sub == "admit" {
			return d.Sub
		}
	case "lock", "unlock", "session":
		if d.Sub == "" {
			return d.Command
		}
	case "extend":
		if d.Via == stat.ViaAdopt {
			return d.Command
		}
	}
	return ""
}

func auditFields(d *stat.Event) []zap.Field {
	fields := []zap.Field{zap.String("command", auditCommand(d)), zap.String("key", d.Key),
		zap.String("outcome", string(d.Outcome)), zap.Stringer("client", d.Client)}
	add := func(there bool, f zap.Field) {
		if there {
			fields = append(fields, f)
		}
	}
	// JSON shows all such bytes alike
	add(!utf8.ValidString(d.Key), zap.String("key_hex", hex.EncodeToString([]byte(d.Key))))
	add(len(d.Keys) > 0, zap.Int("keys", len(d.Keys)+1))
	add(len(d.Keys) > 0, zap.Strings("further_keys", escaped(d.Keys)))
	add(d.Kind != "" && d.Kind != stat.KindExclusive, zap.String("kind", string(d.Kind)))
	add(d.Via != "", zap.String("via", d.Via))
	add(d.User != "", zap.String("user", d.User))
	add(d.Owner != "", zap.String("owner", d.Owner))
	add(d.Fence != 0, zap.Uint64("fence", d.Fence))
	add(d.TTL != 0, zap.Duration("ttl", d.TTL))
	add(d.Keep != 0, zap.Duration("keep", d.Keep))
	add(d.Session, zap.Bool("session", true))
	add(d.Held != 0, zap.Duration("held", d.Held.Round(time.Millisecond)))
	return fields
}

// escaped returns a printable text for each key; different keys have different texts.
func escaped(keys []string) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = plain.Escape(key)
	}
	return all
}

// Reopen opens the file again, and so creates it if it was moved away.
func (a *Audit) Reopen() error {
	if a == nil || a.file == nil {
		return nil
	}
	a.noLogin.flush()
	return a.file.reopen()
}

// close writes the lines that wait and closes the file.
func (a *Audit) close() {
	if a == nil {
		return
	}
	if a.noLogin.flush(); a.file == nil {
		return
	}
	if err := a.log.Sync(); !errors.Is(err, errLinesWait) { // otherwise the file is in use
		a.file.close()
	}
}

// auditFile is a file to which each write appends.
type auditFile struct {
	path string

	mu      sync.Mutex
	file    *os.File
	writing *os.File // the file of a running Write, which closes it
}

var _ zapcore.WriteSyncer = (*auditFile)(nil)

func (f *auditFile) reopen() error {
	flags := os.O_APPEND | os.O_CREATE | os.O_WRONLY
	if f.used() {
		// a pipe without a reader is an error now; only the start waits for one
		flags |= syscall.O_NONBLOCK
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

// Write implements io.Writer, for one goroutine at a time. It may block; reopen does not wait for
// it.
func (f *auditFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	file := f.file
	f.writing = file
	f.mu.Unlock()
	n, err := file.Write(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writing = nil; file != f.file { // reopened meanwhile
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
