package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"lockproxy/conf"
	"lockproxy/plain"
)

// Options say where to listen and how.
type Options struct {
	Addresses     []conf.Address // of listen
	Adopt         []conf.Address // of adopt-listen
	UnixMode      fs.FileMode    // of the file of a Unix socket
	ReusePort     bool           // other processes may listen on the same port
	ProxyProtocol bool           // connections from networks begin with a PROXY header
	Headers       int            // how many headers each listener reads at a time; 0: MaxHeaders
	TLS           *tls.Config    // for rediss:// addresses
}

// All opens every listener, or none: those of Addresses, then those of Adopt. It uses the sockets
// that systemd has opened.
func All(ctx context.Context, o Options, log *zap.Logger) ([]net.Listener, error) {
	given, err := passedBySystemd()
	if err != nil {
		return nil, err
	}
	var listeners []net.Listener
	for i, address := range slices.Concat(o.Addresses, o.Adopt) {
		listener := given.take(address)
		if listener == nil {
			listener, err = open(ctx, address, o.UnixMode, o.ReusePort)
		}
		if err != nil {
			CloseAll(listeners)
			CloseAll(given)
			name := "listen"
			if i >= len(o.Addresses) {
				name = "adopt-listen"
			}
			return nil, fmt.Errorf("%s %s: %w", name, address, err)
		}
		if o.ProxyProtocol && address.Network != "unix" {
			listener = newProxied(listener, cmp.Or(o.Headers, MaxHeaders), log)
		}
		if address.TLS {
			listener = &secureListener{Listener: listener, config: o.TLS, log: log}
		}
		listeners = append(listeners, listener)
	}
	if err := given.unused(); err != nil {
		CloseAll(listeners)
		CloseAll(given)
		return nil, err
	}
	return listeners, nil
}

// CloseAll closes every listener.
func CloseAll(listeners []net.Listener) {
	for _, listener := range listeners {
		listener.Close()
	}
}

// open opens one listener. A Unix socket has mode from its first moment on. Closing the listener
// removes its file. With shared, other processes may listen on the same port.
func open(ctx context.Context, address conf.Address, mode fs.FileMode, shared bool) (net.Listener, error) {
	if address.Network == "unix" {
		return listenUnix(ctx, address.Addr, mode)
	}
	network := address.Network
	if ip, err := netip.ParseAddr(address.Host()); err == nil && ip.Is4() {
		network = "tcp4" // for 0.0.0.0 package net would open every IPv6 address as well
	}
	var config net.ListenConfig
	if shared {
		config.Control = reusePort
	}
	listener, err := config.Listen(ctx, network, address.Addr)
	return listener, plain.Error(err)
}

// listenUnix narrows the socket's mode before it has a name. On Linux the file takes its mode from
// the socket, less the umask. Later the mode can only become wider, if the umask removed too much.
func listenUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var err error
		if controlErr := socket.Control(func(fd uintptr) { err = narrow(fd, mode) }); controlErr != nil {
			return controlErr
		}
		return err
	}}
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, plain.Error(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// removeStale removes the socket of a process that ended without cleaning up: a socket on which no
// process answers.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("the file is there and is not a socket")
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return errListens
	}
	if !plain.Refused(err) {
		return err
	}
	return os.Remove(path)
}

// OpenToOthers returns the first listener that other machines can reach, or nil.
func OpenToOthers(listeners []net.Listener) net.Addr {
	for _, listener := range listeners {
		if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			return tcp
		}
	}
	return nil
}
