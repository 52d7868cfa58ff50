package relay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// No client ever gets bytes that belong to another: 200 clients connect and leave, with unique
// values, pipelines that are cancelled or killed in the middle, pub/sub, transactions and locks.
func TestClientsNeverGetForeignReplies(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	c := lab.StartCluster(t, 3, "--master-timeout", "2s")
	const clients = 200
	var wg sync.WaitGroup
	var runs, replies atomic.Int64
	failed := make(chan error, clients)
	visits := lab.Long(2, 100)
	for i := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := range visits {
				g := guest{Rand: r, name: fmt.Sprintf("guest-%d-%d", i, n), addr: c.Addr, upstream: c.Upstream.Addr}
				if err := g.visit(); err != nil {
					failed <- fmt.Errorf("%s: %w", g.name, err)
					return
				}
				runs.Add(1)
				replies.Add(g.checked)
			}
		})
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	t.Logf("%d visits, %d replies checked", runs.Load(), replies.Load())
	if !t.Failed() {
		desk := lab.Dial(t, c.Addr)
		lab.WaitFor(t, "all clients disconnected", lab.Patience,
			func() bool { return desk.Counter("connected_clients") == 1 })
	}
}

// guest is one connection of a client.
type guest struct {
	*rand.Rand
	name, addr, upstream string
	conn                 *lab.Conn
	checked              int64
}

func (g *guest) visit() (err error) {
	if g.conn, err = lab.Connect(g.addr); err != nil {
		return err
	}
	defer g.conn.Close()
	g.conn.Timeout = time.Minute
	switch g.IntN(6) {
	case 0:
		return g.cancelled()
	case 1:
		return g.killed()
	case 2:
		return g.subscriber()
	case 3:
		return g.transaction()
	}
	const commands = 60
	m := &model{Rand: g.Rand, conn: g.conn, name: g.name, null: lab.Null2, values: map[string]string{},
		tokens: map[string]string{}}
	g.checked += commands
	return m.run(commands)
}

// echoes sends a pipeline of ECHO with unique values, and LOCKs among them, and returns the
// wanted replies; "" is a token, or the error of a busy proxy.
func (g *guest) echoes(n int) (expected []string, err error) {
	var text strings.Builder
	for i := range n {
		value := fmt.Sprintf("%s/%d/%s", g.name, i, strings.Repeat("v", g.IntN(2000)))
		if g.IntN(10) == 0 {
			text.WriteString(lab.Encode("LOCK", value[:min(len(value), 1000)], "30s"))
			expected = append(expected, "")
			continue
		}
		text.WriteString(lab.Encode("ECHO", value))
		expected = append(expected, lab.Bulk(value))
	}
	return expected, g.conn.Put(text.String())
}

// expect reads replies and compares them; ended: the connection was closed before the last.
func (g *guest) expect(replies []string) (ended bool, err error) {
	for _, want := range replies {
		got, err := g.conn.Next()
		if err != nil {
			return true, nil
		}
		g.checked++
		if got != want && !(want == "" && (lab.TokenOf(got) != "" || isBusy(got))) {
			return false, fmt.Errorf("got %.200q, want %.200q", got, want)
		}
	}
	return false, nil
}

// cancelled leaves in the middle of its replies, possibly while it blocks or waits.
func (g *guest) cancelled() error {
	expected, err := g.echoes(20)
	if err != nil {
		return err
	}
	switch g.IntN(3) {
	case 0:
		err = g.conn.Put(lab.Encode("BLPOP", g.name, "0"))
	case 1:
		err = g.conn.Put(lab.Encode("LOCK", "everybody's", "5s", "WAIT", "1s"))
	}
	if err != nil {
		return err
	}
	if _, err := g.expect(expected[:g.IntN(len(expected))]); err != nil {
		return err
	}
	if g.IntN(2) == 0 {
		g.conn.Reset()
	}
	return nil
}

// killed loses its connection to the upstream while replies are on their way.
func (g *guest) killed() error {
	id, err := g.conn.Ask("CLIENT", "ID")
	if err != nil {
		return err
	}
	expected, err := g.echoes(50)
	if err != nil {
		return err
	}
	killer, err := lab.Connect(g.upstream)
	if err != nil {
		return err
	}
	defer killer.Close()
	if _, err := killer.Ask("CLIENT", "KILL", "ID", strings.TrimSpace(id[1:])); err != nil {
		return err
	}
	ended, err := g.expect(expected)
	if err != nil || ended {
		return err
	}
	if text, closed, _ := g.conn.Rest(lab.Patience); !closed || text != "" {
		return fmt.Errorf("after CLIENT KILL: got %.100q, closed %v", text, closed)
	}
	return nil
}

// subscriber gets the messages of its own channel and no others.
func (g *guest) subscriber() error {
	other, err := lab.Connect(g.addr)
	if err != nil {
		return err
	}
	defer other.Close()
	want := "*3\r\n" + lab.Bulk("subscribe") + lab.Bulk(g.name) + ":1\r\n"
	if got, err := g.conn.Ask("SUBSCRIBE", g.name); err != nil || got != want {
		return fmt.Errorf("got %.100q (%w), want %.100q", got, err, want)
	}
	for i := range 10 {
		value := fmt.Sprint(g.name, "/said/", i)
		if got, err := other.Ask("PUBLISH", g.name, value); err != nil || got != ":1\r\n" {
			return fmt.Errorf("PUBLISH: got %.100q (%w)", got, err)
		}
		if _, err := g.expect([]string{"*3\r\n" + lab.Bulk("message") + lab.Bulk(g.name) + lab.Bulk(value)}); err != nil {
			return err
		}
	}
	return nil
}

// transaction runs a few with unique values, one with a LOCK, which aborts it.
func (g *guest) transaction() error {
	for i := range 10 {
		value := fmt.Sprint(g.name, "/tx/", i)
		text, want := lab.Encode("MULTI")+lab.Encode("SET", g.name, value)+lab.Encode("GET", g.name),
			[]string{"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n"}
		if g.IntN(3) == 0 {
			text += lab.Encode("LOCK", g.name, "1s") + lab.Encode("EXEC")
			want = append(want, "-ERR LOCK is not allowed in transactions\r\n",
				"-EXECABORT Transaction discarded because of previous errors.\r\n")
		} else {
			text += lab.Encode("EXEC")
			want = append(want, "*2\r\n+OK\r\n"+lab.Bulk(value))
		}
		if err := g.conn.Put(text); err != nil {
			return err
		}
		if ended, err := g.expect(want); err != nil || ended {
			return fmt.Errorf("closed %v: %w", ended, err)
		}
	}
	return nil
}
