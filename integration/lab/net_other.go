//go:build !linux

package lab

import (
	"errors"
	"net"
	"testing"
)

func tryNamespace() error { return errors.New("network namespaces need Linux") }

func holdNamespace(t testing.TB, name string) *Process {
	t.Helper()
	t.Fatalf("%s: %v", name, tryNamespace())
	return nil
}

func (n *Net) dial(network, addr string) (net.Conn, error) { return nil, tryNamespace() }
