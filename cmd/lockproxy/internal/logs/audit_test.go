//go:build unix

package logs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAuditReopenWhileBlocked: SIGHUP, and with it the end of the process, does not wait for a
// line whose write to the old file blocks. That line is written later, and the following ones go
// to the new file.
func TestAuditReopenWhileBlocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	slow, err := os.OpenFile(path, os.O_RDWR, 0) // both ends, so that opening does not wait for the other
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	f := &auditFile{path: path}
	if err := f.reopen(); err != nil {
		t.Fatal(err)
	}
	long := []byte(strings.Repeat("x", 1<<20)) // more than a pipe takes
	wrote := make(chan error, 1)
	go func() {
		_, err := f.Write(long)
		wrote <- err
	}()
	if _, err := io.ReadFull(slow, make([]byte, 1)); err != nil { // the write has begun
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	reopened := make(chan error, 1)
	go func() { reopened <- f.reopen() }()
	select {
	case err := <-reopened:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Error("reopen waits for the line")
	}
	f.mu.Lock()
	old := f.writing
	f.mu.Unlock()
	rest := make([]byte, len(long)-1)
	if _, err := io.ReadFull(slow, rest); err != nil || !bytes.Equal(rest, long[1:]) {
		t.Errorf("the line was cut: %v", err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if err := old.Close(); err == nil {
		t.Error("the old file was left open")
	}
	if _, err := f.Write([]byte("behind\n")); err != nil {
		t.Error(err)
	}
	f.close()
	if text, err := os.ReadFile(path); err != nil || string(text) != "behind\n" {
		t.Errorf("the new file has %q, %v", text, err)
	}
}

// TestAuditReopenWithoutReader: SIGHUP does not wait for the reader of a pipe either. The old file
// stays in use.
func TestAuditReopenWithoutReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	f := &auditFile{path: path}
	if err := f.reopen(); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reopened := make(chan error, 1)
	go func() { reopened <- f.reopen() }()
	select {
	case err := <-reopened:
		if !errors.Is(err, syscall.ENXIO) {
			t.Errorf("reopen: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("reopen waits for a reader")
	}
	if _, err := f.Write([]byte("on\n")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path + ".1"); err != nil || string(text) != "on\n" {
		t.Errorf("the old file has %q, %v", text, err)
	}
}

// TestCheckAuditLeavesFilesAlone reports the files that the start could not open, and neither
// creates nor changes a file.
func TestCheckAuditLeavesFilesAlone(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("there"), []byte("a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{
		"off": "", "log": "", path("there"): "", path("new"): "", path("pipe"): "", "/dev/null": "",
		dir:               "audit-log " + dir + ": is a directory",
		path("none/new"):  "audit-log " + path("none/new") + ": no such file or directory",
		path("there/new"): "audit-log " + path("there/new") + ": not a directory",
	} {
		t.Run(setting, func(t *testing.T) {
			got := ""
			if err := CheckAudit(setting); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", setting, got, want)
			}
		})
	}
	if err := CheckAudit("/proc/audit"); err == nil { // not even root may create files there
		t.Error("a folder that takes no files passes")
	}
	left, err := os.ReadDir(dir)
	if text, _ := os.ReadFile(path("there")); err != nil || len(left) != 2 || string(text) != "a line\n" {
		t.Errorf("left: %v %v, %q", left, err, text)
	}
}
