package relay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Each reply to 20,000 random commands, or 100,000 with INTEGRATION_LONG, mixed with LOCK and
// UNLOCK, matches a model: over several connections, RESP2 and RESP3, in pipelines of random
// length and random fragments.
func TestRandomCommandsMatchModel(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	c := lab.StartCluster(t, 3)
	const connections = 8
	commands := lab.Long(20_000, 100_000)
	results := make(chan error, connections)
	models := make([]*model, connections)
	stop, flooded := make(chan struct{}), make(chan error, 1)
	other := lab.Dial(t, c.Addr)
	go func() { flooded <- flood(other.Conn, stop) }()
	for i := range connections {
		host := lab.Dial(t, c.Addr)
		if i%2 == 1 {
			host = lab.Dial3(t, c.Addr)
		}
		if i == 1 { // pushes come between the replies of this one
			host.WantDo(">3\r\n"+lab.Bulk("subscribe")+lab.Bulk("news")+":1\r\n", "SUBSCRIBE", "news")
		}
		m := &model{Rand: rand.New(rand.NewPCG(seed, uint64(i))), conn: host.Conn, name: fmt.Sprintf("c%d", i),
			null:   lab.Null2,
			values: map[string]string{}, tokens: map[string]string{}}
		if i%2 == 1 {
			m.null = lab.Null3
		}
		models[i] = m
		go func() { results <- m.run(commands / connections) }()
	}
	for range connections {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if err := <-flooded; err != nil {
		t.Error(err)
	}
	granted, busy := 0, 0
	for _, m := range models {
		granted, busy = granted+m.granted, busy+m.busy
	}
	t.Logf("%d locks granted, %d answers of a busy proxy", granted, busy)
	if granted < 100 {
		t.Errorf("got %d locks, want at least 100", granted)
	}
	if !t.Failed() {
		lab.WantNoStray(t, c.Masters, c.Proxy)
	}
}

// model predicts each reply on one connection. The connection's keys are its own.
type model struct {
	*rand.Rand
	conn    *lab.Conn
	name    string
	null    string
	values  map[string]string // of the upstream
	tokens  map[string]string // of locks held; "" before the reply to LOCK is read
	counter int
	echo    int

	fresh   [5]int          // by number of a key: how often a new key took its place
	unsure  map[string]bool // keys whose lock a busy proxy may or may not have released
	left    [][2]string     // unsure keys with tokens, to be unlocked at the end
	granted int
	busy    int
}

// isBusy reports whether a reply is the error of a proxy or a master without processor time.
func isBusy(reply string) bool {
	return strings.HasPrefix(reply, busyAnswers[0]) || strings.HasPrefix(reply, busyAnswers[1])
}

// expect is a pending reply: its bytes, or those of a lock command.
type expect struct {
	sent, reply string
	lock        string // key of a lock command
	number      int    // of that key
	changes     bool   // the command takes or releases the lock; LOCK then gets a token for a reply
}

func (m *model) run(commands int) error {
	for commands > 0 {
		n := min(1+m.IntN(1<<m.IntN(9)), commands)
		commands -= n
		var text strings.Builder
		var expected []expect
		for range n {
			sent, e := m.next()
			text.WriteString(sent)
			expected = append(expected, e)
		}
		written := make(chan error, 1)
		cuts := rand.New(rand.NewPCG(m.Uint64(), 0))
		go func() { written <- fragments(m.conn, text.String(), cuts) }()
		for i, e := range expected {
			if err := m.check(e); err != nil {
				return fmt.Errorf("%s: reply %d of %d: %w", m.name, i, n, err)
			}
		}
		if err := <-written; err != nil {
			return err
		}
	}
	for key, token := range m.tokens { // locks that are still held
		if reply, err := m.skipPushes(m.conn.Ask("UNLOCK", key, token)); err != nil || reply != ":1\r\n" && !isBusy(reply) {
			return fmt.Errorf("%s: UNLOCK %s at the end: got %q (%w), want 1", m.name, key, reply, err)
		}
	}
	for _, l := range m.left {
		if _, err := m.skipPushes(m.conn.Ask("UNLOCK", l[0], l[1])); err != nil {
			return fmt.Errorf("%s: UNLOCK %s at the end: %w", m.name, l[0], err)
		}
	}
	return nil
}

// fragments writes text in pieces of random size, mostly small ones.
func fragments(c *lab.Conn, text string, r *rand.Rand) error {
	for text != "" {
		n := min(1+r.IntN(1<<r.IntN(15)), len(text))
		if err := c.Put(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// next chooses a command and returns it with its right reply.
func (m *model) next() (sent string, e expect) {
	number := m.IntN(len(m.fresh))
	key := fmt.Sprintf("%s-%d", m.name, number)
	if n := m.fresh[number]; n > 0 {
		key = fmt.Sprintf("%s-%d.%d", m.name, number, n)
	}
	switch m.IntN(20) {
	case 0:
		sent, e = m.lock(key)
	case 1:
		sent, e = m.unlock(key)
	case 2, 3, 4, 5, 6:
		value := strings.Repeat(fmt.Sprintf("%s:%d$-1\r\n", m.name, m.Int()), m.IntN(1<<m.IntN(8)))
		m.values[key] = value
		sent, e.reply = lab.Encode("SET", key, value), "+OK\r\n"
	case 7, 8, 9, 10, 11:
		sent, e.reply = lab.Encode("GET", key), m.null
		if value, ok := m.values[key]; ok {
			e.reply = lab.Bulk(value)
		}
	case 12, 13:
		m.counter++
		sent, e.reply = lab.Encode("INCR", m.name+"-counter"), lab.Integer(m.counter)
	case 14:
		sent, e.reply = "SET "+m.name+" \"inline\"\r\n", "+OK\r\n"
	case 15:
		sent, e.reply = lab.Encode("MGET", key, "none", key), ""
		value := m.null
		if v, ok := m.values[key]; ok {
			value = lab.Bulk(v)
		}
		e.reply = "*3\r\n" + value + m.null + value
	case 16:
		sent, e.reply = lab.Encode("GET", key, "x"), "-ERR wrong number of arguments for 'get' command\r\n"
	case 17:
		sent, e.reply = lab.Encode("LOCK", key), "-ERR wrong number of arguments for 'lock' command\r\n"
	case 18:
		unknown := fmt.Sprintf("%s%x", m.name, m.Uint64())
		sent, e.reply = lab.Encode(unknown), "-ERR unknown command '"+unknown+"', with args beginning with: \r\n"
	default:
		m.echo++
		text := fmt.Sprintf("%s echo %d", m.name, m.echo)
		sent, e.reply = lab.Encode("ECHO", text), lab.Bulk(text)
	}
	e.sent, e.number = sent, number
	return sent, e
}

func (m *model) lock(key string) (string, expect) {
	sent := lab.Encode("LOCK", key, "60s")
	if _, held := m.tokens[key]; held {
		return sent, expect{reply: m.null, lock: key}
	}
	m.tokens[key] = ""
	return sent, expect{lock: key, changes: true}
}

// unlock releases a lock whose token is known; otherwise it tries a token that was never granted.
func (m *model) unlock(key string) (string, expect) {
	if token := m.tokens[key]; token != "" {
		delete(m.tokens, key)
		return lab.Encode("UNLOCK", key, token), expect{reply: ":1\r\n", lock: key, changes: true}
	}
	return lab.Encode("UNLOCK", key, "0000000000000001:"+strings.Repeat("f", 40)), expect{reply: ":0\r\n", lock: key}
}

func (m *model) check(e expect) error {
	got, err := m.skipPushes(m.conn.Next())
	switch {
	case err != nil:
		return fmt.Errorf("to %.80q: %w", e.sent, err)
	case e.lock != "" && (isBusy(got) || m.unsure[e.lock]):
		return m.checkUnsure(e, got)
	case e.lock != "" && e.reply == "":
		token := lab.TokenOf(got)
		if token == "" {
			return fmt.Errorf("to %.80q: got %.200q, want a token", e.sent, got)
		}
		m.granted++
		if _, held := m.tokens[e.lock]; held {
			m.tokens[e.lock] = token
		}
	case got != e.reply:
		return fmt.Errorf("to %.80q: got %.200q, want %.200q", e.sent, got, e.reply)
	}
	return nil
}

// checkUnsure checks the reply of a proxy that is or was too busy to know the state of a lock: any
// reply to a lock command is right until new commands use another key.
func (m *model) checkUnsure(e expect, got string) error {
	switch token := lab.TokenOf(got); {
	case isBusy(got):
		m.busy++
	case token != "":
		m.left = append(m.left, [2]string{e.lock, token})
	case got != m.null && got != ":0\r\n" && got != ":1\r\n":
		return fmt.Errorf("to %.80q: got %.200q, want a reply to a lock command", e.sent, got)
	}
	if e.changes && !m.unsure[e.lock] {
		if m.unsure == nil {
			m.unsure = map[string]bool{}
		}
		m.unsure[e.lock] = true
		m.fresh[e.number]++
		if token := m.tokens[e.lock]; token != "" {
			m.left = append(m.left, [2]string{e.lock, token})
		}
		delete(m.tokens, e.lock)
	}
	return nil
}

// skipPushes reads on while the frame is a push.
func (m *model) skipPushes(frame string, err error) (string, error) {
	for err == nil && lab.IsPush(frame) {
		frame, err = m.conn.Next()
	}
	return frame, err
}
