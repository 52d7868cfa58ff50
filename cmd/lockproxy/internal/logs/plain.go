package logs

import (
	"bytes"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// plainEncoder writes JSON escapes for control characters, and for characters that reorder or hide
// text. Keys, labels and replies contain bytes of others. zap escapes only what JSON requires.
type plainEncoder struct{ zapcore.Encoder }

// Clone implements zapcore.Encoder.
func (e plainEncoder) Clone() zapcore.Encoder { return plainEncoder{e.Encoder.Clone()} }

// EncodeEntry implements zapcore.Encoder.
func (e plainEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	line, err := e.Encoder.EncodeEntry(entry, fields)
	if err != nil || utf8.Valid(line.Bytes()) && bytes.IndexFunc(line.Bytes(), hidden) < 0 {
		return line, err
	}
	text := line.String()
	line.Reset()
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		if hidden(r) || r == utf8.RuneError && size == 1 {
			appendEscaped(line, r)
		} else {
			line.AppendString(text[i : i+size])
		}
	}
	return line, nil
}

// hidden reports whether r does not print. Line ends and tabs are zap's own: in a field they are
// escaped.
func hidden(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }

// appendEscaped appends r as in JSON: \u202e, or a pair of these beyond U+FFFF.
func appendEscaped(line *buffer.Buffer, r rune) {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		appendEscaped(line, high)
		r = low
	}
	line.AppendString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		line.AppendByte("0123456789abcdef"[r>>shift&0xf])
	}
}
