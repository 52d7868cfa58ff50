package plain

import (
	"errors"
	"io"
	"net"
	"os"
)

// plainError leaves out the address, which callers name.
func Error(err error) error {
	if opErr, ok := errors.AsType[*net.OpError](err); ok {
		return opErr.Err
	}
	return err
}

// isTerminal takes a character device for a terminal. /dev/null is one, too, which does no harm.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
