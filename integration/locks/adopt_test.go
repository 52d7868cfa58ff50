package locks

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The lock listener: programs whose libraries lock by SET and scripts hold quorum locks there.

// adopters is a deployment of two proxies with a lock listener each.
type adopters struct {
	*lab.Lab
	addrs     []string // of the lock listeners
	near, far *lab.Client
}

// startAdopters starts a deployment, with flags for both proxies.
func startAdopters(t *testing.T, config lab.Config, flags ...string) *adopters {
	t.Helper()
	config.Proxies, config.Flags = -1, append([]string{"--restart-guard", "off"}, flags...)
	d := &adopters{Lab: lab.Start(t, config)}
	for range 2 {
		addr := lab.FreeAddr(t)
		d.StartProxy(t, "--adopt-listen", addr)
		d.addrs = append(d.addrs, addr)
	}
	return d
}

// dial connects to both lock listeners, when all masters vote: a master that votes later does not
// get an adopted lock.
func (d *adopters) dial(t *testing.T) *adopters {
	t.Helper()
	for _, p := range d.Proxies {
		lab.WaitAllVote(t, d.Lab, lab.Dial(t, p.Addr))
	}
	d.near, d.far = lab.Dial(t, d.addrs[0]), lab.Dial(t, d.addrs[1])
	return d
}

func sha1Of(body string) string {
	sum := sha1.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// step is a command of a client, and its reply. ":rest" is a reply of 20 to 30 seconds in ms; a
// refresh makes each end differ from the one before, by a few milliseconds.
type step struct {
	far   bool // by the second proxy
	args  []string
	reply string
}

func near(reply string, args ...string) step { return step{false, args, reply} }
func far(reply string, args ...string) step  { return step{true, args, reply} }

const (
	null     = "$-1\r\n"
	noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	noExpiry = "-ERR lock key 'job:42': no expiry, add PX or EX, or set adopt-ttl\r\n"
	// loaded is the reply to SCRIPT LOAD.
	loaded = "loaded"
)

// sessions are those of three libraries in the contract of the lock listener.
var sessions = []struct {
	library string
	hashes  map[string]string
	steps   []step
}{
	{"redis-py", map[string]string{pyExtend: "a4e8783852e6b949f9ef3a97212805108459a890",
		pyRelease: "c3f8721cbb97f72bc19e972846bd7aaf91901658"}, []step{
		near("+OK\r\n", "SET", "job:42", "A", "PX", "30000", "NX"),
		far(null, "SET", "job:42", "B", "PX", "30000", "NX"),
		near(null, "SET", "job:42", "A", "PX", "30000", "NX"), // the same value again
		far(noScript, "EVALSHA", sha1Of(pyExtend), "1", "job:42", "A", "10000", "0"),
		far(loaded, "SCRIPT", "LOAD", pyExtend),
		far(":1\r\n", "EVALSHA", sha1Of(pyExtend), "1", "job:42", "A", "10000", "0"),
		far(":0\r\n", "EVALSHA", sha1Of(pyExtend), "1", "job:42", "B", "10000", "0"),
		near(noScript, "EVALSHA", sha1Of(pyRelease), "1", "job:42", "A"),
		near(loaded, "SCRIPT", "LOAD", pyRelease),
		near(":1\r\n", "EVALSHA", sha1Of(pyRelease), "1", "job:42", "A"),
		near(":0\r\n", "EVALSHA", sha1Of(pyRelease), "1", "job:42", "A"),
		near(noExpiry, "SET", "job:42", "A", "NX"),
	}},
	{"redlock", map[string]string{redlockAcquire: "96da70f7716f27d278a5218544df37fd8b0a5e4c",
		redlockRelease: "e4612211c9f8f51c257e26e056b0a654b3187242",
		redlockExtend:  "aed6f382e410db8ba7926d4e5e9aab410bf2a78a"}, []step{
		near(":1\r\n", "EVAL", redlockAcquire, "1", "job:42", "A", "30000"),
		near(":0\r\n", "EVALSHA", sha1Of(redlockAcquire), "1", "job:42", "B", "30000"),
		far(noScript, "EVALSHA", sha1Of(redlockAcquire), "1", "job:42", "B", "30000"),
		far(":0\r\n", "EVAL", redlockAcquire, "1", "job:42", "B", "30000"),
		far(":0\r\n", "EVAL", redlockRelease, "1", "job:42", "B"),
		far(":1\r\n", "EVAL", redlockExtend, "1", "job:42", "A", "20000"),
		near(":1\r\n", "EVAL", redlockExtend, "1", "job:42", "A", "20000"),
		near(":0\r\n", "EVALSHA", sha1Of(redlockExtend), "1", "job:42", "B", "20000"),
		far(":1\r\n", "EVALSHA", sha1Of(redlockRelease), "1", "job:42", "A"),
		far(":0\r\n", "EVALSHA", sha1Of(redlockRelease), "1", "job:42", "A"),
		near("-ERR lock key 'job:42': one key a command\r\n", "EVAL", redlockAcquire, "2", "job:42", "job:43", "A", "30000"),
	}},
	{"redislock", map[string]string{redislockObtain: "80a1b5f2cfccec3b7119ba7721d2127682b691a7",
		redislockPTTL:    "6484da7d58920897fdc22b7f9afd1a3d47524ea8",
		redislockRefresh: "a7aba3bc5d6e99b3003da8b9d80a63b9f4092ecf",
		redislockRelease: "cf0e94b2e9ffc7e04395cf88f7583fc309985910"}, []step{
		near("+OK\r\n", "EVAL", redislockObtain, "1", "job:42", "aaaaaaaaaaaaaaaaaaaaaA", "22", "30000"),
		far(null, "EVAL", redislockObtain, "1", "job:42", "bbbbbbbbbbbbbbbbbbbbbB", "22", "30000"),
		near("+OK\r\n", "EVALSHA", sha1Of(redislockObtain), "1", "job:42", "aaaaaaaaaaaaaaaaaaaaaA", "22", "30000"),
		far("+OK\r\n", "EVAL", redislockObtain, "1", "job:42", "aaaaaaaaaaaaaaaaaaaaaA", "22", "30000"),
		far(":rest", "EVAL", redislockPTTL, "1", "job:42", "aaaaaaaaaaaaaaaaaaaaaA"),
		near(":-3\r\n", "EVAL", redislockPTTL, "1", "job:42", "bbbbbbbbbbbbbbbbbbbbbB"),
		near(":1\r\n", "EVAL", redislockRefresh, "1", "job:42", "aaaaaaaaaaaaaaaaaaaaaA", "20000"),
		// the same token with other metadata
		far("+OK\r\n", "EVAL", redislockObtain, "1", "job:42", "aaaaaaaaaaaaaaaaaaaaaAmore", "22", "30000"),
		near("$26\r\naaaaaaaaaaaaaaaaaaaaaAmore\r\n", "GET", "job:42"),
		near(":0\r\n", "EVAL", redislockRelease, "1", "job:42", "aaaaaaaaaaaaaaaaaaaaaA"),
		near(":1\r\n", "EVALSHA", sha1Of(redislockRelease), "1", "job:42", "aaaaaaaaaaaaaaaaaaaaaAmore"),
		far(":0\r\n", "EVAL", redislockRelease, "1", "job:42", "aaaaaaaaaaaaaaaaaaaaaAmore"),
	}},
	{"by hand", nil, []step{
		near("+OK\r\n", "SET", "job:42", "A", "NX", "EX", "30"),
		far("$1\r\nA\r\n", "GET", "job:42"), far(":1\r\n", "EXISTS", "job:42"), far(":rest", "PTTL", "job:42"),
		near("+OK\r\n", "SET", "job:42", "A", "XX", "PX", "25000"), near(null, "SET", "job:42", "B", "XX", "PX", "25000"),
		far(":rest", "PTTL", "job:42"), far(":1\r\n", "PEXPIRE", "job:42", "30000"),
		near(":0\r\n", "DELEX", "job:42", "IFEQ", "B"), near(":1\r\n", "DELEX", "job:42", "IFEQ", "A"),
		far(null, "GET", "job:42"), far(":-2\r\n", "PTTL", "job:42"), far(":0\r\n", "DEL", "job:42"),
	}},
}

// TestLibrariesThroughTwoProxies: the sessions of the contract, byte for byte, in both protocols,
// with one pattern of keys and with every key a lock key.
func TestLibrariesThroughTwoProxies(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"job:*", "*"} {
		d := startAdopters(t, lab.Config{}, "--adopt-keys", keys).dial(t)
		for _, s := range sessions {
			t.Run(keys+" "+s.library, func(t *testing.T) {
				for body, hash := range s.hashes {
					if sha1Of(body) != hash {
						t.Fatalf("the SHA1 of a script: got %s, want %s", sha1Of(body), hash)
					}
				}
				runSteps(t, s.steps, lab.Dial(t, d.addrs[0]), lab.Dial(t, d.addrs[1]), false)
				runSteps(t, s.steps, lab.Dial3(t, d.addrs[0]), lab.Dial3(t, d.addrs[1]), true)
			})
		}
		d.WantNoStray(t)
	}
}

// runSteps runs a session with the clients a and b. With resp3 both proxies know its scripts.
func runSteps(t *testing.T, steps []step, a, b *lab.Client, resp3 bool) {
	t.Helper()
	for _, st := range steps {
		if !resp3 || st.reply != noScript {
			st.run(t, a, b, resp3)
		}
	}
}

func (st step) run(t *testing.T, a, b *lab.Client, resp3 bool) {
	t.Helper()
	c, want := a, st.reply
	if st.far {
		c = b
	}
	got := c.Do(st.args...)
	switch {
	case want == loaded:
		want = fmt.Sprintf("$40\r\n%s\r\n", sha1Of(st.args[2]))
	case want == null && resp3:
		want = "_\r\n"
	case want == ":rest":
		if n := lab.Number(t, strings.TrimSpace(got[1:])); n < 20_000 || n > 30_010 {
			t.Errorf("%.60q: got %q, want 20000 to 30000", st.args, got)
		}
		return
	}
	if got != want {
		t.Errorf("%.60q (far: %v): got %q, want %q", st.args, st.far, got, want)
	}
}

// TestAdoptedLocksExcludeLOCK: adopted locks, LOCK of all kinds and a library that locks on the
// masters exclude each other. No listener and no LOCKINFO shows the value.
func TestAdoptedLocksExcludeLOCK(t *testing.T) {
	t.Parallel()
	d := startAdopters(t, lab.Config{}, "--adopt-keys", "job:*", "--admin-commands", "on").dial(t)
	main := lab.Dial(t, d.Proxies[1].Addr)
	d.near.WantDo("+OK\r\n", "SET", "job:1", "secret-value", "NX", "PX", "30000")
	lab.WantHolders(t, d.Masters, "job:1", 3) // LOCKPROXY LOCKS begins with the first master
	for _, option := range [][]string{nil, {"SHARED"}, {"LIMIT", "3"}, {"KEYS", "1", "other"}} {
		main.WantDo(null, append([]string{"LOCK", "job:1", "30s"}, option...)...)
	}
	for _, shown := range []string{main.Do("LOCKINFO", "job:1"), main.Do("LOCKPROXY", "LOCKS", "0", "COUNT", "100")} {
		if !strings.Contains(shown, "adopted "+sha256Of("secret-value")[:8]) || strings.Contains(shown, "secret") {
			t.Errorf("a lock of a library is shown as %q", shown)
		}
	}
	waits := lab.Dial(t, d.Proxies[1].Addr).Later("LOCK", "job:1", "30s", "WAIT", "60s")
	lab.WaitFor(t, "the client's place in the queue", lab.Patience,
		func() bool { return strings.Contains(main.Do("LOCKINFO", "job:1"), "waiting\r\n:1\r\n") })
	d.near.WantDo(":1\r\n", "DEL", "job:1")
	token, _ := lab.WantToken(t, "LOCK with WAIT after DEL at another proxy's lock listener", waits)

	d.far.WantDo(null, "SET", "job:1", "B", "NX", "PX", "30000")
	d.far.WantDo(":1\r\n", "EXISTS", "job:1")
	d.far.WantDo("$26\r\nlockproxy:"+token[:16]+"\r\n", "GET", "job:1")
	d.far.WantDo(":0\r\n", "DEL", "job:1")
	d.far.WantDo(":0\r\n", "PEXPIRE", "job:1", "30000")
	d.far.WantDo(null, "SET", "job:1", "lockproxy:"+token[:16], "XX", "PX", "30000")
	d.far.WantDo(":0\r\n", "UNLOCK", "job:1", token[:17]+strings.Repeat("0", 40))
	d.far.WantDo(":1\r\n", "UNLOCK", "job:1", token)

	for _, m := range d.Masters[:2] { // as a Redlock library does
		m.Must(t, "SET", "lock:job:1", "other", "PX", "30000")
	}
	d.near.WantDo(null, "SET", "job:1", "other", "NX", "PX", "30000")
	d.near.WantDo(":0\r\n", "DEL", "job:1")
	for _, m := range d.Masters[:2] {
		m.Do(t, "DEL", "lock:job:1")
	}
	d.near.WantDo("+OK\r\n", "SET", "job:1", "A", "NX", "PX", "30000")
	d.far.WantDo(":1\r\n", "DEL", "job:1")
	d.WantNoStray(t)
}

// TestAdoptedLocks runs tests one after the other with the same servers. The second stops the
// upstream, and the third two masters.
func TestAdoptedLocks(t *testing.T) {
	t.Parallel()
	d := startAdopters(t, lab.Config{}, "--adopt-keys", "job:*")
	for _, test := range []struct {
		name string
		run  func(t *testing.T, d *adopters)
	}{
		{"a lock ends as promised", testAdoptedLockEndsAsPromised},
		{"without the upstream", testLocksWithoutTheUpstream},
		{"a majority is needed", testAdoptedLocksNeedAMajority},
	} {
		t.Run(test.name, func(t *testing.T) {
			own := *d
			test.run(t, own.dial(t))
		})
	}
}

// testAdoptedLocksNeedAMajority: one of three masters may be away. Without a majority the reply is
// LOCK's, word for word.
func testAdoptedLocksNeedAMajority(t *testing.T, d *adopters) {
	d.near.WantDo("+OK\r\n", "SET", "job:1", "A", "NX", "PX", "30000")
	lab.WantHolders(t, d.Masters, "job:1", 3) // a majority that includes the first is not enough below
	d.Masters[0].Kill()
	d.far.WantDo("$1\r\nA\r\n", "GET", "job:1")
	d.far.WantDo(":1\r\n", "PEXPIRE", "job:1", "20000")
	d.near.WantDo(":1\r\n", "EVAL", redislockRelease, "1", "job:1", "A")
	d.far.WantDo("+OK\r\n", "SET", "job:1", "B", "NX", "PX", "30000")
	d.Masters[1].Kill()
	main := lab.Dial(t, d.Proxies[1].Addr)
	lab.WaitStates(t, main, lab.Patience, "down", "down", "voting")
	want := main.Do("LOCK", "job:2", "30s")
	if !strings.HasPrefix(want, "-NOQUORUM 1 of 3 masters can vote, 2 needed: ") {
		t.Fatalf("LOCK: got %q, want -NOQUORUM", want)
	}
	for _, args := range [][]string{{"SET", "job:2", "A", "NX", "PX", "30000"}, {"GET", "job:2"}, {"DEL", "job:1"},
		{"PEXPIRE", "job:1", "20000"}, {"EVAL", redislockRelease, "1", "job:1", "B"}} {
		if got := d.far.Do(args...); anyReason(got) != anyReason(want) {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
}

// anyReason returns a NOQUORUM that does not say whether a dead master has been dialled again.
func anyReason(reply string) string {
	return strings.ReplaceAll(lab.NotLate(reply), "refused the connection", "closed the connection")
}

// testLocksWithoutTheUpstream: an upstream that is known to want no password may stop. Locks go
// on, the start of a connection is answered, and later the connection is not relayed.
func testLocksWithoutTheUpstream(t *testing.T, d *adopters) {
	d.Upstream.Kill()
	c := lab.Dial(t, d.addrs[0])
	c.WantDo("+PONG\r\n", "PING")
	c.WantDo("$2\r\nhi\r\n", "ECHO", "hi")
	c.WantDo("+OK\r\n", "SELECT", "1")
	c.WantDo("+OK\r\n", "CLIENT", "SETINFO", "LIB-NAME", "lib")
	c.WantDo("+OK\r\n", "CLIENT", "SETNAME", "me")
	fields := regexp.MustCompile(`(?s)redis_version:7.*redis_mode:standalone.*loading:0`)
	if info := c.Do("INFO"); !fields.MatchString(info) {
		t.Errorf("INFO: got %q", info)
	}
	if hello := c.Do("HELLO", "3", "SETNAME", "me"); !strings.HasPrefix(hello, "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n") {
		t.Errorf("HELLO 3: got %q", hello)
	}
	c.WantDo("$40\r\n"+sha1Of(redislockRelease)+"\r\n", "SCRIPT", "LOAD", redislockRelease)
	c.WantDo("+OK\r\n", "SET", "job:1", "A", "NX", "PX", "30000")
	c.WantDo("_\r\n", "SET", "job:1", "B", "NX", "PX", "30000")
	c.WantDo(":1\r\n", "EVALSHA", sha1Of(redislockRelease), "1", "job:1", "A")
	down := "-ERR upstream " + d.Upstream.Addr + ": connection refused\r\n"
	c.WantDo(down, "GET", "other")
	c.WantDo(down, "HELLO", "3", "AUTH", "default", "x")
	d.Upstream.RestartEmpty(t)
	lab.Dial(t, d.addrs[0]).WantDo("$-1\r\n", "GET", "other")
	c.WantDo("+OK\r\n", "SET", "job:1", "A", "NX", "PX", "30000")
	c.WantDo(down, "GET", "other")
	c.WantClosed()
	lab.Dial(t, d.addrs[0]).WantDo(":1\r\n", "DEL", "job:1")
}

// TestAdoptedLocksAreGuarded: who may not LOCK may not use lock keys here, in LOCK's words.
func TestAdoptedLocksAreGuarded(t *testing.T) {
	t.Parallel()
	d := startAdopters(t, lab.Config{NoWait: true}, "--adopt-keys", "job:*", "--lock-acl", "on")
	d.Upstream.Must(t, "ACL", "SETUSER", "app", "on", ">pw", "~lock:job:1", "~data", "+@all")
	d.Upstream.Must(t, "CONFIG", "SET", "requirepass", "secret")
	main, c := lab.Dial(t, d.Proxies[0].Addr), lab.Dial(t, d.addrs[0])
	lab.WaitFor(t, "the proxy knows of the password", lab.Patience, func() bool {
		return strings.HasPrefix(main.Do("LOCK", "job:1", "30s"), "-NOAUTH")
	})
	take := func(key string) []string { return []string{"SET", key, "A", "NX", "PX", "30000"} }
	for _, before := range [][]string{nil, {"AUTH", "app", "pw"}, {"SUBSCRIBE", "news"}} {
		if before != nil {
			main.Do(before...)
			c.Do(before...)
		}
		for _, key := range []string{"job:2", "job:1"} {
			var want string
			lab.WaitFor(t, "an answer of the masters", lab.Patience, func() bool {
				want = main.Do("LOCK", key, "30s")
				return !strings.HasPrefix(want, "-NOQUORUM")
			})
			if strings.HasPrefix(want, "$57") {
				main.Do("UNLOCK", key, lab.Scalar(want))
				want = "+OK\r\n"
			}
			for _, args := range [][]string{take(key), {"GET", key}, {"EVAL", redislockRelease, "1", key, "A"}} {
				got := c.Do(args...)
				wanted := strings.ReplaceAll(want, "'lock'", "'"+strings.ToLower(args[0])+"'")
				if allowed := want == "+OK\r\n"; allowed && strings.HasPrefix(got, "-") || !allowed && got != wanted {
					t.Errorf("after %q, %q: got %q, LOCK gets %q", before, args, got, wanted)
				}
			}
		}
	}
}

// refusedCommands are commands that the lock listener refuses, and why.
var refusedCommands = map[string][]string{
	"no expiry, add PX or EX, or set adopt-ttl": {"SETNX job:1 A", "PERSIST job:1"},
	"SET without NX or XX":                      {"SET job:1 A", "SET job:1 A PX 30000", "SET job:1 A PX 30000 GET"},
	"'hset' is not a lock command":              {"HSET job:1 a b"},
	"'incr' is not a lock command":              {"INCR job:1"},
	"'blpop' is not a lock command":             {"BLPOP other job:1 0"},
	"'watch' is not a lock command":             {"WATCH other job:1"},
	"'fcall' is not a lock command":             {"FCALL f 1 job:1"},
	"'nosuchcommand' is not a lock command":     {"NOSUCHCOMMAND job:1"},
	"one key a command":                         {"DEL job:1 job:2", "DEL other job:1"},
}

// TestLockKeysNeverReachTheUpstream: each command on a lock key is carried out or refused, and the
// connection goes on. What names no lock key is relayed.
func TestLockKeysNeverReachTheUpstream(t *testing.T) {
	t.Parallel()
	d := startAdopters(t, lab.Config{}, "--adopt-keys", "job:*", "--admin-commands", "on").dial(t)
	d.Upstream.Must(t, "SET", "job:left", "x") // from before
	d.Upstream.Must(t, "CONFIG", "RESETSTAT")
	for why, commands := range refusedCommands {
		for _, command := range commands {
			d.near.WantDo("-ERR lock key 'job:1': "+why+"\r\n", strings.Fields(command)...)
		}
	}
	d.near.WantDo("-ERR lock key 'job:1': a value of 513 bytes, want 1 to 512\r\n", "SET", "job:1",
		strings.Repeat("v", 513), "NX", "PX", "30000")
	d.near.WantDo("-ERR ttl 3600000 exceeds max-ttl 60000: it is 1h, and 10ms to 60s is allowed\r\n", "SET", "job:1", "A",
		"NX", "PX", "3600000")
	d.near.WantDo("-ERR lock key 'job:1': unknown script "+sha1Of("return 1")+", see docs/adopting.md\r\n", "EVAL",
		"return 1", "1", "job:1")
	long := redislockRelease + strings.Repeat(" ", 64<<10)
	d.near.WantDo("-ERR a script of more than 64 KB\r\n", "EVAL", long, "1", "job:1", "A")
	d.near.WantDo("-ERR lock key 'job:1': 'set' of more than 64 KB\r\n", "SET", "job:1", long, "NX", "PX", "30000")
	d.near.WantDo("+OK\r\n", "MULTI")
	d.near.WantDo("-ERR lock key 'job:1': not allowed in transactions\r\n", "SET", "job:1", "A", "NX", "PX", "30000")
	if got := d.near.Do("EXEC"); !strings.HasPrefix(got, "-EXECABORT ") {
		t.Errorf("EXEC: got %q, want -EXECABORT", got)
	}
	d.near.WantDo("+OK\r\n", "SET", "other", "x")
	d.near.WantDo("$1\r\nx\r\n", "GET", "other")
	d.near.WantDo("*2\r\n$1\r\nx\r\n$-1\r\n", "MGET", "other", "none")
	// in a pipeline
	d.near.Send(lab.Encode("GET", "other") + lab.Encode("SET", "job:1", "A", "NX", "PX", "30000") +
		lab.Encode("GET", "job:1") + lab.Encode("GET", "other") + lab.Encode("DEL", "job:1"))
	d.near.Want("$1\r\nx\r\n+OK\r\n$1\r\nA\r\n$1\r\nx\r\n:1\r\n")
	if keys := d.Upstream.Do(t, "KEYS", "*"); !slices.Contains([]string{"*2\r\n$5\r\nother\r\n$8\r\njob:left\r\n",
		"*2\r\n$8\r\njob:left\r\n$5\r\nother\r\n"}, keys) {
		t.Errorf("keys at the upstream: got %q", keys)
	}
	if info := d.far.Do("LOCKPROXY", "INFO", "ADOPT"); !strings.Contains(info, "adopt_left_upstream:1\r\n") {
		t.Errorf("LOCKPROXY INFO ADOPT: got %q, want 1 key", info)
	}
	for reason, want := range map[string]int{"no_expiry": 1, "ttl": 1, "script": 2, "command": 1, "keys": 1,
		"transaction": 1, "value": 1} { // of scripts the unknown one and the long one
		lines := func() int {
			return strings.Count(d.Proxies[0].Log.String(), `"msg":"a lock library was refused","reason":"`+reason+`"`)
		}
		if !lab.Poll(lab.Patience, func() bool { return lines() == want }) {
			t.Errorf("%d lines about refusals for %s, want %d", lines(), reason, want)
		}
	}
}

// TestEveryKeyIsALockKey: with the pattern * only commands that connections need reach the
// upstream.
func TestEveryKeyIsALockKey(t *testing.T) {
	t.Parallel()
	d := startAdopters(t, lab.Config{}, "--adopt-ttl", "20s").dial(t)
	d.near.WantDo("-ERR 'flushdb' is not a lock command\r\n", "FLUSHDB")
	d.near.WantDo("-ERR 'keys' is not a lock command\r\n", "KEYS", "*")
	d.near.WantDo("-ERR lock key 'other': 'lpush' is not a lock command\r\n", "LPUSH", "other", "x")
	d.near.WantDo("+PONG\r\n", "PING")
	d.near.WantDo("+OK\r\n", "SELECT", "1")
	d.near.WantDo("+OK\r\n", "SET", "any", "A", "NX")
	d.far.WantDo(":0\r\n", "SETNX", "any", "B")
	d.far.WantDo("$1\r\nA\r\n", "GET", "any")
	d.near.WantDo(":1\r\n", "DEL", "any")
	token := d.near.Lock("any", "10s")
	d.far.WantDo(null, "SET", "any", "B", "NX", "PX", "10000")
	d.near.Unlock("any", token)
	d.WantNoStray(t)
}

// testAdoptedLockEndsAsPromised: a shortened lock is gone within its new ttl and the small extra
// that masters get, and its value holds it until then. A master that answered late may keep it
// for longer.
func testAdoptedLockEndsAsPromised(t *testing.T, d *adopters) {
	d.near.WantDo("+OK\r\n", "SET", "job:1", "A", "NX", "PX", "60000")
	d.far.WantDo("+OK\r\n", "SET", "job:1", "A", "XX", "PX", "4000")
	d.far.WantDo(null, "SET", "job:1", "B", "NX", "PX", "4000")
	begun := time.Now()
	lab.WaitFor(t, "the end of the lock", lab.Patience, func() bool { return d.near.Do("EXISTS", "job:1") == ":0\r\n" })
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("a lock of 4s ended after %v", took)
	}
	d.far.WantDo("+OK\r\n", "SET", "job:1", "B", "NX", "PX", "4000")
	d.far.WantDo(":1\r\n", "DEL", "job:1")
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
