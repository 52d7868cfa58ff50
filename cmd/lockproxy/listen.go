package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"lockproxy/conf"
)

// listenAll opens every listener of the settings, or none.
func listenAll(ctx context.Context, cfg conf.Config) ([]net.Listener, error) {
	var secure *tls.Config
	if cfg.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("tls-cert %s and tls-key %s: %w", cfg.TLSCert, cfg.TLSKey, err)
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	var listeners []net.Listener
	for _, address := range cfg.Listen {
		listener, err := listen(ctx, address)
		if err != nil {
			closeAll(listeners)
			return nil, fmt.Errorf("listen %s: %w", address, err)
		}
		if address.TLS {
			listener = tls.NewListener(listener, secure)
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) {
	for _, listener := range listeners {
		listener.Close()
	}
}

// listen opens one listener. A Unix socket is for this user only, and its file goes when the listener is closed.
func listen(ctx context.Context, address conf.Address) (net.Listener, error) {
	if address.Network == "unix" {
		if err := removeStale(ctx, address.Addr); err != nil {
			return nil, err
		}
	}
	network := address.Network
	if ip, err := netip.ParseAddr(address.Host()); err == nil && ip.Is4() {
		network = "tcp4" // for 0.0.0.0 package net would open every IPv6 address as well
	}
	listener, err := new(net.ListenConfig).Listen(ctx, network, address.Addr)
	if opErr, ok := errors.AsType[*net.OpError](err); ok {
		return nil, opErr.Err // the rest of its text repeats the address
	}
	if err != nil || address.Network != "unix" {
		return listener, err
	}
	if err := os.Chmod(address.Addr, 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// removeStale removes a socket that a process left behind which ended without cleaning up: a socket, and nobody
// answers on it.
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
		return errors.New("another process listens there")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// openToOthers is the first listener that other machines can reach, or nil.
func openToOthers(listeners []net.Listener) net.Addr {
	for _, listener := range listeners {
		if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			return tcp
		}
	}
	return nil
}
