package embedded

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

var errFrame = errors.New("not a request")

const (
	maxArgs     = 1 << 20
	maxArgBytes = 512 << 20
)

// readCommand reads one request, an array of bulk strings. lockproxy has checked and encoded it,
// so any other form ends the connection. An empty array gives no arguments. Memory grows with the
// bytes that arrive, not with announced lengths.
//
//	> *2\r\n$4\r\nPING\r\n$2\r\nhi\r\n
func readCommand(r *bufio.Reader) ([]string, error) {
	count, err := readLength(r, '*', maxArgs)
	if err != nil {
		return nil, err
	}
	args := make([]string, 0, min(count, 16))
	for range count {
		size, err := readLength(r, '$', maxArgBytes)
		if err != nil {
			return nil, err
		}
		var arg strings.Builder
		if _, err := io.CopyN(&arg, r, int64(size)); err != nil {
			return nil, err
		}
		if _, err := r.Discard(2); err != nil {
			return nil, err
		}
		args = append(args, arg.String())
	}
	return args, nil
}

// readLength reads a line of kind, digits, CRLF.
func readLength(r *bufio.Reader, kind byte, limit int) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 4 || len(line) > 16 || line[0] != kind || line[len(line)-2] != '\r' {
		return 0, errFrame
	}
	n, err := strconv.ParseUint(string(line[1:len(line)-2]), 10, 31)
	if err != nil || n > uint64(limit) {
		return 0, errFrame
	}
	return int(n), nil
}
