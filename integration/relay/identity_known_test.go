package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Ways around the permission to lock, found by hand or by TestIdentity.

// nest returns a script whose reply is arrays nested n deep.
func nest(n int) string {
	return lab.Encode("EVAL", fmt.Sprintf("local t={} for i=1,%d do t={t} end return t", n), "0")
}

// sayOK returns a script whose reply is a status.
func sayOK(what string) string {
	return lab.Encode("EVAL", "return redis.status_reply('"+what+"')", "0")
}

// identityCluster has the users of TestIdentity. The default user has these rules and no password.
func identityCluster(t *testing.T, acl bool, rules ...string) *lab.Cluster {
	t.Helper()
	c := &lab.Cluster{Upstream: lab.StartRedis(t, withUsers([]string{"--user", "default", "on", "nopass", "~*", "&*",
		"+@all"})...)}
	desk := newDesk(t, c.Upstream, "admin")
	desk.must("+OK\r\n", append([]string{"ACL", "SETUSER", "default", "resetkeys", "resetchannels", "-@all"},
		rules...)...)
	desk.must(":3\r\n", "RPUSH", "kq", "message", "b", "c")
	c.Masters = lab.StartMasters(t, 1)
	c.Flags = []string{"--upstream", c.Upstream.Addr, "--masters", c.Masters[0].Addr, "--restart-guard", "off"}
	if acl {
		c.Flags = append(c.Flags, "--lock-acl", "on", "--lock-acl-upstream", "redis://asker:asks@"+c.Upstream.Addr)
	}
	c.Proxy = lab.StartProxy(t, c.Flags...)
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "alice", "a-secret")
	lab.WaitFor(t, "first lock", lab.Patience, func() bool { return lab.TokenOf(host.Do("LOCK", "warm-up", "1s")) != "" })
	return c
}

// until sends an unknown command, and returns all replies up to the one to that command.
func until(host *lab.Client, name string) string {
	host.Send(lab.Encode(name))
	return readTo(host, "'"+name+"'")
}

// readTo returns the replies up to the bytes end. They are incomplete if the connection is closed
// before, or if end does not arrive.
func readTo(host *lab.Client, end string) string {
	var b strings.Builder
	deadline := time.Now().Add(lab.Patience)
	for buf := make([]byte, 64<<10); !strings.Contains(b.String(), end) && host.SetReadDeadline(deadline) == nil; {
		n, err := host.Reader.Read(buf)
		if b.Write(buf[:n]); err != nil {
			break
		}
	}
	return b.String()
}

// A reply that looks like a pub/sub message must not shift the following replies to other
// commands: then a wrong AUTH would take the +OK of another. No packet here logs in, so a LOCK
// after it gets the answer of a new connection.
func TestForgedMessageMovesNoReplies(t *testing.T) {
	t.Parallel()
	rules := strings.Fields(strings.NewReplacer(" +ping", "", " +subscribe", "").Replace(strings.Join(fewRights, " ")))
	for _, acl := range []bool{true, false} {
		c := identityCluster(t, acl, rules...)
		before := lab.Dial(t, c.Addr).Do("LOCK", "a-before", "2s")
		if acl && !strings.HasPrefix(before, "-NO") {
			t.Fatalf("LOCK of the default user: got %q, want an error", before)
		}
		for name, packet := range shiftingPackets() {
			for way, answered := range map[string]bool{"in the packet": false, "after it": true} {
				t.Run(fmt.Sprintf("%s, lock-acl %v, LOCK %s", name, acl, way), func(t *testing.T) {
					for i := range 3 {
						text := lockAfter(t, c.Addr, packet, fmt.Sprintf("a-%d-%s%s", i, name, way), answered)
						wantNoNewRight(t, before, text)
					}
				})
			}
		}
	}
}

// wantNoNewRight: if LOCK was refused before, the replies have no token.
func wantNoNewRight(t *testing.T, before, text string) {
	t.Helper()
	if strings.Contains(text, "$57\r\n") && strings.HasPrefix(before, "-") {
		t.Errorf("LOCK after a wrong AUTH: got %q, want no token; before it %q", text, before)
	}
}

// lockAfter sends a packet and a LOCK on a new connection, and returns all replies. answered: the
// packet is answered before the LOCK is sent.
func lockAfter(t *testing.T, addr, packet, key string, answered bool) string {
	t.Helper()
	host := lab.Dial(t, addr)
	defer host.Close()
	host.Send(packet)
	if answered {
		until(host, "the-middle")
	}
	host.Send(lab.Encode("LOCK", key, "60s"))
	return until(host, "the-end")
}

// shiftingPackets returns packets with a wrong AUTH and a reply that looks like a pub/sub message,
// by the command that could make the proxy take it for one. SUBSCRIBE is refused.
func shiftingPackets() map[string]string {
	list, wrong, sel, debug := lab.Encode("LRANGE", "kq", "0", "-1"), lab.Encode("AUTH", "alice", "wrong"),
		lab.Encode("SELECT", "0"), lab.Encode("DEBUG", "x")
	forged, unsubscribe := sayOK("1 x"), lab.Encode("UNSUBSCRIBE")
	return map[string]string{
		"SUBSCRIBE":                list + wrong + sel + debug + lab.Encode("SUBSCRIBE", "zz"),
		"SUBSCRIBE, more commands": list + wrong + sel + sel + sel + debug + lab.Encode("SUBSCRIBE", "zz") + sel,
		"UNSUBSCRIBE":              list + wrong + sel + debug + unsubscribe,
		"UNSUBSCRIBE of one":       list + wrong + sel + debug + lab.Encode("UNSUBSCRIBE", "zz"),
		"CLIENT REPLY ON": list + wrong + sel + lab.Encode("CLIENT", "REPLY", "ON") + lab.Encode("SUBSCRIBE",
			"zz"),
		"CLIENT REPLY ON, UNSUBSCRIBE": list + wrong + sel + lab.Encode("CLIENT", "REPLY", "ON") + unsubscribe,
		"MONITOR":                      forged + wrong + sel + debug + lab.Encode("MONITOR"),
		"CLIENT REPLY ON, MONITOR":     forged + wrong + sel + lab.Encode("CLIENT", "REPLY", "ON") + lab.Encode("MONITOR"),
		"HELLO": list + lab.Encode("HELLO", "2", "AUTH", "alice", "wrong") + lab.Encode("HELLO",
			"2") + debug + unsubscribe,
	}
}

// The upstream may have switched to another user than the reply to the login suggests.
func TestSwitchedUserMayNotLock(t *testing.T) {
	t.Parallel()
	const answered = "|answered|" // separates packets
	alice, bob := lab.Encode("AUTH", "alice", "a-secret"), lab.Encode("AUTH", "bob", "b-secret")
	all := []string{"~*", "&*", "+@all"}
	few, open := identityCluster(t, true, fewRights...), identityCluster(t, true, all...)
	number := 0 // for the names of locks
	for name, c := range map[string]struct {
		cluster *lab.Cluster // its default user has few rights or all
		sent    string       // leaves the connection with a user who may not lock
	}{
		"HELLO AUTH and a bad name": {few, alice + lab.Encode("HELLO", "2", "AUTH", "bob", "b-secret", "SETNAME",
			"bad name")},
		"HELLO AUTH and a second one": {few, alice + lab.Encode("HELLO", "2", "AUTH", "bob", "b-secret", "AUTH",
			"alice", "wrong")},
		"HELLO AUTH and a wrong option": {few, alice + lab.Encode("HELLO", "2", "AUTH", "bob", "b-secret", "BAD")},
		"HELLO with the same user twice": {few, alice + lab.Encode("HELLO", "2", "AUTH", "alice", "a-secret", "AUTH",
			"bob", "b-secret")},
		"a deep reply, then another user": {few, alice + nest(1100) + bob},
		"a deep reply, then a wrong AUTH": {few, bob + nest(1100) + lab.Encode("AUTH", "alice",
			"wrong") + lab.Encode("SELECT", "0") + lab.Encode("SELECT", "0")},
		"a deep reply, then HELLO":       {few, bob + nest(1100) + lab.Encode("HELLO", "2", "AUTH", "alice", "wrong")},
		"a deep reply, LOCK, other user": {few, alice + nest(1100) + lab.Encode("LOCKINFO", "a-x") + bob},
		"a deep reply, LOCK, HELLO": {few, alice + nest(1100) + lab.Encode("LOCKINFO", "a-y") + lab.Encode("HELLO",
			"2", "AUTH", "bob", "b-secret", "SETNAME", "bad name")},
		"a deep reply, RESET, ECHO": {few, nest(1100) + answered + lab.Encode("RESET") + answered +
			lab.Encode("LOCKINFO", "a-z") + answered + lab.Encode("ECHO", "+OK") + lab.Encode("AUTH", "alice", "wrong")},
		"a deep reply, user, RESET, ECHO": {few, alice + nest(1100) + answered + lab.Encode("RESET") + answered +
			lab.Encode("LOCKINFO", "a-z") + answered + lab.Encode("ECHO", "+OK") + lab.Encode("AUTH", "alice", "wrong")},
		"a deep reply, then RESET": {few, alice + nest(1100) + lab.Encode("RESET")},
		"a forged RESET": {open, bob + lab.Encode("CLIENT", "REPLY",
			"ON") + sayOK("RESET") + lab.Encode("RESET", "x")},
		"a forged RESET after UNSUBSCRIBE": {open, bob + lab.Encode("UNSUBSCRIBE") + sayOK("RESET") + lab.Encode("RESET",
			"x")},
		"a forged RESET, a forged OK": {few, bob + lab.Encode("UNSUBSCRIBE") + sayOK("RESET") + sayOK("OK") +
			lab.Encode("RESET", "x") + lab.Encode("AUTH", "alice", "wrong")},
	} {
		t.Run(name, func(t *testing.T) {
			for _, wait := range []bool{false, true, false, true} {
				number++
				host := lab.Dial(t, c.cluster.Addr)
				packets := strings.Split(c.sent, answered)
				for i, packet := range packets {
					if host.Send(packet); wait || i < len(packets)-1 {
						until(host, "the-middle")
					}
				}
				host.Send(lab.Encode("LOCK", fmt.Sprintf("a-%d", number), "2s") + lab.Encode("ACL", "WHOAMI"))
				text := until(host, "the-end")
				if strings.Contains(text, "$57\r\n") || !strings.Contains(text, "-NOPERM ") {
					t.Errorf("wait %v: got %.1000q, want NOPERM and no token", wait, text[max(0, len(text)-600):])
				}
				host.Close()
			}
		})
	}
}

// The connection keeps working after a reply that is nested deeper than the proxy parses, and a
// SUBSCRIBE after it.
func TestDeepReplyLeavesConnectionWorking(t *testing.T) {
	t.Parallel()
	c := identityCluster(t, false, "~*", "&*", "+@all")
	for _, resp := range []string{"2", "3"} {
		for _, depth := range []int{1000, 1023, 1024, 1025, 1200} {
			host, direct := lab.Dial(t, c.Addr), lab.Dial(t, c.Upstream.Addr)
			text := lab.Encode("HELLO", resp) + nest(depth) + lab.Encode("SUBSCRIBE", "a") + lab.Encode("PUBLISH", "a",
				"x") + lab.Encode("UNSUBSCRIBE", "a") + lab.Encode("PING", "end")
			direct.Send(text)
			want := readTo(direct, lab.Bulk("end"))
			host.Send(text)
			got := readTo(host, lab.Bulk("end"))
			if comparable(got) != comparable(want) {
				t.Errorf("RESP%s, %d deep: got %d bytes, ending in %q, want %d", resp, depth, len(got), got[max(0, len(got)-100):],
					len(want))
				continue
			}
			host.Unlock("a-job", host.Lock("a-job", "60s")) // the connection is open
		}
	}
	if text := c.Log.String(); strings.Contains(text, "panic") {
		t.Errorf("the proxy panicked: %.1000s", text[strings.Index(text, "panic"):])
	}
}

// On a connection in MONITOR mode the answer to a lock command comes after the replies to earlier
// commands, and before those to later ones.
func TestLockIsAnsweredInOrderWhileMonitoring(t *testing.T) {
	t.Parallel()
	c := identityCluster(t, false, "~*", "&*", "+@all")
	noise := lab.Dial(t, c.Upstream.Addr)
	failed := 0
	for i := range 60 {
		host := lab.Dial(t, c.Addr)
		host.WantDo("+OK\r\n", "MONITOR")
		noise.Send(strings.Repeat(lab.Encode("PING", "noise"), 200))
		key := fmt.Sprintf("a-%d", i)
		host.Send(lab.Encode("ECHO", "first") + lab.Encode("LOCK", key, "60s") + lab.Encode("ECHO", "last"))
		var order []string
		for len(order) < 3 {
			f, err := host.Next()
			if err != nil {
				t.Fatalf("try %d: %v after %q", i, err, order)
			}
			if comparable(f) != "" {
				order = append(order, f)
			}
		}
		for range 200 {
			noise.Frame()
		}
		if order[0] != lab.Bulk("first") || lab.TokenOf(order[1]) == "" || order[2] != lab.Bulk("last") {
			failed++
			t.Logf("try %d: %q", i, order)
		}
		host.Close()
	}
	if failed > 0 {
		t.Errorf("the answer was out of order in %d of 60 tries", failed)
	}
}

// MONITOR goes on after a forged reply to RESET. Its lines are no replies: the answer to a lock
// command must not overtake the reply to a slow command before it.
func TestMonitorOutlivesForgedReset(t *testing.T) {
	t.Parallel()
	c := identityCluster(t, false, "~*", "&*", "+@all")
	noise := lab.Dial(t, c.Upstream.Addr)
	failed := 0
	for i := range 20 {
		host := lab.Dial(t, c.Addr)
		host.Send(sayOK("RESET") + lab.Encode("MONITOR") + lab.Encode("RESET", "x") + lab.Encode("LOCKINFO", "a-free"))
		until(host, "the-middle")
		for range i % 3 {
			noise.WantDo("+PONG\r\n", "PING")
		}
		lab.Pass(t, 10*time.Millisecond)
		host.Send(lab.Encode("WAIT", "1", "50"))
		host.Send(lab.Encode("LOCK", fmt.Sprintf("a-%d", i), "60s"))
		text := comparable(until(host, "the-end"))
		if slow, token := strings.Index(text, ":0\r\n"), strings.Index(text, "$57\r\n"); slow < 0 || token < slow {
			failed++
			t.Logf("try %d: %q", i, text)
		}
		host.Close()
	}
	if failed > 0 {
		t.Errorf("the answer was out of order in %d of 20 tries", failed)
	}
}

// The last reply before replies are off may look like the refusal of a query. It reaches the
// client, although no bytes follow it.
func TestLastReplyBeforeSilenceArrives(t *testing.T) {
	t.Parallel()
	host := lab.Dial(t, lab.StartProtected(t).Addr)
	host.WantDo("+OK\r\n", "AUTH", "secret")
	refusal := lab.Encode("EVAL", "return redis.error_reply('NOAUTH Authentication required.')", "0")
	host.Send(lab.Encode("MULTI") + refusal + lab.Encode("EXEC") + lab.Encode("CLIENT", "REPLY",
		"OFF") + lab.Encode("LOCKINFO", "a"))
	host.Want("+OK\r\n+QUEUED\r\n*1\r\n-NOAUTH Authentication required.\r\n")
}
