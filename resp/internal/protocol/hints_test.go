package protocol

import (
	"strings"
	"testing"
)

// someHints are made up, so that every byte of them shows.
var someHints = []Hint{
	{Name: "lock", Info: [2][]byte{[]byte("+I2\r\n"), []byte("+I3\r\n")},
		Docs: [2][]byte{[]byte("+n\r\n*0\r\n"), []byte("+n\r\n%0\r\n")}},
	{Name: "lockproxy", Info: [2][]byte{[]byte("+J2\r\n"), []byte("+J3\r\n")},
		Docs: [2][]byte{[]byte("+m\r\n*0\r\n"), []byte("+m\r\n%0\r\n")}},
}

// hintCases have requests with a comma between two, the upstream's replies, and the client's.
var hintCases = []struct{ name, send, replies, want string }{
	{"all, RESP2", "COMMAND", "*1\r\n*2\r\n$3\r\nget\r\n*0\r\n", "*3\r\n*2\r\n$3\r\nget\r\n*0\r\n+I2\r\n+J2\r\n"},
	{"all, RESP3", "command", "*1\r\n*2\r\n$3\r\nget\r\n~0\r\n", "*3\r\n*2\r\n$3\r\nget\r\n~0\r\n+I3\r\n+J3\r\n"},
	{"none there", "COMMAND INFO", "*0\r\n", "*2\r\n+I2\r\n+J2\r\n"},
	{"COUNT", "COMMAND COUNT", ":98\r\n", ":100\r\n"},
	{"LIST", "COMMAND LIST", "*1\r\n$3\r\nget\r\n", "*3\r\n$3\r\nget\r\n$4\r\nlock\r\n$9\r\nlockproxy\r\n"},
	{"LIST with a filter", "COMMAND LIST FILTERBY PATTERN *", "*1\r\n$3\r\nget\r\n", "*1\r\n$3\r\nget\r\n"},
	{"DOCS, RESP2", "COMMAND DOCS", "*2\r\n$3\r\nget\r\n*0\r\n", "*6\r\n$3\r\nget\r\n*0\r\n+n\r\n*0\r\n+m\r\n*0\r\n"},
	{"DOCS, RESP3", "COMMAND DOCS", "%1\r\n$3\r\nget\r\n%0\r\n", "%3\r\n$3\r\nget\r\n%0\r\n+n\r\n%0\r\n+m\r\n%0\r\n"},
	{"DOCS of names", "COMMAND docs GET LockProxy nosuch", "*2\r\n$3\r\nget\r\n*0\r\n",
		"*4\r\n$3\r\nget\r\n*0\r\n+m\r\n*0\r\n"},
	{"DOCS of a name, twice", "COMMAND DOCS lock lock", "*0\r\n", "*2\r\n+n\r\n*0\r\n"},
	{"DOCS of another name", "COMMAND DOCS get", "*2\r\n$3\r\nget\r\n*0\r\n", "*2\r\n$3\r\nget\r\n*0\r\n"},
	{"INFO of names", "COMMAND INFO get LOCK nosuch lockproxy", "*4\r\n*1\r\n*0\r\n$-1\r\n$-1\r\n$-1\r\n",
		"*4\r\n*1\r\n*0\r\n+I2\r\n$-1\r\n+J2\r\n"},
	{"INFO of names, Redis 6", "COMMAND INFO lock", "*1\r\n*-1\r\n", "*1\r\n+I2\r\n"},
	{"INFO of names, RESP3", "COMMAND INFO lock get", "*2\r\n_\r\n*1\r\n_\r\n", "*2\r\n+I3\r\n*1\r\n_\r\n"},
	{"INFO of a command of the upstream", "COMMAND INFO lock", "*1\r\n*1\r\n:1\r\n", "*1\r\n*1\r\n:1\r\n"},
	{"GETKEYS", "COMMAND GETKEYS GET a", "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\na\r\n"},
	{"refused", "COMMAND,PING", "-NOPERM no\r\n+PONG\r\n", "-NOPERM no\r\n+PONG\r\n"},
	{"in a transaction", "MULTI,COMMAND COUNT,EXEC,COMMAND COUNT", "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n:1\r\n",
		"+OK\r\n+QUEUED\r\n*1\r\n:1\r\n:1\r\n"},
	{"after a login, in a pipeline", "AUTH a b,GET k,COMMAND COUNT,COMMAND COUNT,GET k",
		"+OK\r\n:1\r\n:1\r\n:2\r\n:3\r\n", "+OK\r\n:1\r\n:3\r\n:4\r\n:3\r\n"},
	{"a push before it, and in it none", "COMMAND", ">2\r\n+a\r\n*1\r\n+b\r\n*0\r\n",
		">2\r\n+a\r\n*1\r\n+b\r\n*2\r\n+I2\r\n+J2\r\n"},
	{"after SUBSCRIBE", "SUBSCRIBE c,COMMAND COUNT", "*3\r\n+subscribe\r\n+c\r\n:1\r\n:1\r\n",
		"*3\r\n+subscribe\r\n+c\r\n:1\r\n:1\r\n"},
	{"after CLIENT REPLY", "CLIENT REPLY SKIP,COMMAND COUNT,GET k", ":5\r\n", ":5\r\n"},
	{"after MONITOR", "MONITOR,COMMAND COUNT", "+OK\r\n:1\r\n", "+OK\r\n:1\r\n"},
	{"after DEBUG", "DEBUG PROTOCOL push,COMMAND COUNT", "+OK\r\n:1\r\n", "+OK\r\n:1\r\n"},
	{"too many names", "COMMAND INFO" + strings.Repeat(" lock", 33), "*33\r\n" + strings.Repeat("$-1\r\n", 33),
		"*33\r\n" + strings.Repeat("$-1\r\n", 33)},
	{"too many in a pipeline", strings.Repeat("COMMAND COUNT,", mostEdits) + "COMMAND COUNT",
		strings.Repeat(":1\r\n", mostEdits+1), strings.Repeat(":3\r\n", mostEdits) + ":1\r\n"},
}

// The replies to COMMAND get the hints, however the upstream's bytes are cut.
func TestRepliesToCommandGetHints(t *testing.T) {
	for _, tt := range hintCases {
		t.Run(tt.name, func(t *testing.T) {
			for _, inline := range []bool{false, true} {
				for size := 1; size <= len(tt.replies); size++ {
					if got := withHints(t, tt.send, tt.replies, size, inline, someHints); got != tt.want {
						t.Fatalf("inline %v, in pieces of %d: got %q, want %q", inline, size, got, tt.want)
					}
				}
			}
			if got := withHints(t, tt.send, tt.replies, len(tt.replies), false, nil); got != tt.replies {
				t.Errorf("without hints: got %q, want %q", got, tt.replies)
			}
		})
	}
}

// withHints returns the client's replies to an upstream's, which come in pieces of size.
func withHints(t *testing.T, send, replies string, size int, inline bool, hints []Hint) string {
	t.Helper()
	var c Conn
	c.Init(Options{Facts: func() Facts { return Facts{} }, Hints: hints})
	c.Connected("")
	for request := range strings.SplitSeq(send, ",") {
		note(t, &c, request, inline)
	}
	r := NewReader(&c)
	var client, held []byte
	for from := 0; from < len(replies); from += size {
		held = append(held, replies[from:min(from+size, len(replies))]...)
		for more := true; more; {
			part := r.Split(held)
			client = append(append(client, held[part.From:part.To]...), part.Insert...)
			held = held[part.Used:]
			more = part.Removed || part.Insert != nil
		}
	}
	if len(held) > 0 {
		t.Errorf("got %q held back", held)
	}
	if got, want := c.Received(), c.Sent(); got != want && !strings.HasPrefix(send, "SUBSCRIBE") &&
		!strings.HasPrefix(send, "CLIENT") {
		t.Errorf("%s: got %d replies, want %d", send, got, want)
	}
	return string(client)
}

// In RESP2 a message looks like a reply. So after SUBSCRIBE there are no hints, even if the
// upstream was asked in RESP3. There messages are pushes.
func TestNoHintsAfterSubscribe(t *testing.T) {
	var c Conn
	c.Init(Options{Facts: func() Facts { return Facts{} }, Hints: someHints})
	c.Connected("")
	for _, request := range []string{"HELLO 3", "SUBSCRIBE c"} {
		note(t, &c, request, false)
	}
	c.Ask()
	c.queries.head[0] = []byte("%7\r\n")
	if got := c.Conclude(); got != Run {
		t.Fatalf("got %v, want Run", got)
	}
	note(t, &c, "HELLO 2", false)
	note(t, &c, "COMMAND COUNT", false)
	if n := len(c.edits); n > 0 {
		t.Errorf("%d replies are changed", n)
	}
}

// The proxy does not keep a line of an upstream that does not end it.
func TestEndlessLinePasses(t *testing.T) {
	var c Conn
	c.Init(Options{Facts: func() Facts { return Facts{} }, Hints: someHints})
	c.Connected("")
	note(t, &c, "COMMAND COUNT", false)
	r := NewReader(&c)
	line := []byte(":" + strings.Repeat("1", maxAnswer))
	if part := r.Split(line); part.Used != len(line) || part.To != len(line) {
		t.Errorf("got %d of %d bytes passed", part.To, len(line))
	}
}
