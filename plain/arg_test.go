package plain

import (
	"strconv"
	"testing"
)

func TestArg(t *testing.T) {
	for text, want := range map[string]string{
		"job": "job", "lock:a-b_c/1.2@h": "lock:a-b_c/1.2@h", "": `''`, "a b": `'a b'`, `a"b`: `'a"b'`, "$HOME": `'$HOME'`,
		"{a,b}": `'{a,b}'`, "größe": `'größe'`, "it's": `"it's"`, `a\x41`: `"a\\x41"`, `'"`: `"'\""`, "a\nb": `"a\x0ab"`,
		"\x00\xff": `"\x00\xff"`, "ü\xff": `"ü\xff"`, "\u200b": `"\xe2\x80\x8b"`, "\ufffd'": "\"\ufffd'\"", "*": `'*'`,
	} {
		t.Run(strconv.Quote(text), func(t *testing.T) {
			if got := Arg(text); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
