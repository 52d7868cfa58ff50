package commands_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

// oneLock is a Locker with a single lock. lockproxy uses a *quorum.Quorum.
type oneLock struct {
	commands.Locker
	commands.Watcher
	commands.Inspector
	held bool
}

func (*oneLock) Masters() []stat.Master { return nil }

func (l *oneLock) AcquireAsync(r quorum.Request, done func(quorum.Lease, error)) (leave func() bool) {
	if l.held {
		done(quorum.Lease{}, quorum.ErrHeld)
		return nil
	}
	l.held = true
	token := quorum.Token{Fence: 7, Secret: strings.Repeat("9f", 20)}
	done(quorum.Lease{Token: token, Validity: r.TTL}, nil)
	return nil
}

func (*oneLock) Flush() {}
func (*oneLock) Drain() {}

func (l *oneLock) ReleaseAsync(_ quorum.ReleaseRequest, done func(held bool, err error)) {
	held := l.held
	l.held = false
	done(held, nil)
}

// noPassword is an AuthGate before an upstream that wants no password.
type noPassword struct{}

func (noPassword) AuthRequired(context.Context) (bool, error) { return false, nil }
func (noPassword) Known() (required, known bool)              { return false, true }
func (noPassword) Last() (required, known bool)               { return false, true }

// The handlers of a Service run in a resp.Server, which relays all other commands.
func Example() {
	lock := &oneLock{}
	service := commands.New(commands.Options{Locker: lock, Watcher: lock, Inspector: lock, Gate: noPassword{},
		MaxTTL: time.Minute, Tunable: commands.Tunable{MinTTL: 10 * time.Millisecond}})
	defer service.Close()
	mux := redcon.NewServeMux()
	service.Register(mux)

	noUpstream := func(context.Context) (net.Conn, error) { return nil, errors.New("no upstream") }
	server := resp.NewServer(resp.Options{Handler: mux, UpstreamName: "none", Dial: noUpstream})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go server.Serve(listener)
	defer server.Shutdown(context.Background())

	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	token := "0000000000000007:" + strings.Repeat("9f", 20)
	io.WriteString(client, "LOCK job 10s\r\nLOCK job 10s\r\nUNLOCK job "+token+"\r\nLOCK job\r\n")
	replies := bufio.NewReader(client)
	for range 5 {
		line, _ := replies.ReadString('\n')
		fmt.Println(strings.TrimSpace(line))
	}
	// Output:
	// $57
	// 0000000000000007:9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f
	// $-1
	// :1
	// -ERR wrong number of arguments for 'lock' command
}
