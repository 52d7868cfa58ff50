package goredis

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// source is a connection that yields one piece at each Read, and then io.EOF.
type source struct {
	net.Conn
	pieces [][]byte
}

func (s *source) Read(b []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

// through returns what Conn passes of text that comes in pieces of that size.
func through(text string, size int) (passed string, err error) {
	s := &source{}
	for b := []byte(text); len(b) > 0; b = b[min(size, len(b)):] {
		s.pieces = append(s.pieces, b[:min(size, len(b))])
	}
	var out bytes.Buffer
	out.Grow(len(text) + bytes.MinRead)
	_, err = out.ReadFrom(Conn(s))
	return out.String(), err
}

// textOf returns a text of n bytes.
func textOf(n int) string { return strings.Repeat("x", n) }

func TestConnPassesReplies(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":          "",
		"lines":            "+OK\r\n-ERR no\r\n:-5\r\n+a\rb\r\n",
		"texts":            "$0\r\n\r\n$-1\r\n$7\r\n$9\r\n*9\r\r\n$2\r\n\r\n\r\n",
		"arrays":           "*0\r\n*-1\r\n*2\r\n:1\r\n*2\r\n*0\r\n$1\r\na\r\n+OK\r\n",
		"message":          "*3\r\n$7\r\nmessage\r\n$3\r\njob\r\n$0\r\n\r\n",
		"deepest":          strings.Repeat("*1\r\n", maxDepth) + ":1\r\n+OK\r\n",
		"longest line":     "+" + textOf(maxLine-3) + "\r\n",
		"longest text":     "$16777000\r\n" + textOf(16777000) + "\r\n+OK\r\n",
		"page of LOCKS":    "*2\r\n$1\r\n0\r\n*4000\r\n" + strings.Repeat("$1030\r\n"+textOf(1030)+"\r\n", 4000),
		"many large":       strings.Repeat("$9000000\r\n"+textOf(9000000)+"\r\n", 3),
		"cut in a text":    "$7\r\nabc",
		"cut in a header":  "*12",
		"cut behind a \\r": "+OK\r",
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 4096, 1 << 30} {
				if size < 4096 && len(text) > 1<<20 {
					continue
				}
				if got, err := through(text, size); err != nil || got != text {
					t.Errorf("%s in pieces of %d: %d of %d bytes, %v", name, size, len(got), len(text), err)
				}
			}
		})
	}
}

func TestConnRefusesUnboundedReplies(t *testing.T) {
	const protocol = "answered something that is not Redis' protocol"
	for text, want := range map[string]string{
		"$1099511627776\r\n": "announces a reply of 1099511627776 bytes, at most " +
			"16777216 are read",
		"*1099511627776\r\n": "announces a reply of 1099511627776 elements, at " +
			"most 262144 are read",
		"+OK\r\n*2\r\n:1\r\n*1\r\n$9999999999\r\n": "announces a reply of 9999999999 bytes, at most " +
			"16777216 are read",
		"*200000\r\n*200000\r\n":                                     "announces a reply of over 16777216 bytes",
		"*200000\r\n$9000000\r\n":                                    "announces a reply of over 16777216 bytes",
		"*2\r\n$9000000\r\n" + textOf(9000002) + "$9000000\r\n":      "announces a reply of over 16777216 bytes",
		"*262000\r\n" + strings.Repeat("+"+textOf(60000)+"\r\n", 10): "announces a reply of over 16777216 bytes",
		strings.Repeat("*1\r\n", maxDepth+1):                         "nests arrays deeper than 8 levels",
		"$9223372036854775807\r\n": "announces a reply of 9223372036854775807 bytes, " +
			"at most 16777216 are read",
		"*99999999999999999999\r\n":             `announces a reply of length "99999999999999999999"`,
		"$-2\r\n":                               `announces a reply of length "-2"`,
		"*x\r\n":                                `announces a reply of length "x"`,
		"$\r\n":                                 `announces a reply of length ""`,
		"$" + strings.Repeat("0", 40) + "5\r\n": protocol,
		"+" + textOf(maxLine):                   "sends a line of over 65536 bytes",
		"\r\n":                                  protocol,
		"\n":                                    protocol,
		"+OK\n":                                 protocol,
		"+OK\r\n\n":                             protocol,
		"HTTP/1.1 400 Bad Request\r\n":          protocol,
		"%1099511627776\r\n":                    protocol,
		"=1099511627776\r\n":                    protocol,
		"!1099511627776\r\n":                    protocol,
		"~1099511627776\r\n":                    protocol,
		">1099511627776\r\n":                    protocol,
		strings.Repeat("|0\r\n", 10):            protocol,
		"*1\r\n%1099511627776\r\n":              protocol,
	} {
		t.Run(text, func(t *testing.T) {
			for _, size := range []int{1, 7, 1 << 30} {
				if size < 4096 && len(text) > 1<<20 {
					continue
				}
				_, err := through(text, size)
				if bad, ok := errors.AsType[*BadReplyError](err); !ok || bad.Error() != want {
					t.Errorf("%.40q in pieces of %d: %v, want %s", text, size, err, want)
				}
			}
		})
	}
}

// TestConnStaysRefused: after a refused reply no byte can be trusted.
func TestConnStaysRefused(t *testing.T) {
	c := Conn(&source{pieces: [][]byte{[]byte("$x\r\n"), []byte("+OK\r\n")}})
	for range 2 {
		if n, err := c.Read(make([]byte, 100)); n != 0 || err == nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
	}
}

// write appends a reply that the bytes of seed choose, and returns the rest of seed.
func write(out *bytes.Buffer, seed []byte, depth int) []byte {
	if len(seed) == 0 {
		out.WriteString("$-1\r\n")
		return nil
	}
	kind, n := seed[0]%8, int(seed[0]/8)
	seed = seed[1:]
	switch text := seed[:min(n, len(seed))]; {
	case kind == 0 && depth < maxDepth:
		out.WriteString("*" + number(n) + "\r\n")
		for range n {
			seed = write(out, seed, depth+1)
		}
		return seed
	case kind < 4:
		out.WriteString("$" + number(len(text)) + "\r\n" + string(text) + "\r\n")
		return seed[len(text):]
	case kind < 6:
		out.WriteString("+" + strings.ReplaceAll(string(text), "\n", "") + "\r\n")
		return seed[len(text):]
	case kind == 6:
		out.WriteString(":-" + number(n) + "\r\n")
	default:
		out.WriteString("*-1\r\n")
	}
	return seed
}

func number(n int) string { return string([]byte{'0' + byte(n/10), '0' + byte(n%10)}) }

// FuzzConn: a stream of replies passes byte for byte in pieces of any size, and for any bytes
// the size makes no difference.
func FuzzConn(f *testing.F) {
	for _, seed := range []string{"", "$1099511627776\r\n", "*1\r\n%0\r\n", "+a\n\r\n", "\x18\x09ab\x00\x15xyzabc",
		"*2\r\n$3\r\nab"} {
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, seed []byte, size uint8) {
		seed = seed[:min(len(seed), 4096)]
		var valid bytes.Buffer
		for rest := seed; len(rest) > 0; {
			rest = write(&valid, rest, 0)
		}
		if got, err := through(valid.String(), int(size)+1); err != nil || got != valid.String() {
			t.Errorf("%q: passed %q, %v", valid.String(), got, err)
		}
		whole, err := through(string(seed), len(seed)+1)
		pieces, err2 := through(string(seed), int(size)+1)
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() || err == nil && whole != pieces {
			t.Errorf("%q: in one piece %v, in pieces %v", seed, err, err2)
		}
	})
}

// client returns a client of go-redis whose server answers the first command with reply, and hangs
// up.
func client(t testing.TB, reply string) *redis.Client {
	c := redis.NewClient(&redis.Options{Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				theirs.SetDeadline(time.Now().Add(time.Minute))
				theirs.Read(make([]byte, 4096))
				io.WriteString(theirs, "-ERR unknown command 'hello'\r\n")
				theirs.Read(make([]byte, 4096))
				io.WriteString(theirs, reply)
			}()
			return Conn(ours), nil
		}})
	return c
}

// FuzzClient: no reply ends the process.
func FuzzClient(f *testing.F) {
	for _, reply := range []string{
		"$1099511627776\r\n", "*1099511627776\r\n", "%1099511627776\r\n", "=1099511627776\r\n", "!1099511627776\r\n",
		"~1099511627776\r\n",
		">1099511627776\r\n", "|1099511627776\r\n", "*2\r\n$1\r\n0\r\n*1099511627776\r\n", "*0\r\n", "*1\r\n:1\r\n",
		"*3\r\n+subscribe\r\n+a\r\n+b\r\n",
		"*3\r\n+message\r\n:1\r\n+b\r\n", "*2\r\n$1\r\n0\r\n*2\r\n+a\r\n+b\r\n", "*3\r\n+message\r\n+a\r\n*1\r\n:1\r\n",
		"-MOVED\r\n", "-ASK \r\n",
		"*2\r\n-ERR x\r\n$5\r\nhello\r\n", "*2\r\n+ip\r\n+1\r\n",
	} {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		ctx := t.Context()
		for _, use := range []func(c *redis.Client) error{
			func(c *redis.Client) error { return c.Scan(ctx, 0, "*", 10).Err() },
			func(c *redis.Client) error {
				cmd := redis.NewMapStringStringCmd(ctx, "sentinel", "master", "m")
				return c.Process(ctx, cmd)
			},
			func(c *redis.Client) error { return c.Process(ctx, redis.NewRawCmd(ctx, "x")) },
			func(c *redis.Client) error {
				pubsub := c.Subscribe(ctx, "a")
				defer pubsub.Close()
				_, err := Receive(ctx, pubsub, time.Second)
				return err
			},
		} {
			c := client(t, reply)
			_ = Call(func() error { return use(c) })
			c.Close()
		}
	})
}

// TestCallContainsPanics: go-redis takes the first element of an array without a look whether
// there is one.
func TestCallContainsPanics(t *testing.T) {
	for _, reply := range []string{"*0\r\n", "*1\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n:1\r\n:1\r\n"} {
		c := client(t, reply)
		pubsub := c.Subscribe(t.Context(), "a")
		if got, err := Receive(t.Context(), pubsub, 10*time.Second); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %v, %v", reply, got, err)
		}
		pubsub.Close()
		c.Close()
	}
}
