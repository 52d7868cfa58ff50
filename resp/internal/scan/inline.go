package scan

import (
	"bytes"
	"errors"
)

var errQuotes = errors.New("unbalanced quotes in request")

// inlineLine returns the line at the front of b, which is an inline request, without its end, and
// the length of both. more is true while the line is not complete. why is Redis' reason for
// refusing it, or empty.
func inlineLine(b []byte) (line []byte, n int, more bool, why string) {
	const tooBig = "too big inline request"
	end := bytes.IndexByte(b, '\n')
	if zero := bytes.IndexByte(b[:max(0, end)], 0); zero >= 0 || end < 0 && bytes.IndexByte(b, 0) >= 0 {
		return nil, 0, false, tooBig // Redis uses strchr, which never gets past a zero byte
	}
	switch {
	case end < 0 && len(b) > maxInline:
		return nil, 0, false, tooBig
	case end < 0:
		return nil, 0, true, ""
	}
	return bytes.TrimSuffix(b[:end], []byte("\r")), end + 1, false, ""
}

// splitInline cuts a line into arguments as Redis' sdssplitargs does: blanks between them, "..."
// with \xHH, \n, \r, \t, \b, \a and \" inside, '...' with \' inside, a closing quote followed by a
// blank or by the end. The result does not share memory with line.
func splitInline(line []byte) ([][]byte, error) {
	var args [][]byte
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return args, nil
		}
		arg, next, err := inlineArg(line, i)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
		i = next
	}
}

// inlineArg reads the argument that begins at line[i] and returns it with the index after it.
func inlineArg(line []byte, i int) ([]byte, int, error) {
	arg := []byte{}
	var quote byte
	for ; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r'): // not \v and \f, which are blanks elsewhere
			return arg, i, nil
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0:
			arg = append(arg, c)
		case c == quote:
			if i+1 < len(line) && !isSpace(line[i+1]) {
				return nil, 0, errQuotes
			}
			return arg, i + 1, nil
		case quote == '"' && c == '\\':
			b, skip := escape(line[i:])
			arg = append(arg, b)
			i += skip
		case quote == '\'' && c == '\\' && i+1 < len(line) && line[i+1] == '\'':
			arg = append(arg, '\'')
			i++
		default:
			arg = append(arg, c)
		}
	}
	if quote != 0 {
		return nil, 0, errQuotes
	}
	return arg, i, nil
}

// escape reads the escape sequence at the start of b, which begins with a backslash, and returns
// how many bytes beyond it belong to it.
func escape(b []byte) (byte, int) {
	if len(b) >= 4 && b[1] == 'x' {
		hi, ok1 := hexDigit(b[2])
		lo, ok2 := hexDigit(b[3])
		if ok1 && ok2 {
			return hi<<4 | lo, 3
		}
	}
	if len(b) < 2 {
		return '\\', 0
	}
	const from, to = "nrtba", "\n\r\t\b\a"
	if at := bytes.IndexByte([]byte(from), b[1]); at >= 0 {
		return to[at], 1
	}
	return b[1], 1
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// isSpace is C's isspace in the C locale.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
