//go:build unix

package listen

import (
	"io/fs"
	"syscall"
)

// narrow gives a socket without a name the mode of its later file. Outside Linux this has no
// effect, and the file has the umask's mode until it is changed.
func narrow(fd uintptr, mode fs.FileMode) error {
	_ = syscall.Fchmod(int(fd), uint32(mode))
	return nil
}
