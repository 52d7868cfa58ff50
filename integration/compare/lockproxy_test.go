package compare

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// ours is lockproxy with its defaults and the max-ttl of the field: two proxies with a client
// each.
func ours() subject {
	return subject{name: "lockproxy", version: "at commit " + commit(), fences: true, start: startOurs}
}

func startOurs(t *testing.T, f *field) (clients [2]client) {
	t.Helper()
	upstream := lab.StartRedis(t)
	flags := []string{"--upstream", upstream.Addr, "--masters", strings.Join(f.addrs, ","), "--max-ttl",
		millis(f.maxTTL) + "ms"}
	for i := range clients {
		clients[i] = proxied{lab.StartProxy(t, flags...).Addr}
	}
	return clients
}

// proxied is a client of a proxy. It opens a connection for each command, because a lock does not
// belong to a connection.
type proxied struct{ addr string }

func (p proxied) lock(key string, ttl time.Duration) (grant, error) {
	call, err := p.ask("LOCK", key, millis(ttl), "WAIT", "2s", "FULL")
	if err != nil {
		return grant{}, err
	}
	parts := lab.Fields(call.Reply)
	if len(parts) != 3 {
		return grant{}, fmt.Errorf("LOCK %s: got %q", key, call.Reply)
	}
	fence, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return grant{}, err
	}
	validity, err := strconv.Atoi(parts[2])
	if err != nil {
		return grant{}, err
	}
	until := call.Sent.Add(time.Duration(validity) * time.Millisecond)
	return grant{key: key, sent: call.Sent, back: call.Back, until: until, token: parts[0], fence: fence}, nil
}

func (p proxied) unlock(g grant) error {
	call, err := p.ask("UNLOCK", g.key, g.token)
	if err == nil && call.Reply != ":1\r\n" {
		err = fmt.Errorf("UNLOCK %s: got %q", g.key, call.Reply)
	}
	return err
}

func (p proxied) ask(args ...string) (lab.Call, error) {
	c, err := lab.Connect(p.addr)
	if err != nil {
		return lab.Call{}, err
	}
	defer c.Close()
	call := c.Call(2*lab.Patience, args...)
	return call, call.Err
}
