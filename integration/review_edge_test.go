package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestResetInPipeline: RESET releases a session lock at once if it is accepted, also where another lock command of the same pipeline follows, and
// what is locked behind it belongs to the connection again.
func TestResetInPipeline(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	host := dial(t, p.addr)
	host.send(encode("LOCK", "a", "60s", "SESSION") + encode("RESET") + encode("LOCK", "a", "60s", "SESSION") + encode("LOCK", "b", "60s", "SESSION", "WAIT", "0"))
	first := tokenOf(host.frame())
	host.want("+RESET\r\n")
	second, third := tokenOf(host.frame()), tokenOf(host.frame())
	if first == "" || second == "" || third == "" {
		t.Fatalf("tokens %q, %q, %q", first, second, third)
	}
	p.desk.wantDo(":0\r\n", "UNLOCK", "a", first)
	for _, key := range []string{"a", "b"} {
		p.far.wantDo(null2, "LOCK", key, "60s")
	}
	host.reset()
	for _, key := range []string{"a", "b"} {
		if took := p.far.wantFree(key, time.Now()); took > 200*time.Millisecond*slack {
			t.Errorf("%s was free %v after the reset", key, took)
		}
	}
	p.wantNoStray(t)
}

// TestUnlockOtherName: UNLOCK of a session lock's token under another name answers 0 and changes nothing: the lock is renewed on.
func TestUnlockOtherName(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	host := dial(t, p.addr)
	token := host.lockSession("job", "1s")
	host.wantDo(":0\r\n", "UNLOCK", "other", token)
	pauseBetween(t, 2*time.Second)
	p.far.wantDo(null2, "LOCK", "job", "60s")
	host.unlock("job", token)
	p.wantNoStray(t)
}

// TestLocksBinary: LOCKPROXY LOCKS returns every key byte for byte, and takes the prefix literally in patterns.
func TestLocksBinary(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--admin-commands", "on", "--key-prefix", `l[o]c*k?\:`)
	host := dial(t, c.addr)
	want := map[string]bool{}
	for i := range 256 {
		key := fmt.Sprintf("%c\r\n*%s", i, string([]byte{byte(i), 0, 0xff}))
		host.lock(key, "60s")
		want[key] = true
	}
	long := strings.Repeat("\x80", 1024)
	host.lock(long, "60s")
	want[long] = true
	for cursor, pages := "0", 0; ; pages++ {
		parts := elements(host.do("LOCKPROXY", "LOCKS", cursor, "COUNT", "50", "MATCH", "*"))
		for _, lock := range elements(parts[1]) {
			key := mapOf(lock)["key"]
			if !want[key] {
				t.Errorf("LOCKS named %q", key)
			}
			delete(want, key)
		}
		if cursor = scalar(parts[0]); cursor == "0" || pages > 1000 {
			break
		}
	}
	if len(want) > 0 {
		t.Errorf("LOCKS left out %d locks", len(want))
	}
}

// TestExtendedSession: EXTEND told the client that it holds its session lock for 20s. That renewals fail for longer than its ttl changes
// nothing: no push, and the lock is there.
func TestExtendedSession(t *testing.T) {
	t.Parallel()
	p, relays := relayedPair(t, "--master-timeout", "1s")
	host := dial3(t, p.addr)
	token := host.lockSession("job", "2s")
	host.wantDo(":1\r\n", "EXTEND", "job", token, "30s")
	for _, r := range relays {
		r.freeze()
	}
	pauseBetween(t, 4*time.Second)
	for _, r := range relays {
		r.thaw()
	}
	waitFor(t, "a majority is back", patience, func() bool { return !strings.HasPrefix(p.far.do("LOCKINFO", "job"), "-") })
	p.far.wantDo(null2, "LOCK", "job", "60s")
	host.unlock("job", token) // and no push before the reply
	p.wantNoStray(t)
}
