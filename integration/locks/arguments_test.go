package locks

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// badArguments is a command and the error that the contract has for it. An error that does not end
// with a line feed is only the beginning.
type badArguments struct {
	want string
	args []string
}

func allBadArguments() []badArguments {
	token := "0000000000000001:" + strings.Repeat("0a", 20)
	const (
		lockCount   = "-ERR wrong number of arguments for 'lock' command\r\n"
		unlockCount = "-ERR wrong number of arguments for 'unlock' command\r\n"
		syntax      = "-ERR syntax error near '"
		badKey      = "-ERR invalid key"
		badToken    = "-ERR invalid token"
	)
	table := []badArguments{
		{lockCount, []string{"LOCK"}},
		{lockCount, []string{"lOcK", "job"}},
		{unlockCount, []string{"UNLOCK"}},
		{unlockCount, []string{"unlock", "job"}},
		{syntax, []string{"UNLOCK", "job", token, "more"}},
		{"-ERR syntax error: KEEP needs a time\r\n", []string{"UNLOCK", "job", token, "KEEP"}},
		{syntax, []string{"LOCKINFO", "job", "more"}},
		{syntax, []string{"LOCK", "job", "1000", "NONSENSE"}},
		{syntax, []string{"LOCK", "job", "1000", ""}},
		{"-ERR syntax error: FULL is given twice\r\n", []string{"LOCK", "job", "1000", "FULL", "FULL"}},
		{syntax, []string{"LOCK", "job", "1000", "2000"}},
		{"-ERR ttl 600000 exceeds max-ttl 60000: it is 10m, and 10ms to 60s is allowed\r\n",
			[]string{"LOCK", "job", "600000"}},
		{"-ERR ttl 600000 exceeds max-ttl 60000: it is 10m, and 10ms to 60s is allowed\r\n",
			[]string{"LOCK", "job", "600s"}},
		{"-ERR ttl 600000 exceeds max-ttl 60000: it is 10m, and 10ms to 60s is allowed\r\n", []string{"LOCK", "job", "10m"}},
		{"-ERR ttl 3600000 exceeds max-ttl 60000: it is 1h, and 10ms to 60s is allowed\r\n", []string{"LOCK", "job", "1h"}},
		{"-ERR ttl 60001 exceeds max-ttl 60000: it is 60001ms, and 10ms to 60s is allowed\r\n",
			[]string{"LOCK", "job", "60001ms"}},
		{"-ERR ttl 5 is under min-ttl 10: it is 5ms (5 seconds are 5s), and 10ms to 60s is allowed\r\n",
			[]string{"LOCK", "job", "5"}},
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
	return append(table, badTTLs()...)
}

// badTTLs returns times that LOCK refuses. B15: a ttl under a millisecond deleted the key or never
// held it, and the client got a grant (node-redlock#120).
func badTTLs() (table []badArguments) {
	const expire = "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, " +
		"or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s\r\n"
	for _, ttl := range []string{"0", "0ms", "0s", "00", "-1", "-1s", "+5", "+5000", "5.0", "1.5s", "1e3", "0x10",
		" 1000", "1000 ", "1 s", "s", "ms", "", "5S", "5MS", "5d", "5us", "5ns", "1m1m", "30s1m", "1m30", "1_000",
		"\x001000", "1000\x00", "10\r\n", "९", "NaN"} {
		table = append(table, badArguments{expire, []string{"LOCK", "job", ttl}})
	}
	for _, huge := range []string{"9223372036854775807", "9223372036854775808", "99999999999999999999999",
		"18446744073709551617", "18446744073710", "9223372036854775807h", "2562047788015216h",
		"5124095576030432h"} {
		table = append(table, badArguments{"-ERR ", []string{"LOCK", "job", huge}})
	}
	return table
}

// TestBadArgumentsGetContractErrors: bad arguments give the errors of the contract word for word,
// and the proxy asks no master.
func TestBadArgumentsGetContractErrors(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	lab.Settle(t, c.Masters, c.Proxy) // no command of the first lock is under way
	start := time.Now()
	direct, scripts := make([]string, len(c.Masters)), make([]int, len(c.Masters))
	for i, s := range c.Masters {
		direct[i], scripts[i] = withoutScripts(t, s), lab.ScriptCount(t, s)
	}
	host, host3 := lab.Dial(t, c.Addr), lab.Dial3(t, c.Addr)
	for _, row := range allBadArguments() {
		t.Run(fmt.Sprintf("%.80q", row.args), func(t *testing.T) {
			for _, host := range []*lab.Client{host, host3} {
				row.wantError(t, host)
			}
		})
	}
	host.WantDo("+PONG\r\n", "PING")
	var now []string
	var ran []int
	for i, s := range c.Masters {
		now, ran = append(now, withoutScripts(t, s)), append(ran, lab.ScriptCount(t, s)-scripts[i])
	}
	looks := int(time.Since(start)/time.Second) + 2 // the proxy looks at its record once a second
	for i := range c.Masters {
		if now[i] != direct[i] {
			t.Errorf("commands at a master: got %q, want %q as before the bad arguments", now[i], direct[i])
		}
		if ran[i] > looks {
			t.Errorf("scripts at a master during the bad arguments: got %d, want at most %d", ran[i], looks)
		}
	}
}

// wantError sends the command and compares the reply.
func (b badArguments) wantError(t testing.TB, host *lab.Client) {
	t.Helper()
	got := host.Do(b.args...)
	if exact := strings.HasSuffix(b.want, "\n"); exact && got != b.want || !strings.HasPrefix(got, b.want) {
		t.Errorf("got %q, want %q", got, b.want)
	}
	if strings.ContainsAny(strings.TrimSuffix(got, "\r\n"), "\r\n\x00") {
		t.Errorf("got %q, want no control bytes", got)
	}
}

// withoutScripts is lab.Calls without the count of scripts.
func withoutScripts(t testing.TB, s *lab.Redis) string {
	t.Helper()
	return regexp.MustCompile(`cmdstat_eval(sha)? calls=\d+ ?`).ReplaceAllString(lab.Calls(t, s), "")
}

// TestGoodArgumentsAreGranted: keys of any bytes and all forms of a ttl are granted, and the
// masters get that ttl.
func TestGoodArgumentsAreGranted(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	for _, key := range []string{"k", strings.Repeat("k", 1024), "\x00", "a b", "{tag}", "\r\n", "\xff\xfe",
		"Ünicode", "$57\r\n", "lockproxy:x"} {
		token := host.Lock(key, "60s")
		host.WantDo(lab.Null2, "LOCK", key, "60s")
		for _, s := range c.Masters {
			lab.WaitFor(t, "key on every master", lab.Patience,
				func() bool { return s.Do(t, "EXISTS", "lock:"+key) == ":1\r\n" })
		}
		host.Unlock(key, token)
		host.WantDo(":0\r\n", "UNLOCK", key, token)
	}
	for ttl, millis := range map[string]int{"10s": 10000, "5000": 5000, "60s": 60000, "1m": 60000,
		"000060000": 60000, "20000ms": 20000} {
		asked := time.Now()
		token := host.Lock("job", ttl)
		left, err := strconv.Atoi(lab.Scalar(c.Masters[0].Do(t, "PTTL", "lock:job")))
		passed := int(time.Since(asked).Milliseconds()) + 1
		if err != nil || left > millis || left < millis-passed {
			t.Errorf("PTTL after LOCK with ttl %s: got %d, want %d, less at most the %d ms since", ttl, left, millis, passed)
		}
		host.Unlock("job", token)
	}
	host.Unlock("job", strings.Repeat("9", 16)+host.Lock("job", "60s")[16:]) // only the hex part decides
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestReservedNamesAreRefused: no lock overwrites the proxy's own keys on the masters.
func TestReservedNamesAreRefused(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--key-prefix", "")
	host := lab.Dial(t, c.Addr)
	if got := host.Do("LOCK", "lockproxy:state:", "60s"); !strings.HasPrefix(got, "-ERR invalid key") {
		t.Errorf("LOCK of a reserved name: got %q, want -ERR invalid key", got)
	}
	host.Unlock("lockprox", host.Lock("lockprox", "60s"))
}

// TestFullAddsFenceAndValidity: the validity counts from the attempt that was granted. B6: another
// library counted it from the first attempt (node-redlock#169).
func TestFullAddsFenceAndValidity(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	var last string
	for range 5 {
		asked := time.Now()
		reply := lab.Fields(host.Do("LOCK", "job", "10s", "full"))
		if len(reply) != 3 || lab.TokenOf(lab.Bulk(reply[0])) == "" {
			t.Fatalf("LOCK FULL: got %q, want token, fence and validity", reply)
		}
		if fence := strings.TrimLeft(reply[0][:16], "0"); fence != reply[1] {
			t.Errorf("fence: got %s, want %s as in the token", reply[1], fence)
		}
		const most = 10_000 - 10_000/100 - 2
		least := most - int(time.Since(asked).Milliseconds()) - 1
		if got := lab.Number(t, reply[2]); got > most || got < least {
			t.Errorf("validity: got %d ms, want %d to %d", got, least, most)
		}
		if reply[0] <= last {
			t.Errorf("token: got %s, want one above %s", reply[0], last)
		}
		last = reply[0]
		host.Unlock("job", last)
	}
	held := host.Lock("job", "10s")
	host.WantDo(lab.Null2, "LOCK", "job", "10s", "FULL")
	lab.Dial3(t, c.Addr).WantDo(lab.Null3, "LOCK", "job", "10s", "FULL")
	host.Unlock("job", held)
}
