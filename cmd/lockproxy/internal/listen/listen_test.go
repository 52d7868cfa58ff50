package listen

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"lockproxy/conf"
)

func listenOn(t *testing.T, o Options, addresses ...conf.Address) ([]net.Listener, error) {
	t.Helper()
	o.Addresses = addresses
	o.UnixMode = cmp.Or(o.UnixMode, 0o600)
	listeners, err := All(t.Context(), o, zaptest.NewLogger(t))
	t.Cleanup(func() { CloseAll(listeners) })
	return listeners, err
}

func TestListenAllOrNone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	path := filepath.Join(t.TempDir(), "s")
	_, err = listenOn(t, Options{}, conf.Address{Network: "unix", Addr: path},
		conf.Address{Network: "tcp", Addr: taken.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "address already in use") ||
		strings.Count(err.Error(), taken.Addr().String()) != 1 {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the first listener is left open")
	}
}

func TestOpenToOthers(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "0.0.0.0:0": true, ":0": true} {
		t.Run(address, func(t *testing.T) {
			listeners, err := listenOn(t, Options{}, conf.Address{Network: "tcp", Addr: address})
			if err != nil {
				t.Logf("%s: %v", address, err)
				return
			}
			if got := OpenToOthers(listeners) != nil; got != want {
				t.Errorf("%s: got %v", address, got)
			}
			if bound := listeners[0].Addr().(*net.TCPAddr); address == "0.0.0.0:0" && bound.IP.To4() == nil {
				t.Errorf("%s is open as %s", address, bound)
			}
		})
	}
}
