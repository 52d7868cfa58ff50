//go:build !unix

package listen

import (
	"errors"
	"io/fs"
)

// narrow refuses to listen: a socket has no mode here, so unix-mode would keep nobody out.
func narrow(uintptr, fs.FileMode) error {
	return errors.New("this system cannot keep unix-mode: listen on a port")
}
