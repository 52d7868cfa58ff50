package logs

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestUnprintableTextIsEscaped: what does not print is escaped so that JSON gives it back; the
// rest stays as it is.
func TestUnprintableTextIsEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"job":           `job`,
		"käse 鍵 🔑":      `käse 鍵 🔑`,
		"a\tb\r\n":      `a\tb\r\n`,
		"\x1b[31m":      `\u001b[31m`,
		"\x7f\u009b":    `\u007f\u009b`,
		"\u202ea\ufeff": `\u202ea\ufeff`,
		"\U000e0041":    `\udb40\udc41`,
		"\xffx":         `\ufffdx`,
		"\ufffd":        "\ufffd",
	} {
		t.Run(text, func(t *testing.T) {
			for _, console := range []bool{false, true} {
				line, err := newEncoder(console).EncodeEntry(zapcore.Entry{Message: "said"},
					[]zap.Field{zap.String("k"+text, text)})
				if err != nil {
					t.Fatal(err)
				}
				got := strings.ReplaceAll(line.String(), `": "`, `":"`)
				if !strings.Contains(got, `"k`+want+`":"`+want+`"`) {
					t.Errorf("%q: got %s", text, got)
				}
				var back map[string]string
				_, object, _ := strings.Cut(got, "{")
				if err := json.Unmarshal([]byte("{"+object), &back); err != nil ||
					back["k"+strings.ToValidUTF8(text, "\ufffd")] != strings.ToValidUTF8(text, "\ufffd") {
					t.Errorf("%q: read back %q, %v", text, back, err)
				}
			}
		})
	}
	line, err := newEncoder(true).EncodeEntry(zapcore.Entry{Message: "a\xff\u202eb"}, nil)
	if err != nil || !strings.HasSuffix(line.String(), "a\\ufffd\\u202eb\n") {
		t.Errorf("got %q, %v", line, err)
	}
}
