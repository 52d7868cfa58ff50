// Package plain makes text fit for people to read: keys, labels and words of servers from bytes of
// others, and times. It is a leaf.
package plain

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns text as part of one line, with a blank for each character that does not print.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// maxShort is how many bytes Short returns at most.
const maxShort = 160

// Short is Line for at most the first 160 bytes of text.
func Short(text string) string {
	if text = Line(strings.TrimSpace(text)); len(text) > maxShort {
		text = strings.ToValidUTF8(text[:maxShort], "")
	}
	return text
}

// Escape returns text with escapes as in Go for what does not print. Unlike the results of Line,
// those of two texts differ unless one holds such escapes itself.
func Escape(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// Error returns err without the address that package net puts in front of it: the caller names it.
func Error(err error) error {
	if opErr, ok := errors.AsType[*net.OpError](err); ok {
		return opErr.Err
	}
	return err
}

// IsTerminal reports whether w is a character device. That /dev/null is one, too, does no harm.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Addr returns the address of a client: empty if it is nil, and "Unix socket" for any Unix socket.
func Addr(a net.Addr) string {
	switch {
	case a == nil:
		return ""
	case a.Network() == "unix":
		return "Unix socket"
	}
	return Escape(a.String())
}
