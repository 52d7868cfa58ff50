package fake

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/redistest"
	"lockproxy/quorum/internal/wire"
)

// realRedis is a connection to a redis-server of this test.
type realRedis struct {
	net.Conn
	in  *bufio.Reader
	buf []byte
}

// startRedis starts a redis-server and connects to it.
func startRedis(t *testing.T) *realRedis {
	t.Helper()
	server := redistest.Start(t)
	c, err := net.Dial(server.Network, server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &realRedis{Conn: c, in: bufio.NewReader(c)}
}

// ask sends a request and returns the reply.
func (r *realRedis) ask(t *testing.T, request []byte) (reply wire.Reply) {
	t.Helper()
	if _, err := r.Write(request); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 64<<10)
	for {
		n, err := wire.Parse(r.buf, &reply)
		if err != nil {
			t.Fatalf("%v: %.500q", err, r.buf)
		}
		if n > 0 {
			r.buf = r.buf[n:]
			return reply
		}
		if n, err = r.in.Read(chunk); err != nil && err != io.EOF || n == 0 {
			t.Fatal(err)
		}
		r.buf = append(r.buf, chunk[:n]...)
	}
}

func (m *Master) ask(t *testing.T, c *Conn, request []byte) (reply wire.Reply) {
	t.Helper()
	args, _ := CutCommand(request)
	answer, _ := m.Run(c, args)
	if n, err := wire.Parse(answer, &reply); n == 0 || err != nil {
		t.Fatalf("%.500q", answer)
	}
	return reply
}

// flat renders a reply. It marks times, because the two clocks are read one after the other, and
// of an error it has only the code.
func flat(r *wire.Reply, clock bool) string {
	switch {
	case r.Null:
		return "null"
	case r.Kind == '*':
		var all []string
		for i := range r.Elems {
			if clock && (i == 1 || i == 2) {
				continue
			}
			all = append(all, flat(&r.Elems[i], false)+" | ")
		}
		if !clock { // fields of hashes come in any order
			slices.SortFunc(all, func(a, b string) int {
				return cmp.Or(cmp.Compare(marked.ReplaceAllString(a, "T"), marked.ReplaceAllString(b, "T")), cmp.Compare(a, b))
			})
		}
		return strings.Join(all, "")
	case r.Kind == ':' && (r.Int > 5000 || r.Int < -100):
		return fmt.Sprintf(":<%d>", r.Int)
	case r.Kind == ':':
		return fmt.Sprintf(":%d", r.Int)
	case r.Kind == '-':
		return "-" + r.Code()
	}
	left, value, ok := strings.Cut(r.Text, " ")
	var n int
	if _, err := fmt.Sscanf(left, "%d", &n); ok && err == nil && len(value) >= 40 && n > 100 {
		return fmt.Sprintf("<%d> %s", n, value)
	}
	return r.Text
}

var (
	// instant matches times since 1970 in ms, and the place after one in the score of a holder.
	instant = regexp.MustCompile(`\b([12]\d{12})(\d{3})?\b`)
	marked  = regexp.MustCompile(`<(-?\d+)>`)
)

// alike reports whether two texts differ at most in marked times, and these by less than 10 s.
func alike(a, b string) bool {
	if marked.ReplaceAllString(a, "T") != marked.ReplaceAllString(b, "T") {
		return false
	}
	ones, others := marked.FindAllStringSubmatch(a, -1), marked.FindAllStringSubmatch(b, -1)
	for i := range ones {
		one, _ := strconv.ParseInt(ones[i][1], 10, 64)
		other, _ := strconv.ParseInt(others[i][1], 10, 64)
		if max(one-other, other-one) >= 10_000 {
			return false
		}
	}
	return true
}

// TestAsRedis: after random packets the in-memory master has the same answers and the same keys as
// Redis.
func TestAsRedis(t *testing.T) {
	r := startRedis(t)
	for seed := range uint64(15) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := New("run")
		r.ask(t, wire.AppendCommand(nil, "FLUSHALL"))
		c := m.Connect(func() {})
		d := &differ{t: t, seed: seed, random: random, redis: r, fake: m, conn: c, last: mine,
			enc: wire.Encoder{StateKey: StateKey, Fencing: seed%5 > 0}}
		for range 60 {
			d.step()
			if t.Failed() {
				return
			}
		}
	}
}

// differ asks both the same.
type differ struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	redis  *realRedis
	fake   *Master
	conn   *Conn
	enc    wire.Encoder
	last   string // the secret of the last reader, or slot
}

func (d *differ) both(what string, request []byte, clock bool) {
	d.t.Helper()
	real, fake := d.redis.ask(d.t, request), d.fake.ask(d.t, d.conn, request)
	if a, b := flat(&real, clock), flat(&fake, clock); !alike(a, b) {
		d.t.Errorf("seed %d, %s: Redis says %s, the fake %s", d.seed, what, a, b)
	}
}

// do runs a command on both.
func (d *differ) do(words ...string) {
	d.t.Helper()
	d.both(strings.Join(words, " "), wire.AppendCommand(nil, words...), false)
}

// limit makes both refuse what takes memory.
func (d *differ) limit(on bool) {
	max := "0"
	d.fake.Denied = ""
	if on {
		max, d.fake.Denied = "1", "OOM command not allowed when used memory > 'maxmemory'."
	}
	d.redis.ask(d.t, wire.AppendCommand(nil, "CONFIG", "SET", "maxmemory", max))
}

// rights takes the rights to some commands from the user of both, or gives them back.
func (d *differ) rights(lacks ...string) {
	words := []string{"ACL", "SETUSER", "default", "+@all"}
	d.fake.Lacks = map[string]bool{}
	for _, name := range lacks {
		words, d.fake.Lacks[name] = append(words, "-"+name), true
	}
	d.redis.ask(d.t, wire.AppendCommand(nil, words...))
}

// mostLacked lists commands to which a user may have no right while the packet goes on.
var mostLacked = []string{"set", "setrange", "del", "pexpire", "pexpireat", "zadd", "zrem", "hset", "hdel",
	"hmget", "zcount", "getrange", "pttl", "publish"}

func (d *differ) step() {
	switch d.random.IntN(14) {
	case 0:
		d.limit(true)
		d.packet()
		d.limit(false)
	case 1:
		key := d.key()
		d.do("DEL", key)
		switch d.random.IntN(3) {
		case 0:
			d.redis.ask(d.t, wire.AppendCommand(nil, "SADD", key, "x"))
			d.fake.SetOther(key)
		case 1:
			d.do("SET", key, "short")
		}
	case 2, 3:
		d.admit()
	case 4:
		known := d.known()
		record, count := d.record(), []string{"", "1"}[d.random.IntN(2)]
		d.both("learn "+known, wire.Learn.Eval(d.enc.StateKey, known, record, count), false)
	case 5:
		d.do("HSET", d.enc.StateKey, fmt.Sprint(d.random.IntN(3)), fmt.Sprint(d.fence(80)))
	case 6:
		at := d.random.IntN(len(mostLacked))
		d.rights(mostLacked[at], mostLacked[d.random.IntN(at+1)])
		d.packet()
		d.rights()
	default:
		d.packet()
	}
	d.probe()
	d.keys()
}

// probe compares the states of both.
func (d *differ) probe() {
	d.t.Helper()
	request := wire.Probe.Eval(d.enc.StateKey)
	real, fake := d.redis.ask(d.t, request), d.fake.ask(d.t, d.conn, request)
	a, ok := wire.ParseProbe(&real)
	b, ok2 := wire.ParseProbe(&fake)
	a.Clock, b.Clock = 0, 0
	if !ok || !ok2 || a != b {
		d.t.Errorf("seed %d: Redis tells %+v, the fake %+v", d.seed, a, b)
	}
}

// keys compares all keys: their types, values and expiries.
func (d *differ) keys() {
	d.t.Helper()
	real := d.redis.ask(d.t, wire.AppendCommand(nil, "KEYS", "*"))
	names := []string{}
	for i := range real.Elems {
		names = append(names, real.Elems[i].Text)
	}
	slices.Sort(names)
	if have := d.fake.names(); !slices.Equal(names, have) {
		d.t.Errorf("seed %d: Redis has the keys %q, the fake %q", d.seed, names, have)
		return
	}
	for _, name := range names {
		ask := d.redis.ask
		kind := ask(d.t, wire.AppendCommand(nil, "TYPE", name)).Text
		d.do("TYPE", name)
		d.do("PTTL", name)
		switch {
		case kind == typeString:
			d.do("GET", name)
		case name == StateKey: // all its counters would take long; the probe has compared how many they are
			d.do("HMGET", name, "record", "settings", "known", "durable", "writes", "0", "1", "2", "3", "4095")
		case kind == typeHash:
			d.same("HGETALL", name)
		case kind == typeZSet:
			d.same("ZRANGEBYSCORE", name, "-inf", "+inf", "WITHSCORES")
		}
	}
}

// pairs makes one sorted text of a long array of pairs.
const pairs = `local all, lines = redis.call(unpack(ARGV)), {}
for i = 1, #all, 2 do lines[#lines + 1] = all[i] .. '=' .. all[i + 1] end
table.sort(lines)
return table.concat(lines, '\n')`

// same compares arrays of pairs, with times marked.
func (d *differ) same(words ...string) {
	d.t.Helper()
	request := wire.AppendCommand(nil, append([]string{"EVAL", pairs, "0"}, words...)...)
	real, fake := d.redis.ask(d.t, request), d.fake.ask(d.t, d.conn, request)
	mark := func(text string) string { return instant.ReplaceAllString(text, "<$1>$2") }
	if a, b := mark(real.Text), mark(fake.Text); !alike(a, b) {
		d.t.Errorf("seed %d, %q: Redis has %.2000s, the fake %.2000s", d.seed, words, a, b)
	}
}

func (d *differ) key() string { return fmt.Sprintf("lock:%c", 'a'+d.random.IntN(3)) }

func (d *differ) secret() string {
	return []string{mine, theirs, "3333333333333333333333333333333333333333", d.last, d.last}[d.random.IntN(5)]
}

// terms are any for a lock at key that is not plain.
func (d *differ) terms(key string) *wire.Terms {
	t := &wire.Terms{Mode: wire.Mode(d.random.IntN(3)), Limit: 1 + d.random.IntN(3), Slot: d.random.IntN(3)}
	t.Waits = []time.Duration{0, 0, time.Minute, 2 * time.Minute}[d.random.IntN(4)]
	t.Try = [2]int{d.random.IntN(t.Limit), d.random.IntN(t.Limit)}
	if t.Mode == wire.Exclusive && d.random.IntN(2) == 0 {
		for _, more := range []string{"lock:a", "lock:b", "lock:c"} {
			if more != key && d.random.IntN(2) == 0 {
				t.More, t.Counters = append(t.More, more), append(t.Counters, uint16(d.random.IntN(3)))
			}
		}
	}
	return t
}

func (d *differ) record() string {
	return []string{"", "A run f 1-0-x", d.fake.State("record")}[d.random.IntN(3)]
}

// packet asks for some operations. Times are far apart, so that the clocks do not matter.
func (d *differ) packet() {
	d.t.Helper()
	var batch wire.Batch
	var what strings.Builder
	for range 1 + d.random.IntN(8) {
		op := &wire.Op{Kind: wire.OpKind(d.random.IntN(int(wire.Free) + 1))}
		op.TokenAt = wire.TokenAt{Key: d.key(), Secret: d.secret()}
		if d.random.IntN(2) == 0 {
			op.Terms = d.terms(op.Key)
		}
		if op.Kind == wire.Acquire && op.Mode() != wire.Exclusive {
			op.Secret = fmt.Sprintf("%040x", d.random.Uint64()) // a token is asked for once
			d.last = op.Secret
		}
		op.Counter = uint16(d.random.IntN(3))
		op.Fence = d.fence(40)
		op.TTL = time.Duration(1+d.random.IntN(9)) * 20 * time.Second
		op.Owner = []string{"", "me", "a label with blanks"}[d.random.IntN(3)]
		op.Publish = d.random.IntN(2) == 0
		if op.Kind == wire.Release && d.random.IntN(3) > 0 {
			op.TTL = 0
		}
		if !batch.Add(op) {
			break
		}
		what.WriteString(fmt.Sprintf("%d %s %s, ", op.Kind, op.Key, op.Secret[:1]))
	}
	record := d.record()
	d.both("packet under "+record+": "+what.String(), d.enc.AppendPacket(nil, &batch, record, true), true)
}

// fence is a number under n, or one around the limit of counters.
func (d *differ) fence(n int) uint64 {
	if d.random.IntN(8) > 0 {
		return uint64(d.random.IntN(n))
	}
	hour := time.Now().Add(time.Hour)
	high := []uint64{wire.FenceLimit(hour.Add(-2 * time.Hour)), wire.FenceLimit(hour), 1<<53 - 2, 1<<53 - 1}
	return high[d.random.IntN(4)]
}

func (d *differ) known() string {
	words := []string{[]string{"f", "g"}[min(d.random.IntN(6), 5)/5]}
	for range 3 {
		words = append(words, []string{"0", "deadbeefdeadbeef", "1-0-aaaaaaaaaaaaaaaa", "2-7-bbbbbbbbbbbbbbbb",
			"2-12-bbbbbbbbbbbbbbbb", "10-0-cccccccccccccccc"}[d.random.IntN(6)])
	}
	return strings.Join(words, " ")
}

func (d *differ) admit() {
	from := []string{"", d.fake.State("record")}[d.random.IntN(2)]
	pick := func(all ...string) string { return all[d.random.IntN(len(all))] }
	args := []string{from, pick("", "1"), pick("A run f 1-0-x", "Q run n 1000 - new -", "A run f 2-0-y"),
		pick("-", "", "max-ttl=1s"), pick("-", "", d.known()), pick("-", "", "run"), pick("1", "100"), pick("", "20")}
	d.both("admit "+strings.Join(args, ","), wire.Admit.Eval(d.enc.StateKey, args...), false)
}
