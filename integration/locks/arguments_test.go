package locks

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestArguments: bad arguments give the errors of the contract word for word, and no master hears
// of them.
func TestArguments(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	token := "0000000000000001:" + strings.Repeat("0a", 20)
	const (
		lockCount   = "-ERR wrong number of arguments for 'lock' command\r\n"
		unlockCount = "-ERR wrong number of arguments for 'unlock' command\r\n"
		syntax      = "-ERR syntax error\r\n"
		expire      = "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, or digits with ms, s, m or h, from 10ms to 60s\r\n"
		badKey      = "-ERR invalid key" // with what is wrong with it
		badToken    = "-ERR invalid token"
	)
	table := []struct {
		want string
		args []string
	}{
		{lockCount, []string{"LOCK"}},
		{lockCount, []string{"lOcK", "job"}},
		{unlockCount, []string{"UNLOCK"}},
		{unlockCount, []string{"unlock", "job"}},
		{syntax, []string{"UNLOCK", "job", token, "more"}},
		{syntax, []string{"UNLOCK", "job", token, "KEEP"}},
		{syntax, []string{"LOCKINFO", "job", "more"}},
		{syntax, []string{"LOCK", "job", "1000", "NONSENSE"}},
		{syntax, []string{"LOCK", "job", "1000", ""}},
		{syntax, []string{"LOCK", "job", "1000", "FULL", "FULL"}},
		{syntax, []string{"LOCK", "job", "1000", "2000"}},
		{"-ERR ttl 600000 exceeds max-ttl 60000: it is 10m, and 10ms to 60s is allowed\r\n", []string{"LOCK", "job", "600000"}},
		{"-ERR ttl 600000 exceeds max-ttl 60000: it is 10m, and 10ms to 60s is allowed\r\n", []string{"LOCK", "job", "600s"}},
		{"-ERR ttl 600000 exceeds max-ttl 60000: it is 10m, and 10ms to 60s is allowed\r\n", []string{"LOCK", "job", "10m"}},
		{"-ERR ttl 3600000 exceeds max-ttl 60000: it is 1h, and 10ms to 60s is allowed\r\n", []string{"LOCK", "job", "1h"}},
		{"-ERR ttl 60001 exceeds max-ttl 60000: it is 60001ms, and 10ms to 60s is allowed\r\n", []string{"LOCK", "job", "60001ms"}},
		{"-ERR ttl 5 is under min-ttl 10: it is 5ms (5 seconds are 5s), and 10ms to 60s is allowed\r\n", []string{"LOCK", "job", "5"}},
		{"-ERR ttl 9 is under min-ttl 10: it is 9ms, and 10ms to 60s is allowed\r\n", []string{"LOCK", "job", "9ms"}},
		{badKey, []string{"LOCK", "", "1000"}},
		{badKey, []string{"LOCK", strings.Repeat("k", 1025), "1000"}},
		{badKey, []string{"UNLOCK", "", token}},
		{badKey, []string{"UNLOCK", strings.Repeat("k", 1025), token}},
		{badToken, []string{"UNLOCK", "job", ""}},
		{badToken, []string{"UNLOCK", "job", "1"}},
		{badToken, []string{"UNLOCK", "job", token[17:]}},
		{badToken, []string{"UNLOCK", "job", token[1:]}},
		{badToken, []string{"UNLOCK", "job", token + "0"}},
		{badToken, []string{"UNLOCK", "job", strings.ToUpper(token)}},
		{badToken, []string{"UNLOCK", "job", strings.Replace(token, ":", "-", 1)}},
		{badToken, []string{"UNLOCK", "job", " " + token[1:]}},
		{badToken, []string{"UNLOCK", "job", strings.Replace(token, "0a", "\r\n", 1)}},
		{badToken, []string{"UNLOCK", "job", "-" + token[1:]}},
	}
	// B15: a ttl of 0 or under a millisecond deletes or never holds, and was reported as granted
	// (node-redlock#120).
	for _, ttl := range []string{"0", "0ms", "0s", "00", "-1", "-1s", "+5", "+5000", "5.0", "1.5s", "1e3", "0x10", " 1000", "1000 ",
		"1 s", "s", "ms", "", "5S", "5MS", "5d", "5us", "5ns", "1m30s", "1_000", "\x001000", "1000\x00", "10\r\n", "९", "NaN"} {
		table = append(table, struct {
			want string
			args []string
		}{expire, []string{"LOCK", "job", ttl}})
	}
	for _, huge := range []string{"9223372036854775807", "9223372036854775808", "99999999999999999999999", "18446744073709551617",
		"18446744073710", "9223372036854775807h", "2562047788015216h", "5124095576030432h"} {
		table = append(table, struct {
			want string
			args []string
		}{"-ERR ", []string{"LOCK", "job", huge}})
	}
	direct, scripts, start := make([]string, len(c.Masters)), make([]int, len(c.Masters)), time.Now()
	for i, s := range c.Masters {
		direct[i], scripts[i] = withoutScripts(t, s), lab.ScriptCount(t, s)
	}
	host, host3 := lab.Dial(t, c.Addr), lab.Dial3(t, c.Addr)
	for _, row := range table {
		for _, host := range []*lab.Client{host, host3} {
			got := host.Do(row.args...)
			if exact := strings.HasSuffix(row.want, "\n"); exact && got != row.want || !strings.HasPrefix(got, row.want) {
				t.Errorf("%.80q: got %q, want %q", row.args, got, row.want)
			}
			if strings.ContainsAny(strings.TrimSuffix(got, "\r\n"), "\r\n\x00") {
				t.Errorf("%.80q: control bytes in %q", row.args, got)
			}
		}
	}
	host.WantDo("+PONG\r\n", "PING")
	looks := int(time.Since(start)/time.Second) + 2 // each second the proxy looks at its record there
	for i, s := range c.Masters {
		if now := withoutScripts(t, s); now != direct[i] {
			t.Errorf("a master heard of refused arguments: %q, before %q", now, direct[i])
		}
		if ran := lab.ScriptCount(t, s) - scripts[i]; ran > looks {
			t.Errorf("a master ran %d scripts while arguments were refused, want %d at most", ran, looks)
		}
	}
}

// withoutScripts is lab.Calls without the count of scripts.
func withoutScripts(t testing.TB, s *lab.Redis) string {
	t.Helper()
	return regexp.MustCompile(`cmdstat_eval(sha)? calls=\d+ ?`).ReplaceAllString(lab.Calls(t, s), "")
}

// TestGoodArguments: what the contract allows.
func TestGoodArguments(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	for _, key := range []string{"k", strings.Repeat("k", 1024), "\x00", "a b", "{tag}", "\r\n", "\xff\xfe", "Ünicode", "$57\r\n", "lockproxy:x"} {
		token := host.Lock(key, "60s")
		host.WantDo(lab.Null2, "LOCK", key, "60s")
		for _, s := range c.Masters {
			lab.WaitFor(t, "key on every master", lab.Patience, func() bool { return s.Do(t, "EXISTS", "lock:"+key) == ":1\r\n" })
		}
		host.Unlock(key, token)
		host.WantDo(":0\r\n", "UNLOCK", key, token)
	}
	for ttl, millis := range map[string]int{"10s": 10000, "5000": 5000, "60s": 60000, "1m": 60000, "000060000": 60000, "20000ms": 20000} {
		token := host.Lock("job", ttl)
		left, err := strconv.Atoi(lab.Scalar(c.Masters[0].Do(t, "PTTL", "lock:job")))
		if err != nil || left > millis || left < millis-4000 {
			t.Errorf("LOCK with ttl %s: the master counts %d ms, want %d or a little less", ttl, left, millis)
		}
		host.Unlock("job", token)
	}
	host.Unlock("job", strings.Repeat("9", 16)+host.Lock("job", "60s")[16:]) // only the hex part decides
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestReservedNames: a lock must not overwrite what the proxy itself keeps on the masters.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--key-prefix", "")
	host := lab.Dial(t, c.Addr)
	if got := host.Do("LOCK", "lockproxy:state:", "60s"); !strings.HasPrefix(got, "-ERR invalid key") {
		t.Errorf("LOCK of a reserved name: %q", got)
	}
	host.Unlock("lockprox", host.Lock("lockprox", "60s"))
}

// TestFull: FULL adds the fence and the validity; B6: validity was counted from before the retries
// (node-redlock#169).
func TestFull(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	var last string
	for range 5 {
		reply := lab.Fields(host.Do("LOCK", "job", "10s", "full"))
		if len(reply) != 3 || lab.TokenOf(lab.Bulk(reply[0])) == "" {
			t.Fatalf("LOCK FULL: %q", reply)
		}
		if fence := strings.TrimLeft(reply[0][:16], "0"); fence != reply[1] {
			t.Errorf("fence %s in token %s", reply[1], reply[0])
		}
		if reply[2] > "9898" || reply[2] < "9000" || len(reply[2]) != 4 {
			t.Errorf("validity %s ms of 10s, want at most 9898 and not much less", reply[2])
		}
		if reply[0] <= last {
			t.Errorf("token %s after %s", reply[0], last)
		}
		last = reply[0]
		host.Unlock("job", last)
	}
	held := host.Lock("job", "10s")
	host.WantDo(lab.Null2, "LOCK", "job", "10s", "FULL")
	lab.Dial3(t, c.Addr).WantDo(lab.Null3, "LOCK", "job", "10s", "FULL")
	host.Unlock("job", held)
}
