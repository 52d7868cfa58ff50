package main

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"lockproxy/conf"
)

// What systemd is told of the proxy's state. Without systemd nobody is told, and an error is of no use to anybody.

func notifyReady()    { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) }
func notifyStopping() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }
func notifyReloading() {
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec())
}

// feedWatchdog tells systemd twice in each WatchdogSec that the proxy lives, until end is called. alive returns if it does, and hangs if not.
func feedWatchdog(alive func(), log *zap.Logger) (end func()) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog cannot be understood", zap.Error(err))
	}
	if err != nil || within <= 0 {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(within / 2)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				alive()
				_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// passed are sockets that systemd has opened for the proxy, until a listen address takes them.
type passed []net.Listener

// passedSockets returns what systemd passes on.
func passedSockets() (passed, error) {
	var p passed
	for _, file := range activation.Files(true) {
		listener, err := net.FileListener(file)
		file.Close()
		if err != nil {
			closeAll(p)
			return nil, fmt.Errorf("the socket %s that systemd passes: %w", file.Name(), plainError(err))
		}
		p = append(p, listener)
	}
	return p, nil
}

// take returns the socket of an address of listen, and forgets it; nil if there is none.
func (p *passed) take(address conf.Address) net.Listener {
	for i, listener := range *p {
		if listensAt(listener.Addr(), address) {
			*p = append((*p)[:i:i], (*p)[i+1:]...)
			return listener
		}
	}
	return nil
}

// listensAt tells whether a socket is what an address of listen means. A socket for all addresses of the machine is that of any form of
// "all".
func listensAt(at net.Addr, address conf.Address) bool {
	switch at := at.(type) {
	case *net.UnixAddr:
		return address.Network == "unix" && at.Name == address.Addr
	case *net.TCPAddr:
		want, err := net.ResolveTCPAddr("tcp", address.Addr)
		if address.Network != "tcp" || err != nil || at.Port != want.Port {
			return false
		}
		return at.IP.Equal(want.IP) || at.IP.IsUnspecified() && (want.IP == nil || want.IP.IsUnspecified())
	}
	return false
}

// unused says that systemd passes a socket that the settings do not know: nobody would ever accept on it.
func (p passed) unused() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("systemd passes the socket %s, which listen does not name", p[0].Addr())
}
