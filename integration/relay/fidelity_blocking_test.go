package relay

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// A LOCK pipelined after a blocking command runs once that command is answered: by data, by its
// timeout or by CLIENT UNBLOCK. Commands after the LOCK run after it.
func TestLockWaitsForBlockingCommand(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 1)
	for name, b := range map[string]struct {
		block  []string
		before [][]string // prepare the keys
		wake   []string   // sent over another connection; nil: the timeout ends it
		reply  string
	}{
		"BLPOP": {[]string{"BLPOP", "q1", "0"}, nil, []string{"RPUSH", "q1", "x"},
			"*2\r\n" + lab.Bulk("q1") + lab.Bulk("x")},
		"BLMOVE": {[]string{"BLMOVE", "q2", "r2", "LEFT", "RIGHT", "0"}, nil, []string{"RPUSH", "q2", "x"},
			lab.Bulk("x")},
		"BLMPOP": {[]string{"BLMPOP", "0", "1", "q3", "LEFT"}, nil, []string{"RPUSH", "q3", "x"},
			"*2\r\n" + lab.Bulk("q3") + "*1\r\n" + lab.Bulk("x")},
		"BZPOPMIN": {[]string{"BZPOPMIN", "z1", "0"}, nil, []string{"ZADD", "z1", "1", "m"},
			"*3\r\n" + lab.Bulk("z1") + lab.Bulk("m") + lab.Bulk("1")},
		"XREAD": {[]string{"XREAD", "BLOCK", "0", "STREAMS", "s1", "$"}, nil,
			[]string{"XADD", "s1", "1-1", "f", "v"}, streamReply("s1", "1-1")},
		"XREADGROUP": {[]string{"XREADGROUP", "GROUP", "g", "me", "BLOCK", "0", "STREAMS", "s2", ">"},
			[][]string{{"XGROUP", "CREATE", "s2", "g", "$", "MKSTREAM"}}, []string{"XADD", "s2", "1-1", "f", "v"},
			streamReply("s2", "1-1")},
		"BLPOP timed out": {[]string{"BLPOP", "none", "0.2"}, nil, nil, "*-1\r\n"},
		"XREAD timed out": {[]string{"XREAD", "BLOCK", "200", "STREAMS", "none", "$"}, nil, nil, "*-1\r\n"},
		"WAIT timed out":  {[]string{"WAIT", "1", "200"}, [][]string{{"SET", "w", "1"}}, nil, ":0\r\n"},
		"BLPOP unblocked": {[]string{"BLPOP", "none", "0"}, nil, []string{"CLIENT", "UNBLOCK", "ID"}, "*-1\r\n"},
		"XREAD unblocked": {[]string{"XREAD", "BLOCK", "0", "STREAMS", "none", "$"}, nil,
			[]string{"CLIENT", "UNBLOCK", "ID", "ERROR"}, "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"},
		"paused": {[]string{"ECHO", "x"}, [][]string{{"CLIENT", "PAUSE", "200"}}, nil, lab.Bulk("x")},
		"BLPOP, key set": {[]string{"BLPOP", "q4", "0"}, [][]string{{"RPUSH", "q4", "x"}}, nil,
			"*2\r\n" + lab.Bulk("q4") + lab.Bulk("x")},
		"BLPOP, wrong type": {[]string{"BLPOP", "t", "0"}, [][]string{{"SET", "t", "x"}}, nil,
			"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			host, other := lab.Dial(t, c.Addr), lab.Dial(t, c.Upstream.Addr)
			for _, command := range b.before {
				if reply := host.Do(command...); reply[0] == '-' {
					t.Fatalf("%q: got %q, want no error", command, reply)
				}
			}
			id := strings.TrimPrefix(lab.Scalar(host.Do("CLIENT", "ID")), ":")
			key := strings.ReplaceAll(name, " ", "-")
			host.Send(lab.Encode(b.block...) + lab.Encode("LOCK", key, "60s") + lab.Encode("RPUSH", "order", key))
			if b.wake != nil {
				lab.WaitFor(t, "blocked", lab.Patience, func() bool {
					return c.Upstream.Info(t, "clients", "blocked_clients") == "1"
				})
				if got := c.Masters[0].Do(t, "EXISTS", "lock:"+key); got != ":0\r\n" {
					t.Error("LOCK ran before the blocking command was answered")
				}
				for i := range b.wake {
					b.wake[i] = strings.Replace(b.wake[i], "ID", id, 1)
				}
				other.Do(b.wake...)
			}
			host.Want(b.reply)
			token := lab.TokenOf(host.Frame())
			if next := host.Frame(); token == "" || next[0] != ':' {
				t.Errorf("got token %q and then %q, want a token and an integer", token, next)
			}
			host.Unlock(key, token)
		})
	}
}

func streamReply(key, id string) string {
	return "*1\r\n*2\r\n" + lab.Bulk(key) + "*1\r\n*2\r\n" + lab.Bulk(id) + "*2\r\n" + lab.Bulk("f") + lab.Bulk("v")
}

// REPLCONF ACK has no reply of its own and none inside EXEC's reply, so the proxy cannot match
// replies after it. Only replicas send it: from then on the proxy forwards lock commands to the
// upstream, which does not know them.
func TestReplconfEndsLockCommands(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 1)
	for _, before := range [][]string{{"REPLCONF", "ACK", "0"}, {"REPLCONF", "GETACK", "*"},
		{"replconf", "capa", "eof", "ack", "0"}} {
		for _, sent := range []string{
			lab.Encode(before...) + lab.Encode("LOCK", "job", "60s"),
			lab.Encode("MULTI") + lab.Encode(before...) + lab.Encode("EXEC") + lab.Encode("LOCK", "job", "60s"),
			lab.Encode(before...) + lab.Encode("MULTI") + lab.Encode("SET", "a", "1") + lab.Encode("LOCK", "job",
				"60s") + lab.Encode("EXEC"),
		} {
			host, direct := lab.Dial(t, c.Addr), lab.Dial(t, c.Upstream.Addr)
			direct.Send(sent + "PING end\r\n")
			host.Send(sent + "PING end\r\n")
			want := ""
			for !strings.HasSuffix(want, lab.Bulk("end")) {
				part, closed, err := direct.Rest(20 * time.Millisecond)
				if want += part; closed || err != nil {
					t.Fatalf("%q: Redis closed the connection after %q", sent, want)
				}
			}
			host.Want(want)
		}
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}
