package resp

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/resp/internal/scan"
)

// timed collects what Options.Timed is called with.
type timed struct {
	mu   sync.Mutex
	all  []string
	took []time.Duration
}

func (t *timed) add(group string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all, t.took = append(t.all, group), append(t.took, took)
}

func (t *timed) list() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.all, " ")
}

// TestFirstOfSoManyPacketsIsTimed: one packet of so many is timed, by its first command, if that
// has one reply of its own and does not block.
func TestFirstOfSoManyPacketsIsTimed(t *testing.T) {
	network, addr := startRedis(t)
	const like = "*1\r\n$3\r\nGET\r\n" // an argument that looks like a request
	const ping, pong = "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"
	type exchange struct{ send, reply string }
	for _, tt := range []struct {
		name string
		all  []exchange // the first and the 17th are due
		want string
	}{
		{"group", []exchange{{"*2\r\n$3\r\nGeT\r\n$1\r\nx\r\n", "$-1\r\n"}, {ping, pong},
			{"*2\r\n$6\r\nEXISTS\r\n$1\r\nx\r\n", ":0\r\n"}}, "string generic"},
		{"pipeline", []exchange{{ping + "*2\r\n$3\r\nGET\r\n$1\r\nx\r\n", pong + "$-1\r\n"}, {}, {}}, "connection"},
		{"unknown", []exchange{{"*1\r\n$3\r\nFOO\r\n", "-ERR unknown command 'FOO', with args beginning with: \r\n"}, {},
			{}}, "other"},
		{"of a module", []exchange{{"*1\r\n$5\r\nFOO.X\r\n",
			"-ERR unknown command 'FOO.X', with args beginning with: \r\n"}, {}, {}}, "module"},
		{"blocks", []exchange{{"*3\r\n$5\r\nBLPOP\r\n$1\r\nq\r\n$4\r\n0.01\r\n", "*-1\r\n"}, {}, {}}, ""},
		{"in a transaction", []exchange{{"MULTI\r\n", "+OK\r\n"}, {ping, "+QUEUED\r\n"}, {ping, "+QUEUED\r\n"}}, ""},
		{"without replies", []exchange{{"CLIENT REPLY OFF\r\n", ""}, {ping, ""},
			{ping + "CLIENT REPLY ON\r\n" + ping, "+OK\r\n" + pong}}, "connection"},
		{"in two packets", []exchange{{ping, pong}, {ping, pong},
			{like + "\r\n" + ping, "$13\r\n" + like + "\r\n" + pong}}, "connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got timed
			r := startRelay(t, network, addr, func(o *Options) { o.Timed = got.add })
			c := r.dial()
			sent := 0
			do := func(x exchange) {
				t.Helper()
				c.send(x.send)
				c.expect(x.reply)
				for sent += len(x.send); r.server.Stats().Received < uint64(sent); {
					time.Sleep(time.Millisecond)
				}
			}
			do(tt.all[0])
			for range 15 {
				do(tt.all[1])
			}
			if tt.name == "in two packets" {
				do(exchange{"*2\r\n$4\r\nECHO\r\n$13\r\n", ""})
			}
			do(tt.all[2])
			c.Close()
			waitGone(t, r.server)
			if got.list() != tt.want {
				t.Errorf("timed: %q, want %q", got.list(), tt.want)
			}
		})
	}
}

func waitGone(t *testing.T, s *Server) {
	t.Helper()
	for deadline := time.Now().Add(patience); s.Connections() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection does not end")
		}
	}
}

// TestTimedLatency: the reported time is the upstream's.
func TestTimedLatency(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var got timed
	r := startRelay(t, "tcp", ln.Addr().String(), func(o *Options) { o.Timed = got.add })
	c := r.dial()
	start := time.Now()
	c.send("*2\r\n$3\r\nGET\r\n$1\r\nx\r\n")
	up, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	upstream := bufio.NewReader(up)
	for range 5 {
		if _, err := upstream.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	arrived := time.Now()
	other := r.dial() // takes a moment
	other.send("LOCK a 1\r\n")
	other.expect("$5\r\nown:a\r\n")
	took := time.Since(arrived)
	fmt.Fprint(up, "$-1\r\n")
	c.expect("$-1\r\n")
	if most := time.Since(start); len(got.took) != 1 || got.took[0] < took || got.took[0] > most {
		t.Errorf("timed %v, want %v to %v", got.took, took, most)
	}
}

// TestGroupsAreThoseOfRedis: the groups are Redis' own.
func TestGroupsAreThoseOfRedis(t *testing.T) {
	network, addr := startRedis(t)
	conn, err := (&net.Dialer{}).DialContext(context.Background(), network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "COMMAND DOCS\r\nECHO end-of-docs\r\n")
	conn.SetReadDeadline(time.Now().Add(patience))
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	name, last, compared := "", "", 0
	for lines.Scan() && lines.Text() != "end-of-docs" {
		text := strings.TrimSuffix(lines.Text(), "\r")
		if text == "" || strings.ContainsRune("$*:", rune(text[0])) {
			continue
		}
		switch {
		case text == "summary":
			name = last
		case last == "group" && name != "": // the first after summary; arguments have such names, too
			if group := groupOf([]byte(name)); !strings.Contains(name, "|") &&
				scan.Classify([]byte(name)) == scan.KindPlain && group != "" && group != text {
				t.Errorf("%s belongs to %s, not %s", name, text, group)
			}
			name = ""
			compared++
		}
		last = text
	}
	if err := lines.Err(); err != nil || compared < 200 {
		t.Errorf("%d commands compared, %v", compared, err)
	}
}
