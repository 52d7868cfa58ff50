// Package integration drives the built lockproxy binary, as an operator would start it, against real Redis
// servers and injected faults. It holds tests only.
//
// Every server is a process of its own on a free loopback port, ended by its process id when its test is over.
// Nothing here imports the project: what is checked is what a client on a socket can see.
package integration

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
