package listen

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"

	"lockproxy/conf"
	"lockproxy/plain"
)

// passed are sockets that systemd has opened for the proxy, until an address of listen
// or adopt-listen takes them.
type passed []net.Listener

// passedBySystemd returns the sockets that systemd has opened.
func passedBySystemd() (passed, error) {
	var p passed
	for _, file := range activation.Files(true) {
		listener, err := net.FileListener(file)
		file.Close()
		if err != nil {
			CloseAll(p)
			return nil, fmt.Errorf("the socket %s that systemd passes: %w", file.Name(), plain.Error(err))
		}
		p = append(p, listener)
	}
	return p, nil
}

// take removes and returns the socket of an address, or nil.
func (p *passed) take(address conf.Address) net.Listener {
	for i, listener := range *p {
		if listensAt(listener.Addr(), address) {
			*p = append((*p)[:i:i], (*p)[i+1:]...)
			return listener
		}
	}
	return nil
}

// listensAt reports whether a socket has an address of listen. All forms of "every interface" are
// equal.
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

// unused returns an error if systemd passes a socket that no setting names. It would never be
// accepted on.
func (p passed) unused() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("systemd passes the socket %s, which listen does not name, nor does adopt-listen", p[0].Addr())
}
