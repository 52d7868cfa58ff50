package relay

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Valkey checks authentication before it looks a command up since 9.1 (its pull request 1475). The
// lab's substitute for such upstreams must give the same answers.

// authFirst is an upstream of this kind: its address, and the server that a test reaches directly.
type authFirst struct {
	name, addr string
	server     *lab.Redis
}

// authFirstUpstreams starts the substitute in front of a redis-server and, if one is installed
// that checks in this order, a valkey-server. VALKEY_SERVER names one that is not in the PATH.
func authFirstUpstreams(t *testing.T, args ...string) []authFirst {
	t.Helper()
	redis := lab.StartRedis(t, args...)
	list := []authFirst{{"stand-in", lab.StartAuthFirst(t, redis.Addr).Addr, redis}}
	if path := valkeyPath(); path != "" {
		valkey := lab.StartServer(t, path, args...)
		list = append(list, authFirst{"valkey", valkey.Addr, valkey})
	}
	return list
}

// valkeyPath returns the path of a valkey-server that checks authentication first, or "".
func valkeyPath() string {
	path := os.Getenv("VALKEY_SERVER")
	if path == "" {
		path, _ = exec.LookPath("valkey-server")
	}
	if path == "" {
		return ""
	}
	out, _ := exec.Command(path, "--version").Output()
	_, version, _ := strings.Cut(string(out), " v=")
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if major == "8" || major == "9" && minor == "0" || major == "7" {
		return ""
	}
	return path
}

const unknownNope = "-ERR unknown command 'nope', with args beginning with: \r\n"

func TestStandInAnswersAsValkey(t *testing.T) {
	t.Parallel()
	for _, upstream := range authFirstUpstreams(t, "--requirepass", "secret", "--user", "few", "on", ">few", "-@all",
		"+get", "~*") {
		nope, auth, reset, ping := lab.Encode("nope"), lab.Encode("AUTH", "secret"), lab.Encode("RESET"), lab.Encode("PING")
		ok, resetOK := "+OK\r\n", "+RESET\r\n"
		for name, steps := range map[string][]step{
			"unknown": {{nope, noAuth}, {"nope\r\n", noAuth}, {auth, ok}, {nope, unknownNope}, {reset, resetOK},
				{nope, noAuth}},
			"arguments": {{lab.Encode("GET"), noAuth}, {auth, ok}, {lab.Encode("GET"),
				"-ERR wrong number of arguments for 'get' command\r\n"}},
			"subcommand": {{lab.Encode("CLIENT", "nope"), noAuth}, {lab.Encode("MODULE", "LOAD", "x"), noAuth}},
			"exempt": {{lab.Encode("AUTH"), "-ERR wrong number of arguments for 'auth' command\r\n"},
				{lab.Encode("HELLO"), "any"}, {lab.Encode("RESET", "x"),
					"-ERR wrong number of arguments for 'reset' command\r\n"}},
			"EXEC": {{lab.Encode("EXEC"),
				"-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n"},
				{lab.Encode("MULTI"), noAuth}},
			"known": {{ping, noAuth}, {lab.Encode("SUBSCRIBE", "a", "b"), noAuth}, {ping, noAuth}},
			"wrong password": {{lab.Encode("AUTH", "wrong"),
				"-WRONGPASS invalid username-password pair or user is disabled.\r\n"}, {nope, noAuth}},
			"empty": {{"*0\r\n\r\n" + nope, noAuth}, {auth + "\r\n" + nope, ok}, {"", unknownNope}},
			"no rights": {{lab.Encode("AUTH", "few", "few"), ok}, {nope, unknownNope},
				{lab.Encode("GET", "none"), lab.Null2}, {lab.Encode("RESET"), resetOK}, {nope, noAuth}},
			"HELLO AUTH":  {{lab.Encode("HELLO", "2", "AUTH", "default", "secret"), "any"}, {nope, unknownNope}},
			"transaction": {{auth, ok}, {lab.Encode("MULTI"), ok}, {nope, unknownNope}, {reset, resetOK}, {nope, noAuth}},
			"subscribed": {{auth, ok}, {lab.Encode("SUBSCRIBE", "a", "b"), "any"}, {"", "any"}, {nope, unknownNope},
				{reset, resetOK}, {nope, noAuth}},
			"replies off": {{auth, ok}, {lab.Encode("CLIENT", "REPLY", "OFF") + nope + ping + reset, resetOK},
				{nope, noAuth}},
			"RESET skipped": {{auth, ok}, {lab.Encode("CLIENT", "REPLY", "SKIP") + reset + nope, noAuth}, {auth, ok},
				{nope, unknownNope}},
			"RESET twice": {{auth + reset + reset + auth + reset + nope, ok}, {"", resetOK}, {"", resetOK}, {"", ok},
				{"", resetOK}, {"", noAuth}},
			"RESET refused": {{auth, ok}, {lab.Encode("RESET", "x"),
				"-ERR wrong number of arguments for 'reset' command\r\n"}, {nope, unknownNope}},
			"RESET, MONITOR": {{auth, ok}, {lab.Encode("MONITOR"), ok}, {reset, "any"}},
			"a large value": {{auth, ok}, {lab.Encode("SET", "large", strings.Repeat("x", 300_000)), ok},
				{lab.Encode("GET", "large"), lab.Bulk(strings.Repeat("x", 300_000))}},
			"ends with QUIT":  {{nope, noAuth}, {lab.Encode("QUIT"), ok}},
			"QUIT, logged in": {{auth, ok}, {lab.Encode("QUIT"), ok}},
		} {
			t.Run(upstream.name+", "+name, func(t *testing.T) { converse(lab.Dial(t, upstream.addr), steps, false) })
			if strings.Contains(name, "MONITOR") {
				continue
			}
			t.Run(upstream.name+", "+name+", at once", func(t *testing.T) { converse(lab.Dial(t, upstream.addr), steps, true) })
		}
		t.Run(upstream.name+", later", func(t *testing.T) { authFirstLater(t, upstream) })
	}
}

// authFirstLater covers events that arrive later: a reply that unblocks a RESET, messages, and a
// client that disconnects.
func authFirstLater(t *testing.T, upstream authFirst) {
	other := lab.Dial(t, upstream.addr)
	other.WantDo("+OK\r\n", "AUTH", "secret")

	c := lab.Dial(t, upstream.addr)
	c.WantDo("+OK\r\n", "AUTH", "secret")
	c.Send(lab.Encode("BLPOP", "list", "0") + lab.Encode("RESET") + lab.Encode("nope"))
	lab.Pass(t, 20*time.Millisecond)
	other.WantDo(":1\r\n", "RPUSH", "list", "a")
	c.Want("*2\r\n" + lab.Bulk("list") + lab.Bulk("a") + "+RESET\r\n" + noAuth)

	c.WantDo("+OK\r\n", "AUTH", "secret")
	c.Do("SUBSCRIBE", "channel")
	other.WantDo(":1\r\n", "PUBLISH", "channel", "x")
	c.Want("*3\r\n" + lab.Bulk("message") + lab.Bulk("channel") + lab.Bulk("x"))

	c.WantDo("+RESET\r\n", "RESET")
	c.WantDo("+OK\r\n", "AUTH", "secret")
	c.Send(lab.Encode("BLPOP", "list", "0"))
	lab.WaitFor(t, "a blocked client", lab.Patience, func() bool {
		return strings.Contains(other.Do("INFO", "clients"), "\nblocked_clients:1\r")
	})
	c.Close()
	lab.WaitFor(t, "no blocked client", lab.Patience, func() bool {
		return strings.Contains(other.Do("INFO", "clients"), "\nblocked_clients:0\r")
	})

	// A connection opened before a password is set stays logged in until RESET.
	other.WantDo("+OK\r\n", "CONFIG", "SET", "requirepass", "")
	c = lab.Dial(t, upstream.addr)
	c.WantDo(unknownNope, "nope")
	other.WantDo("+OK\r\n", "CONFIG", "SET", "requirepass", "secret")
	c.WantDo(unknownNope, "nope")
	c.WantDo("+RESET\r\n", "RESET")
	c.WantDo(noAuth, "nope")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.WantClosed()
}
