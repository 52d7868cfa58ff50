package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestChoose(t *testing.T) {
	none := sentinelView{err: errors.New("down")}
	for name, c := range map[string]struct {
		views []sentinelView
		want  string
	}{
		"nobody": {[]sentinelView{none, none}, ""},
		"one":    {[]sentinelView{none, {addr: "a:1", epoch: 3}}, "a:1"},
		"the later": {[]sentinelView{{addr: "a:1", epoch: 3}, {addr: "a:1", epoch: 3}, {addr: "b:1", epoch: 4}},
			"b:1"},
		"most, if equal":   {[]sentinelView{{addr: "a:1"}, {addr: "b:1"}, {addr: "b:1"}}, "b:1"},
		"a cut off leader": {[]sentinelView{{addr: "b:1", epoch: 9}, none, {addr: "a:1", epoch: 8}}, "b:1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := choose(c.views); got.addr != c.want {
				t.Errorf("%s: got %q, want %q", name, got.addr, c.want)
			}
		})
	}
}

func TestCheckMaster(t *testing.T) {
	role := func(text string) (rest string, err error) {
		client, server := net.Pipe()
		defer client.Close()
		go func() {
			defer server.Close()
			request(bufio.NewReader(server))
			io.WriteString(server, text+"+rest\r\n")
		}()
		err = checkMaster(client)
		if err == nil {
			b, _ := io.ReadAll(client)
			rest = string(b)
		}
		return rest, err
	}
	for reply, want := range map[string]error{
		"*3\r\n$6\r\nmaster\r\n:3129659\r\n*2\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n9001\r\n$7\r\n3129242\r\n" +
			"*3\r\n$1\r\na\r\n$-1\r\n$0\r\n\r\n": nil,
		"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n": nil, "-NOAUTH Authentication required.\r\n": nil, "-NOPERM no\r\n": nil,
		"-LOADING x\r\n": nil,
		"*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:9000\r\n$9\r\nconnected\r\n:3167038\r\n": errReplica,
		"*2\r\n$8\r\nsentinel\r\n*1\r\n$1\r\nm\r\n":                                        errSentinelItself,
	} {
		t.Run(reply, func(t *testing.T) {
			rest, err := role(reply)
			if !errors.Is(err, want) || err == nil && rest != "+rest\r\n" {
				t.Errorf("%q: got %v, left %q; want %v", reply, err, rest, want)
			}
		})
	}
	for _, reply := range []string{"*1\r\n$99999999\r\n", "*99999999\r\n", "*x\r\n", "\r\n",
		"*100\r\n" + strings.Repeat("$4000\r\n"+strings.Repeat("x", 4000)+"\r\n", 100)} {
		if _, err := role(reply); err == nil {
			t.Errorf("%.40q passes", reply)
		}
	}
}

// machines are servers in a bubble.
type machines struct {
	mu sync.Mutex
	is map[string]string
}

func (m *machines) set(addr, role string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.is[addr] = role
}

// dial answers dials to addresses by what each is at the moment: "master", "slave", "refuse", or
// "" for a machine that is not there at all.
func (m *machines) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	m.mu.Lock()
	role := m.is[addr]
	m.mu.Unlock()
	if role == "refuse" {
		return nil, errors.New("connection refused")
	}
	if role == "" {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		request(bufio.NewReader(server))
		io.WriteString(server, "*1\r\n$"+string('0'+rune(len(role)))+"\r\n"+role+"\r\n+at "+addr+"\r\n")
	}()
	return client, nil
}

func (m *machines) upstream(roles map[string]string, sentinels ...string) *Upstream {
	m.is = roles
	return New(Options{Name: "m", Dial: m.dial, Sentinel: &SentinelOptions{Master: "m", Addrs: sentinels}})
}

func dialled(t *testing.T, u *Upstream) (string, error) {
	t.Helper()
	conn, err := u.Dial(t.Context())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	reply, err := readReply(newReader(conn), "")
	return string(reply.Kind) + reply.Text, err
}

func TestDialMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m machines
		u := m.upstream(map[string]string{"a:1": "master", "b:1": "slave"}, "s:1", "s:2")
		s := u.sentinels
		if _, err := dialled(t, u); Reason(err) != "no Sentinel knows the master: not asked yet" {
			t.Errorf("nothing known: %v", err)
		}
		later := func(d time.Duration, i int, v sentinelView) { time.AfterFunc(d, func() { s.note(i, v) }) }
		expect := func(what, want string, after time.Duration) {
			t.Helper()
			start := time.Now()
			got, err := dialled(t, u)
			if err != nil {
				got = Reason(err)
			}
			if got != want || time.Since(start) != after {
				t.Errorf("%s: got %q after %v, want %q after %v", what, got, time.Since(start), want, after)
			}
		}
		later(300*time.Millisecond, 0, sentinelView{addr: "a:1"})
		expect("known soon", "+at a:1", 300*time.Millisecond)
		m.set("a:1", "refuse")
		expect("no other is named", "connection refused", lookAgain)
		later(500*time.Millisecond, 1, sentinelView{addr: "b:1", epoch: 1})
		expect("the other is no master yet", "is a replica", 500*time.Millisecond+lookAgain)
		m.set("b:1", "master")
		expect("the other", "+at b:1", 0)
		m.set("a:1", "master")
		m.set("b:1", "slave")
		later(700*time.Millisecond, 0, sentinelView{addr: "a:1", epoch: 2})
		expect("demoted", "+at a:1", 700*time.Millisecond)
		m.set("a:1", "") // the machine is gone: a dial would hang until its time is up
		later(1500*time.Millisecond, 0, sentinelView{addr: "c:1", epoch: 3})
		m.set("c:1", "master")
		expect("named while dialling", "+at c:1", 1500*time.Millisecond)
		s.note(0, sentinelView{err: errors.New("gone")})
		s.note(1, sentinelView{err: errors.New("gone")})
		expect("no sentinel left", "+at c:1", 0)
		s.note(1, sentinelView{addr: "b:1", epoch: 1})
		expect("one that lags behind", "+at c:1", 0)
		m.set("b:1", "master")
		s.note(0, sentinelView{addr: "b:1", epoch: 1})
		expect("sentinels set up anew", "+at b:1", 0)
	})
}

// What Follow promises: old ends when the old master is gone, refuses writes, or has had its time.
func TestFollowEndsOldConnections(t *testing.T) {
	for name, c := range map[string]struct {
		first, then string
		want        time.Duration
	}{
		"gone already":    {"refuse", "refuse", 0},
		"vanished":        {"", "", lookAgain},
		"demoted later":   {"master", "slave", 2 * time.Second},
		"ends later":      {"master", "refuse", 2 * time.Second},
		"does not notice": {"master", "master", oldPatience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m machines
				u := m.upstream(map[string]string{"a:1": c.first}, "s:1")
				time.AfterFunc(2*time.Second-time.Millisecond, func() { m.set("a:1", c.then) })
				ctx, cancel := context.WithTimeout(t.Context(), oldPatience)
				defer cancel()
				start := time.Now()
				u.outlast(ctx, "a:1")
				if d := time.Since(start); d != c.want {
					t.Errorf("after %v, want %v", d, c.want)
				}
			})
		})
	}
}

// TestPermissionFollowsFailover: the master that the Sentinels name is asked who may lock, and
// after a failover the new one.
func TestPermissionFollowsFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var master atomic.Value
		master.Store("a")
		p := NewPermission(New(Options{Name: "m", Sentinel: &SentinelOptions{Master: "m", Addrs: []string{"s:1"}},
			Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					defer server.Close()
					host, _, _ := strings.Cut(addr, ":")
					answerAs(server, host, func() string { return master.Load().(string) })
				}()
				return client, nil
			}}))
		defer time.Sleep(time.Second) // go-redis' last goroutine
		defer p.Close()
		if err := p.Check(t.Context()); err != nil {
			t.Errorf("Check: %v", err)
		}
		for _, name := range []string{"a", "b"} {
			master.Store(name)
			time.Sleep(sentinelEvery + time.Millisecond)
			if got, err := p.MayWrite(t.Context(), "app", "job"); err != nil || got != "not on "+name {
				t.Errorf("the master is %s: got %q %v", name, got, err)
			}
		}
	})
}

// answerAs answers commands as the server called name does: a Sentinel if that is "s", else a
// master, which refuses everybody in its own words. master names the one that the Sentinel names.
func answerAs(conn net.Conn, name string, master func() string) {
	for r := bufio.NewReader(conn); ; {
		line := strings.ToLower(request(r))
		word, _, _ := strings.Cut(line, " ")
		reply := "-ERR unknown command\r\n"
		switch {
		case line == "":
			return
		case word == "role":
			reply = "*1\r\n$6\r\nmaster\r\n"
		case word == "acl":
			reply = "$8\r\nnot on " + name + "\r\n"
		case word == "sentinel":
			epoch := master()[0] - 'a' + '0'
			reply = "*6\r\n+ip\r\n+" + master() + "\r\n+port\r\n+1\r\n+config-epoch\r\n+" + string(epoch) + "\r\n"
		case word == "subscribe":
			reply = "*3\r\n+subscribe\r\n+switch-master\r\n:1\r\n"
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// TestSentinelWithImpossibleLengthsIsRefused: go-redis would allocate any length that a Sentinel
// announces, on a goroutine of its own.
func TestSentinelWithImpossibleLengthsIsRefused(t *testing.T) {
	for _, answer := range []string{
		"$1099511627776\r\n", "*1099511627776\r\n", "%1099511627776\r\n", "=1099511627776\r\n", "!1099511627776\r\n",
		"~1099511627776\r\n",
		">1099511627776\r\n", "|1099511627776\r\n", "*2\r\n+ip\r\n$1099511627776\r\n", "*0\r\n", "*1\r\n:1\r\n",
	} {
		for _, command := range []string{"sentinel", "subscribe", "hello"} {
			t.Run(command+" "+strings.TrimSpace(answer), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { faceSentinel(t, command, answer) })
			})
		}
	}
}

// faceSentinel follows a Sentinel that answers one command with answer, and a sound one.
func faceSentinel(t *testing.T, command, answer string) {
	u := New(Options{Name: "m", Sentinel: &SentinelOptions{Master: "m", Addrs: []string{"bad:1", "s:1"}},
		Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				if addr != "bad:1" {
					answerAs(server, "s", func() string { return "a" })
					return
				}
				for r := bufio.NewReader(server); ; {
					word, _, _ := strings.Cut(strings.ToLower(request(r)), " ")
					reply := "-ERR unknown command\r\n"
					switch word {
					case "":
						return
					case command:
						reply = answer
					}
					if _, err := io.WriteString(server, reply); err != nil {
						return
					}
				}
			}()
			return client, nil
		}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.Follow(ctx, func(context.Context) {})
	}()
	time.Sleep(5*time.Second + time.Millisecond)
	if addr, _ := u.sentinels.current(); addr != "a:1" {
		t.Errorf("the master is %q, want what the other Sentinel says", addr)
	}
	if command == "sentinel" && strings.HasPrefix(answer, "$1099") {
		const want = "announces a reply of 1099511627776 bytes, at most 16777216 are read"
		u.sentinels.mu.Lock()
		if err := u.sentinels.views[0].err; Reason(err) != want {
			t.Errorf("the reason is %q, want %q", Reason(err), want)
		}
		u.sentinels.mu.Unlock()
	}
	cancel()
	<-done
	time.Sleep(time.Second) // go-redis' last goroutine
}
