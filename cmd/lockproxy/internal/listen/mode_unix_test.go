//go:build unix

package listen

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lockproxy/conf"
)

func TestUnixListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	address := conf.Address{Network: "unix", Addr: path}
	listeners, err := listenOn(t, Options{}, address)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v %v, want a socket for this user only", info, err)
	}
	if _, err := listenOn(t, Options{}, address); err == nil ||
		!strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("twice: %v", err)
	}
	listeners[0].(*net.UnixListener).SetUnlinkOnClose(false)
	listeners[0].Close() // as after a crash
	if _, err := os.Stat(path); err != nil {
		t.Fatal("no stale socket to test with")
	}
	if listeners, err = listenOn(t, Options{}, address); err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	listeners[0].Close()
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenOn(t, Options{}, address); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file: %v", err)
	}
	if content, _ := os.ReadFile(path); string(content) != "precious" {
		t.Error("the file is gone")
	}
}

// TestUnixSocketNeverExceedsItsMode: under any umask, and even before the process listens, the
// socket never admits more users than unix-mode allows.
func TestUnixSocketNeverExceedsItsMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "s")
	var wider atomic.Uint32
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			var stat syscall.Stat_t // cheaper than os.Lstat: the window is small
			if syscall.Lstat(path, &stat) == nil && stat.Mode&0o777&^0o640 != 0 {
				wider.Store(uint32(stat.Mode) & 0o777)
			}
		}
	}()
	for range 2000 {
		listener, err := open(t.Context(), conf.Address{Network: "unix", Addr: path}, 0o640, false)
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
	}
	close(stop)
	<-stopped
	if mode := wider.Load(); mode != 0 {
		t.Errorf("for a moment the mode was %o", mode)
	}
	syscall.Umask(0o077)
	listeners, err := listenOn(t, Options{UnixMode: 0o666}, conf.Address{Network: "unix", Addr: path})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("got %v %v, want 0666 in spite of the umask", info, err)
	}
	listeners[0].Close()
}
