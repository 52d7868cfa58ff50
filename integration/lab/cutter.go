package lab

import (
	"bytes"
	"strconv"
)

// cutter finds the commands in a stream of requests, which are arrays of bulk strings. After any
// other bytes it finds no more commands.
type cutter struct {
	begun []byte // of the command that is not complete
	lost  bool
}

// command is a command that ends in a chunk. It begins at start, or at 0 if its first bytes came
// with an earlier chunk.
type command struct {
	start int
	raw   []byte
}

// feed takes the next chunk and returns the commands that end in it.
func (c *cutter) feed(chunk []byte) (found []command) {
	if c.lost {
		return nil
	}
	start := -len(c.begun)
	c.begun = append(c.begun, chunk...)
	for !c.lost {
		n := commandLen(c.begun)
		if n == 0 {
			break
		}
		if c.lost = n < 0; c.lost {
			break
		}
		found = append(found, command{max(start, 0), c.begun[:n:n]})
		start, c.begun = start+n, c.begun[n:]
	}
	if len(found) > 0 {
		c.begun = bytes.Clone(c.begun) // found shares the old memory
	}
	return found
}

// commandLen returns the length of the first command in b. It returns 0 if the command is
// incomplete, and -1 if b begins with no command.
func commandLen(b []byte) int {
	count, at := header(b, 0, '*')
	for ; count > 0 && at > 0; count-- {
		var length int
		if length, at = header(b, at, '$'); at > 0 {
			if at += length + 2; at > len(b) {
				return 0
			}
		}
	}
	return at
}

// header reads a number after kind. It returns the number and the offset after its line; next is 0
// or -1 as in commandLen.
func header(b []byte, at int, kind byte) (number, next int) {
	if at == len(b) {
		return 0, 0
	}
	line, _, whole := bytes.Cut(b[at:], []byte("\r\n"))
	if b[at] != kind || len(line) > 20 {
		return 0, -1
	}
	if !whole {
		return 0, 0
	}
	number, err := strconv.Atoi(string(line[1:]))
	if err != nil || number < 0 || number > 1<<30 {
		return 0, -1
	}
	return number, at + len(line) + 2
}
