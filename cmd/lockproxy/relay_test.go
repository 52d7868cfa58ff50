package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestEmbeddedDefaultKeepsOrder sends pipelines that mix lock commands with others, in the states
// in which the relay relies on the answers of the embedded upstream.
func TestEmbeddedDefaultKeepsOrder(t *testing.T) {
	address, log, _ := started(t)
	for name, c := range map[string]struct{ send, want string }{
		"among others": {"SET a 1\nLOCK k1 5s\nGET a\nPING", `+OK\n$57\nTOKEN\n$1\n1\n+PONG\n`},
		"in MULTI": {"MULTI\nSET b 1\nLOCK k2 5s\nEXEC\nGET b\nLOCK k2 5s",
			`+OK\n+QUEUED\n-ERR LOCK is not allowed in transactions\n-EXECABORT[^\n]*\n$-1\n$57\nTOKEN\n`},
		"after EXEC":   {"MULTI\nPING\nEXEC\nLOCK k3 5s", `+OK\n+QUEUED\n*1\n+PONG\n$57\nTOKEN\n`},
		"in RESP3":     {"HELLO 3\nLOCK k4 5s\nLOCK k4 5s\nPING", `%7\n(?s:.*)$57\nTOKEN\n_\n+PONG\n`},
		"behind BLPOP": {"BLPOP none 0.05\nLOCK k5 5s\nPING", `*-1\n$57\nTOKEN\n+PONG\n`},
		"while subscribed": {"SUBSCRIBE news\nLOCK k6 5s\nRESET\nLOCK k6 5s",
			`*3\n$9\nsubscribe\n$4\nnews\n:1\n-ERR Can't execute 'lock'[^\n]*\n+RESET\n$57\nTOKEN\n`},
		"unknown command": {"4711\nLOCK k7 5s\nPING", `-ERR unknown command[^\n]*\n$57\nTOKEN\n+PONG\n`},
		"a panic":         {"SADD set a\nSSCAN set -1", `:1\n-ERR internal error of the embedded server\n`},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			io.WriteString(conn, strings.ReplaceAll(c.send, "\n", "\r\n")+"\r\n")
			conn.(*net.TCPConn).CloseWrite()
			got, err := io.ReadAll(bufio.NewReader(conn))
			if err != nil {
				t.Error(err)
			}
			pattern := strings.NewReplacer("$", `\$`, "*", `\*`, "+", `\+`, `[^\n]*`, `[^\n]*`, `(?s:.*)`, `(?s:.*)`, "TOKEN",
				"[0-9]{16}:[0-9a-f]{40}").Replace(c.want)
			if text := strings.ReplaceAll(string(got), "\r\n",
				"\n"); !regexp.MustCompile("^" + pattern + "$").MatchString(text) {
				t.Errorf("got %q, want %q\n%s", text, c.want, log)
			}
		})
	}
}

// A client that leaves while it waits in BLPOP must not take an element with it, through the
// relay, too.
func TestEmbeddedDefaultKeepsElementsOfLeavingClients(t *testing.T) {
	address, log, _ := started(t, "--admin-listen", "off") // which asks the upstream how it is
	if strings.Contains(log.String(), "http://") {
		t.Errorf("a page is served:\n%s", log)
	}
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	for i := range 10 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		list := fmt.Sprintf("list-%d", i)
		io.WriteString(conn, "PING\r\nBLPOP "+list+" 0\r\n")
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.ReadFull(conn, make([]byte, 7))
		conn.Close()
		eventually(t, "the session ends", func() bool {
			return strings.Contains(client.Info(t.Context(), "clients").Val(), "connected_clients:1\r\n")
		})
		client.RPush(t.Context(), list, "x")
		if n := client.LLen(t.Context(), list).Val(); n != 1 {
			t.Errorf("%d elements, want 1: one was popped for nobody", n)
		}
	}
}
