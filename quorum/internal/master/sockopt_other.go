//go:build !linux

package master

import (
	"net"
	"time"
)

// setUserTimeout has no counterpart here; linger 0 alone drops the bytes that a dead lane has not
// delivered.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }

// unreadOf returns nil: this system is not asked.
func unreadOf(net.Conn) func() bool { return nil }
