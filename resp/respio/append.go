package respio

import "strconv"

// AppendCommand writes a command, which is an array of texts.
//
//	> *1\r\n$4\r\nPING\r\n
func AppendCommand(b []byte, args ...string) []byte {
	b = AppendHeader(b, '*', len(args))
	for _, a := range args {
		b = AppendBulk(b, a)
	}
	return b
}

// AppendHeader writes the line that announces the number of a list's elements or of a text's
// bytes.
//
//	> $12\r\n
func AppendHeader(b []byte, kind byte, n int) []byte {
	if n < 10 {
		return append(b, kind, '0'+byte(n), '\r', '\n')
	}
	if n < 100 {
		return append(b, kind, '0'+byte(n/10), '0'+byte(n%10), '\r', '\n')
	}
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\r', '\n')
}

// AppendBulk writes a text whose length is announced.
//
//	> $5\r\nhello\r\n
func AppendBulk(b []byte, s string) []byte {
	b = AppendHeader(b, '$', len(s))
	b = append(b, s...)
	return append(b, '\r', '\n')
}

// AppendDigits writes the digits of n as AppendBulk writes a text.
//
//	> $2\r\n42\r\n
func AppendDigits(b []byte, n uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], n, 10)
	b = AppendHeader(b, '$', len(text))
	b = append(b, text...)
	return append(b, '\r', '\n')
}
