//go:build !unix

package redistest

import "os"

var pause, resume os.Signal
