package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/redistest"
	"lockproxy/upstream"
)

// TestLockListenerSharesTheProxy: a lock excludes LOCK, max-clients counts the clients of both
// listeners, and the end of the proxy ends both.
func TestLockListenerSharesTheProxy(t *testing.T) {
	address, log, stop := started(t, "--adopt-listen", "127.0.0.1:0", "--adopt-keys", "job:*", "--max-clients", "2")
	found := regexp.MustCompile(`"msg":"lock listener","adopt_listen":\["([^"]*)"\],"adopt_keys":"job:\*","hint":`).
		FindStringSubmatch(log.String())
	if found == nil {
		t.Fatalf("no line about the lock listener: %s", log)
	}
	locks, main := dialRaw(t, found[1]), dialRaw(t, address)
	for _, step := range []struct {
		conn       *rawConn
		send, want string
	}{
		{locks, "SET job:1 A NX PX 30000", "+OK"}, {main, "LOCK job:1 30s", "$-1"},
		{main, "SET job:1 data", "+OK"}, // on the main listener SET stays SET
		{locks, "SET other x", "+OK"}, {main, "DBSIZE", ":2"}, {locks, "HSET job:1 a b",
			"-ERR lock key 'job:1': 'hset' is not a lock command"},
	} {
		var got string
		eventually(t, step.send+" without NOQUORUM", func() bool { // a busy machine may have none for a moment
			got = step.conn.ask(step.send)
			return !strings.HasPrefix(got, "-NOQUORUM ")
		})
		if got != step.want {
			t.Errorf("%s: got %q, want %q", step.send, got, step.want)
		}
	}
	for _, addr := range []string{address, found[1]} {
		if got := dialRaw(t, addr).ask("PING"); got != "-ERR max number of clients reached" {
			t.Errorf("a third client at %s gets %q", addr, got)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, addr := range []string{address, found[1]} {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s is open after the end", addr)
		}
	}
}

// rawConn is a client that sends inline commands and reads lines.
type rawConn struct {
	net.Conn
	replies *bufio.Reader
}

func dialRaw(t *testing.T, addr string) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return &rawConn{c, bufio.NewReader(c)}
}

// ask returns the first line of the reply, or the error.
func (c *rawConn) ask(command string) string {
	io.WriteString(c, command+"\r\n")
	line, err := c.replies.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// TestCheckShowsLockKeys: --check shows the patterns of lock keys, and refuses wrong ones.
func TestCheckShowsLockKeys(t *testing.T) {
	for _, c := range []struct{ keys, stdout, err string }{
		{"job:*,*:lock", "lock listener: 127.0.0.1:1, adopt-keys job:*,*:lock\n", ""},
		{"*", "lock listener: 127.0.0.1:1, adopt-keys *\n", ""},
		{"job:[", "", "settings:\n  adopt-keys: pattern \"job:[\" "},
	} {
		t.Run(c.keys, func(t *testing.T) {
			var stdout output
			err := run(t.Context(), []string{"--check", "--embedded", "--adopt-listen=127.0.0.1:1", "--adopt-keys", c.keys},
				nil,
				&stdout, io.Discard)
			if !strings.Contains(stdout.String(), c.stdout) || (err == nil) != (c.err == "") ||
				err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("printed %q, %v", stdout.String(), err)
			}
		})
	}
}

// TestLeftUpstreamGoesThroughAllDatabases: it finds the keys that match, in every database.
func TestLeftUpstreamGoesThroughAllDatabases(t *testing.T) {
	server := redistest.Start(t)
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, server.Network, server.Addr)
	}
	c, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var want []string
	for db := range 3 {
		fmt.Fprintf(c, "SELECT %d\r\nSET other%d x\r\n", 2*db, db)
		for i := range 2500 { // more than one step of SCAN
			key := fmt.Sprintf("job:%d:%d", db, i)
			fmt.Fprintf(c, "SET %s x\r\n", key)
			want = append(want, key)
		}
	}
	io.WriteString(c, "QUIT\r\n")
	io.ReadAll(c)
	var got []string
	err = leftUpstream(dial)(t.Context(), "job:*", func(key []byte) { got = append(got, string(key)) })
	slices.Sort(want)
	slices.Sort(got)
	if got = slices.Compact(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("found %d keys, want %d: %v", len(got), len(want), err)
	}
	c, err = dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "CONFIG SET requirepass secret\r\n")
	bufio.NewReader(c).ReadString('\n')
	err = leftUpstream(dial)(t.Context(), "job:*", func([]byte) {})
	if err == nil || !strings.HasPrefix(upstream.Reason(err), "NOAUTH ") {
		t.Errorf("without the password: %v", err)
	}
}
