package relay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// commandRequests are forms of COMMAND.
var commandRequests = [][]string{{"COMMAND"}, {"COMMAND", "INFO"}, {"COMMAND", "DOCS"}, {"COMMAND", "LIST"},
	{"COMMAND", "COUNT"},
	{"COMMAND", "INFO", "get", "lock"}, {"COMMAND", "DOCS", "lock", "get"}, {"COMMAND", "GETKEYS", "LOCK", "a"},
	{"COMMAND", "LIST", "FILTERBY", "PATTERN", "l*"}, {"COMMAND", "HELP"}}

// Without command-hints, replies to COMMAND are those of the upstream, byte for byte.
func TestCommandPassesWithoutHints(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	settleCommandTables(lab.Dial(t, c.Upstream.Addr))
	for _, dial := range []func(testing.TB, string) *lab.Client{lab.Dial, lab.Dial3} {
		direct, proxied := dial(t, c.Upstream.Addr), dial(t, c.Addr)
		for _, request := range commandRequests {
			if got, want := proxied.Do(request...), direct.Do(request...); got != want {
				t.Errorf("%q: got %.300q, want %.300q", request, got, want)
			}
		}
	}
}

// With command-hints, the replies have the lock commands as well, in RESP2 and RESP3, after a
// login, in pipelines with lock commands. Who may send COMMAND stays the same, and a transaction
// passes.
func TestCommandHints(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t, "--command-hints", "on")
	for _, version := range []string{"2", "3"} {
		direct, proxied, guest := lab.Dial(t, c.Upstream.Addr), lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
		direct.Do("HELLO", version, "AUTH", "default", "secret")
		proxied.Do("HELLO", version, "AUTH", "default", "secret")
		direct.WantDo("+OK\r\n", "ACL", "SETUSER", "few", "on", ">few", "-@all", "+ping")
		wantRefused(t, guest, noAuth)
		guest.WantDo("+OK\r\n", "AUTH", "few", "few")
		wantRefused(t, guest, "-NOPERM ")
		for _, request := range commandRequests {
			wantHints(t, request, proxied.Do(request...), direct.Do(request...))
		}
		wantHintsInOrder(t, proxied)
	}
}

// settleCommandTables lets a server finish the move to larger tables of commands and of COMMAND's
// subcommands, which it began at its start. It moves a part with each command that it looks up,
// and that changes the order in replies to COMMAND.
func settleCommandTables(direct *lab.Client) {
	const lookups = 1000
	direct.Send(strings.Repeat("COMMAND COUNT\r\n", lookups))
	for range lookups {
		direct.Frame()
	}
}

// wantRefused: COMMAND gets errors in all its forms.
func wantRefused(t *testing.T, c *lab.Client, want string) {
	t.Helper()
	for _, request := range commandRequests {
		if got := c.Do(request...); !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %.100q, want %q", request, got, want)
		}
	}
}

// wantHints compares a reply that may have hints with that of the upstream.
func wantHints(t *testing.T, request []string, got, want string) {
	t.Helper()
	switch form := strings.Join(request, " "); form {
	case "COMMAND", "COMMAND INFO", "COMMAND LIST", "COMMAND DOCS":
		more := map[bool]int{false: 5, true: 10}[form == "COMMAND DOCS"]
		all, those := lab.Elements(got), lab.Elements(want)
		if len(all) != len(those)+more || !slices.Equal(all[:len(those)], those) ||
			!strings.Contains(strings.Join(all[len(those):], ""), "lockproxy") {
			t.Errorf("%s: got %d elements, and then %.300q; want %d and the lock commands", form, len(all), all[len(those):],
				len(those))
		}
	case "COMMAND COUNT":
		if n, err := strconv.Atoi(lab.Scalar(want)); err != nil || got != fmt.Sprintf(":%d\r\n", n+5) {
			t.Errorf("%s: got %q, the upstream's is %q", form, got, want)
		}
	case "COMMAND INFO get lock":
		all := lab.Elements(got)
		if len(all) != 2 || all[0] != lab.Elements(want)[0] || !strings.HasPrefix(all[1], "*10\r\n$4\r\nlock\r\n:-3\r\n") {
			t.Errorf("%s: got %q, the upstream's is %q", form, got, want)
		}
	case "COMMAND DOCS lock get":
		all := lab.Elements(got)
		if len(all) != 4 || !slices.Equal(all[:2], lab.Elements(want)) || all[2] != lab.Bulk("lock") {
			t.Errorf("%s: got %q, the upstream's is %q", form, got, want)
		}
	default:
		if got != want {
			t.Errorf("%s: got %.300q, want %.300q", form, got, want)
		}
	}
}

// wantHintsInOrder: the replies to a pipeline come in order, and those in a transaction are the
// upstream's.
func wantHintsInOrder(t *testing.T, c *lab.Client) {
	t.Helper()
	count, docs := lab.Encode("COMMAND", "COUNT"), lab.Encode("COMMAND", "DOCS")
	want := c.Do("COMMAND", "COUNT")
	for i := range 20 {
		key := fmt.Sprintf("pipeline-%d", i)
		c.Send(docs + lab.Encode("LOCK", key, "60s") + count + docs + lab.Encode("LOCK", key, "60s") + lab.Encode("PING"))
		first, token, n, second, taken, pong := c.Frame(), c.Frame(), c.Frame(), c.Frame(), c.Frame(), c.Frame()
		if first != second || !strings.Contains(first, "lockproxy") || lab.TokenOf(token) == "" || n != want ||
			taken[0] == '-' || pong != "+PONG\r\n" {
			t.Fatalf("pipeline: got %.60q, %q, %q, %.60q, %q, %q", first, token, n, second, taken, pong)
		}
		c.Unlock(key, lab.TokenOf(token))
	}
	c.Send(lab.Encode("MULTI") + count + lab.Encode("EXEC"))
	c.Want("+OK\r\n+QUEUED\r\n*1\r\n")
	if n := c.Frame(); n == want {
		t.Errorf("in a transaction: got %q, want the upstream's number", n)
	}
	c.WantDo(":0\r\n", "EXISTS", "nosuch")
}
