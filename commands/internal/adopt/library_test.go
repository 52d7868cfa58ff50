package adopt

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/redistest"
)

func sha1Of(body string) string {
	sum := sha1.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// sums has the SHA1 of each body that has the library's bytes, under which EVALSHA knows it.
// Editors and formatters must not change a byte.
var sums = map[string]string{
	"redis-py 4.3.4: LUA_RELEASE_SCRIPT":             "c3f8721cbb97f72bc19e972846bd7aaf91901658",
	"redis-py 4.3.4: LUA_EXTEND_SCRIPT":              "a4e8783852e6b949f9ef3a97212805108459a890",
	"redis-py 4.3.4: LUA_REACQUIRE_SCRIPT":           "1cac51482acf5858da00f6d685d68f886cd6b6b2",
	"redlock 4.2.0: lockScript":                      "e5a322e2634ef59a516e8ea150cb085afafee684",
	"redlock 4.2.0: unlockScript":                    "0f0f23b9048b36752b5be114f357ba083449f908",
	"redlock 4.2.0: extendScript":                    "ce46f80993d5dac20dd066eb301a4e37994bdbed",
	"redlock 5.0.0-beta.2: ACQUIRE_SCRIPT":           "96da70f7716f27d278a5218544df37fd8b0a5e4c",
	"redlock 5.0.0-beta.2: EXTEND_SCRIPT":            "aed6f382e410db8ba7926d4e5e9aab410bf2a78a",
	"redlock 5.0.0-beta.2: RELEASE_SCRIPT":           "e4612211c9f8f51c257e26e056b0a654b3187242",
	"@sesamecare-oss/redlock 1.4.0: ACQUIRE_SCRIPT":  "1b77b94aa78451d55dfa97e18819bfbfc596cb5b",
	"@sesamecare-oss/redlock 1.4.0: EXTEND_SCRIPT":   "820e9778d2b6733e9ed771e4be90ae73a95a6f3b",
	"@sesamecare-oss/redlock 1.4.0: RELEASE_SCRIPT":  "df51f6837dcfe303d334e6abea9aeae192bab216",
	"redis-semaphore 5.8.0: expireIfEqualLua":        "594683e49a64ebaf975caf5f8079a1d097c438f1",
	"redis-semaphore 5.8.0: delIfEqualLua":           "7157921a7cc7cfba979acf6d63f073151df17d12",
	"ioredis-lock 4.0.0: delifequal":                 "4dbb87cd80182f627d42cf6042188ecf00a1ff12",
	"ioredis-lock 4.0.0: pexpireifequal":             "50f5ab4d38adaf78b662a67356cf1fe302b3e00f",
	"@microfleet/ioredis-lock 6.0.1: delifequal":     "da225123b2af4a41136fdba7ffac1e045e344da1",
	"@microfleet/ioredis-lock 6.0.1: pexpireifequal": "bf3108245472c550b02852e1e425128e5eb399c4",
	"@verrou/core 0.5.2: delete":                     "0a87223fb92fcc2308021a1b6da07197448b6402",
	"@verrou/core 0.5.2: extend":                     "3950eadb2785a5afcc0daf9e56adc0bbd14017a4",
	"bsm/redislock 0.9.4: luaObtain":                 "80a1b5f2cfccec3b7119ba7721d2127682b691a7",
	"bsm/redislock 0.9.4: luaRefresh":                "a7aba3bc5d6e99b3003da8b9d80a63b9f4092ecf",
	"bsm/redislock 0.9.4: luaRelease":                "cf0e94b2e9ffc7e04395cf88f7583fc309985910",
	"bsm/redislock 0.9.4: luaPTTL":                   "6484da7d58920897fdc22b7f9afd1a3d47524ea8",
	"redsync 4.18.1: deleteScript":                   "e950836ed1e694540c503ef9972b8de518044d3b",
	"redsync 4.18.1: touchWithSetNXScript":           "b6b55c439e02c6f52ffb8be7ec8c0d0ac816ea79",
	"redsync 4.18.1: touchScript":                    "d75bb8b5bd13532ddedd17762e772346e39b321e",
	"go-zero 1.10.3: lockscript.lua":                 "dbecad63894903ddf755d05d73a3eb7432ef75c0",
	"go-zero 1.10.3: delscript.lua":                  "e04ea1352c46ae16a15753d4960bee821bf3b3fa",
	"Dapr components-contrib 1.18.0: unlockScript":   "08741c111900b6318ee3f60cb3c2fa1f6c74d859",
	"Laravel 8.83.26: releaseLock":                   "647c65a442733a1aa440f99908d249d13b4d6c4a",
}

// formOnly are the rows whose body has the form of the library's script, not its bytes.
const formOnly = 17

// TestSHA1s: the libraries send the bodies byte for byte, but for those of formOnly.
func TestSHA1s(t *testing.T) {
	if got := len(library) - len(sums); got != formOnly {
		t.Errorf("%d bodies have no SHA1, want %d", got, formOnly)
	}
	for _, r := range library {
		want, exact := sums[r.source]
		if !exact {
			continue
		}
		t.Run(r.source, func(t *testing.T) {
			if got := sha1Of(r.body); got != want {
				t.Errorf("SHA1 %s, want %s", got, want)
			}
		})
	}
}

// bodyOf returns the body of the row of source.
func bodyOf(t testing.TB, source string) string {
	t.Helper()
	for _, r := range library {
		if r.source == source {
			return r.body
		}
	}
	t.Fatalf("no row has the source %q", source)
	return ""
}

// TestRowsOfOneForm do the same.
func TestRowsOfOneForm(t *testing.T) {
	for _, r := range library {
		form, ok := formOf(r.body)
		if !ok {
			t.Errorf("%s has no form", r.source)
		} else if rows()[form].action != r.action {
			t.Errorf("%s and %s have one form and two actions", r.source, rows()[form].source)
		}
	}
}

// redisConn is a connection to a server that shows replies as they come.
type redisConn struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dialRedis(t testing.TB, s *redistest.Server) *redisConn {
	t.Helper()
	conn, err := net.Dial(s.Network, s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return &redisConn{t, conn, bufio.NewReader(conn)}
}

// do sends a request and returns the reply.
func (c *redisConn) do(argv ...string) string {
	c.t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(argv))
	for _, arg := range argv {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := c.Write(b.Bytes()); err != nil {
		c.t.Fatal(err)
	}
	return c.reply()
}

func (c *redisConn) reply() string {
	c.t.Helper()
	line, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch {
	case line[0] == '$' && n >= 0:
		text := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, text); err != nil {
			c.t.Fatal(err)
		}
		return line + string(text)
	case line[0] == '*':
		for range n {
			line += c.reply()
		}
	case line[0] == '%':
		for range 2 * n {
			line += c.reply()
		}
	}
	return line
}

// lock models the lock that the proxy keeps.
type lock struct {
	held  bool
	value string
	rest  time.Duration
}

// do carries c out and returns the reply.
func (l *lock) do(c LockCommand, resp3 bool) string {
	if c.Do == Read {
		held := Holding{Held: l.held, Adopted: l.held, Value: l.value, Rest: l.rest}
		return string(c.AppendRead(nil, held, resp3))
	}
	outcome := NotHeld
	equal := l.held && (c.Any || l.value == c.Value || c.Prefix > 0 && strings.HasPrefix(l.value, c.Value[:c.Prefix]))
	switch {
	case c.Do == Take && !l.held, c.Do == RefreshOrTake && !l.held:
		outcome, *l = Done, lock{true, c.Value, c.TTL}
	case c.Do == Take:
	case c.Do == RefreshOrTake && equal:
		outcome, *l = Renewed, lock{true, c.Value, c.TTL}
	case c.Do == Release && equal:
		outcome, *l = Done, lock{}
	case c.Do == Refresh && equal:
		outcome = Done
		if !c.Add {
			l.rest = 0
		}
		l.rest += c.TTL
	case !l.held:
		outcome = Free
	}
	return string(c.Append(nil, outcome, resp3))
}

// arguments returns what ARGV of r may be. The value is "A12345".
func arguments(r row) (all [][]string) {
	a := r.action
	argv := make([]string, max(a.value, a.ttl, a.least))
	if a.ttl > 0 {
		argv[a.ttl-1] = strconv.FormatInt(int64(30*time.Second/a.unit), 10)
	}
	if a.value == 2 {
		argv[0] = "0" // a database
	}
	if a.value > 0 {
		argv[a.value-1] = "A12345"
	}
	with := func(at int, values ...string) {
		for _, value := range values {
			other := append([]string(nil), argv...)
			other[at-1] = value
			all = append(all, other)
		}
	}
	switch reflect.ValueOf(a.adjust).Pointer() {
	case reflect.ValueOf(addIfZero).Pointer():
		with(3, "0", "1", "x")
	case reflect.ValueOf(takeIfYes).Pointer():
		with(3, "yes", "no", "true")
	case reflect.ValueOf(prefix).Pointer():
		with(2, "6", "1", "9")
	default:
		all = [][]string{argv}
	}
	if a.expires {
		with(a.ttl, "0", "-5", "9000")
	}
	return all
}

// TestRowsDoWhatScriptsDo runs each script on Redis, and the command that Parse makes of it on a
// model: replies, value and rest must be equal, from each state of the lock.
func TestRowsDoWhatScriptsDo(t *testing.T) {
	s := redistest.Start(t)
	table := NewTable(Options{Keys: patterns(t, "lock:*"), MaxTTL: time.Hour})
	for _, resp3 := range []bool{false, true} {
		c := dialRedis(t, s)
		if resp3 {
			c.do("HELLO", "3")
		}
		for _, r := range library {
			for _, argv := range arguments(r) {
				request := append([]string{"EVAL", r.body, "1", "lock:1"}, argv...)
				t.Run(fmt.Sprint(r.source, argv, " RESP3=", resp3), func(t *testing.T) {
					c.compare(t, table, request, resp3)
				})
			}
		}
	}
}

// TestCommandsDoWhatRedisDoes is the same for other commands.
func TestCommandsDoWhatRedisDoes(t *testing.T) {
	s := redistest.Start(t)
	c := dialRedis(t, s)
	table := NewTable(Options{Keys: patterns(t, "lock:*"), MaxTTL: time.Hour})
	for _, line := range []string{
		"SET lock:1 A12345 NX PX 30000", "set lock:1 A12345 px 30000 nx", "SET lock:1 A12345 EX 30 NX",
		"GET lock:1", "EXISTS lock:1", "PTTL lock:1", "TTL lock:1", "DEL lock:1", "UNLINK lock:1",
		"PEXPIRE lock:1 5000", "EXPIRE lock:1 5", "PEXPIRE lock:1 0", "EXPIRE lock:1 -1",
	} {
		t.Run(line, func(t *testing.T) { c.compare(t, table, strings.Fields(line), false) })
	}
	// SET XX refreshes only if the value is equal, unlike on Redis.
	t.Run("SET XX", func(t *testing.T) {
		for _, before := range []lock{{}, {true, "A12345", time.Minute}} {
			c.compareFrom(t, table, strings.Fields("SET lock:1 A12345 XX PX 5000"), before, false)
		}
	})
}

// compare compares Redis with the model from each state of a lock.
func (c *redisConn) compare(t *testing.T, table *Table, request []string, resp3 bool) {
	for _, before := range []lock{
		{}, {true, "A12345", 40 * time.Second}, {true, "B", 40 * time.Second}, {true, "A1", 40 * time.Second},
		{true, "A123456", 40 * time.Second},
	} {
		c.compareFrom(t, table, request, before, resp3)
	}
}

func (c *redisConn) compareFrom(t *testing.T, table *Table, request []string, model lock, resp3 bool) {
	t.Helper()
	before := model
	c.do("DEL", "lock:1")
	if model.held {
		c.do("SET", "lock:1", model.value, "PX", fmt.Sprint(model.rest.Milliseconds()))
	}
	want := c.do(request...)
	argv := make([][]byte, len(request))
	for i, arg := range request {
		argv[i] = []byte(arg)
	}
	command, err := table.Parse(argv)
	if err != nil {
		t.Fatal(err)
	}
	if got := model.do(command, resp3); !sameReply(got, want) {
		t.Errorf("from %+v: reply %q, want %q", before, got, want)
	}
	after := LockCommand{Do: Read, What: ReadValueAndRest}
	got := model.do(after, resp3)
	want = c.do("EVAL", `return {redis.call("get", KEYS[1]), redis.call("pttl", KEYS[1])}`, "1", "lock:1")
	if !sameReply(got, want) {
		t.Errorf("from %+v: then it is %q, want %q", before, got, want)
	}
}

// sameReply reports whether replies are equal. Times may have gone on by some seconds.
func sameReply(model, server string) bool {
	at := strings.LastIndexByte(model, ':')
	if at < 0 || model == server {
		return model == server
	}
	a, errA := strconv.Atoi(strings.TrimSpace(model[at+1:]))
	b, errB := strconv.Atoi(strings.TrimSpace(server[min(at+1, len(server)):]))
	same := errA == nil && errB == nil && model[:at] == server[:min(at, len(server))]
	return same && a > 0 && b > 0 && b <= a && a-b < 20_000
}
