package listen

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// TestStalledHandshakeIsCutOff: a client that stops during its handshake is disconnected, and does
// not delay others.
func TestStalledHandshakeIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		conn := &secureConn{Conn: tls.Server(server, &tls.Config{}), listener: &secureListener{log: zap.NewNop()}}
		go client.Write([]byte{22, 3, 1})
		start := time.Now()
		if _, err := conn.Read(make([]byte, 1)); err == nil || time.Since(start) != handshakeTimeout {
			t.Errorf("got %v after %v, want an error after %v", err, time.Since(start), handshakeTimeout)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection is open: %v", err)
		}
	})
}
