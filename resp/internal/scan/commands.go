package scan

import (
	"bufio"
	"io"
	"strings"
)

// mostArgs is the largest number of arguments that CommandReader accepts, because it holds them
// all. Redis had this limit up to version 6.
const mostArgs = 1 << 20

// ProtocolError is Redis' reason why bytes are not a request.
type ProtocolError string

// Error returns the text of Redis' reply, without the code.
func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

// CommandReader reads requests as Redis reads them, for a server that carries them out. Memory
// grows with the bytes that arrive, not with announced lengths. Not safe for concurrent use.
type CommandReader struct{ r *bufio.Reader }

// NewCommandReader returns a reader of r. It may read more of r than one request.
func NewCommandReader(r io.Reader) *CommandReader {
	return &CommandReader{bufio.NewReaderSize(r, maxInline+1)}
}

// Next returns the name and the arguments of the next request. It passes over what Redis ignores:
// empty lines and requests without arguments. At bytes that Redis refuses it returns a
// ProtocolError, and must not be called again.
//
//	> *2\r\n$4\r\nPING\r\n$2\r\nhi\r\n
//	> PING "hi"\r\n
func (c *CommandReader) Next() (args []string, err error) {
	for len(args) == 0 && err == nil {
		first, noMore := c.r.Peek(1)
		switch {
		case noMore != nil:
			err = noMore
		case first[0] == '*':
			args, err = c.array()
		default:
			args, err = c.inline()
		}
	}
	return args, err
}

func (c *CommandReader) array() ([]string, error) {
	var count, size int64
	err := c.read(func(b []byte) (n int, more bool, why string) {
		count, n, more, why = multibulkLength(b, mostArgs)
		return n, more, why
	})
	if err != nil || count <= 0 {
		return nil, err
	}
	args := make([]string, 0, min(count, 16))
	for range count {
		err := c.read(func(b []byte) (n int, more bool, why string) {
			size, n, more, why = bulkLength(b, maxBulk)
			return n, more, why
		})
		if err != nil {
			return nil, err
		}
		var arg strings.Builder
		if _, err := io.CopyN(&arg, c.r, size); err != nil {
			return nil, err
		}
		if _, err := c.r.Discard(2); err != nil { // Redis does not look at them
			return nil, err
		}
		args = append(args, arg.String())
	}
	return args, nil
}

func (c *CommandReader) inline() (args []string, err error) {
	err = c.read(func(b []byte) (int, bool, string) {
		line, n, more, why := inlineLine(b)
		argv, wrong := splitInline(line)
		if wrong != nil {
			why = wrong.Error()
		}
		for _, arg := range argv {
			args = append(args, string(arg))
		}
		return n, more, why
	})
	return args, err
}

// read calls parse with the next bytes, with more of them each time, until that finds all it needs
// in the first n, or a reason to refuse them.
func (c *CommandReader) read(parse func(b []byte) (n int, more bool, why string)) error {
	for want := 1; ; {
		b, err := c.r.Peek(max(want, c.r.Buffered()))
		if err != nil {
			return err
		}
		n, more, why := parse(b)
		switch {
		case why != "":
			return ProtocolError(why)
		case !more:
			_, err := c.r.Discard(n)
			return err
		}
		want = len(b) + 1
	}
}
