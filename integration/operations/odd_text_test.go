package operations

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"lockproxy/integration/lab"
)

// oddText has characters that terminals interpret, or that reorder, hide or break the text next
// to them.
var oddText = map[string]string{
	"C0": "\x00\x07\x1b[31m\r\n", "DEL": "\x7f", "C1": "\u0080\u0085\u009b31m\u009f",
	"bidi": "\u202a\u202b\u202c\u202d\u202e", "isolates": "\u2066\u2067\u2068\u2069",
	"marks": "\u200e\u200f", "separators": "\u2028\u2029", "no width": "\u200b\u200c\u200d\u2060", "BOM": "\ufeff",
	"soft hyphen": "\u00ad",
	"tags":        "\U000e0001\U000e0041", "private": "\ue000", "no UTF-8": "\xff\x9b\xc3", "bare C1": "\x85",
	"surrogate": "\xed\xa0\x80",
}

// badIn returns the first unprintable character of text, except line ends and tabs between words.
func badIn(text string) (bad string) {
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' || r == utf8.RuneError && size == 1 {
			return text[i : i+size]
		}
	}
	return ""
}

// Keys and users of arbitrary bytes reach the audit log and the log only escaped, in JSON and
// console format, and cannot forge lines.
func TestLogsEscapeOddText(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, lab.Config{NoWait: true, Proxies: -1})
	l.Upstream.Must(t, "ACL", "SETUSER", "us\u202eer\u009b\u200b", "on", ">pw", "~*", "+@all")
	file := filepath.Join(t.TempDir(), "audit.log")
	inFile := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, flags := range map[string][]string{
		"file":    {"--audit-log", file},
		"JSON":    {"--audit-log", "log", "--log-format", "json"},
		"console": {"--audit-log", "log", "--log-format", "console"},
	} {
		addr, log := startLogging(t, l, flags...)
		host := lab.Dial(t, addr)
		host.WantDo("+OK\r\n", "AUTH", "us\u202eer\u009b\u200b", "pw")
		for _, odd := range oddText {
			key := name + odd + "end"
			host.Unlock(key, host.Lock(key, "60s"))
		}
		text := log.String
		if name == "file" {
			text = inFile
		}
		lab.WaitFor(t, "all lines", lab.Patience, func() bool {
			return strings.Count(text(), `"command": "unlock"`)+strings.Count(text(), `"command":"unlock"`) >= len(oddText)
		})
		for which, written := range map[string]string{name: text(), name + ", its log": log.String()} {
			if bad := badIn(written); bad != "" {
				i := strings.Index(written, bad)
				t.Errorf("%s: raw %q in ...%.120q", which, bad, written[max(0, i-40):])
			}
		}
		if name == "console" {
			continue
		}
		found := lockedKeys(t, name, text())
		for class, odd := range oddText {
			if !found[name+odd+"end"] {
				t.Errorf("%s: got no line for the key with %s", name, class)
			}
		}
	}
}

// startLogging starts a proxy that logs at level debug, and waits for its first lock.
func startLogging(t *testing.T, l *lab.Lab, flags ...string) (addr string, log *lab.Output) {
	t.Helper()
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	addr = lab.FreeAddr(t)
	all := append(l.ProxyFlags(t, "--listen", addr, "--master-timeout", "2s", "--lock-acl", "on", "--log-level", "debug"),
		flags...)
	log = lab.Launch(t, "lockproxy", path, all...).Log
	lab.WaitFor(t, "lockproxy", lab.Patience, func() bool {
		host, err := lab.Connect(addr)
		if err != nil {
			return false
		}
		defer host.Close()
		host.Timeout = time.Second
		token, _, _ := host.TryLock("warm-up "+addr, "10s")
		return token != ""
	})
	return addr, log
}

// lockedKeys returns the keys of all LOCKs in a log of JSON lines. Each must name the odd user.
func lockedKeys(t *testing.T, name, text string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		var e struct {
			Msg, Command, Key, User string
			KeyHex                  string `json:"key_hex"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("%s: %q: %v", name, line, err)
		}
		if e.Command != "lock" || strings.HasPrefix(e.Key, "warm-up ") {
			continue
		}
		if e.User != "us\u202eer\u009b\u200b" {
			t.Errorf("%s: got user %q", name, e.User)
		}
		if raw, _ := hex.DecodeString(e.KeyHex); len(raw) > 0 {
			e.Key = string(raw)
		}
		found[e.Key] = true
	}
	return found
}

// lockproxy status writes keys of arbitrary bytes to a terminal only escaped.
func TestStatusEscapesOddKeys(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--admin-commands", "on")
	host := lab.Dial(t, c.Addr)
	for _, odd := range oddText {
		host.Lock("key"+odd+"end", "30s")
	}
	var text string
	lab.WaitFor(t, "all locks in the status", lab.Patience, func() bool {
		text = lab.FinishTool(t, 0, "status", "--addr", c.Addr)
		return strings.Count(text, "key") >= len(oddText)
	})
	if bad := badIn(text); bad != "" {
		i := bytes.Index([]byte(text), []byte(bad))
		t.Errorf("status: got raw %q in ...%.120q", bad, text[max(0, i-40):])
	}
}
