package faults

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// request is a command that is recorded for each of its keys.
type request struct {
	history.Op
	further []string // keys, of KEYS
	args    []string
}

// newRequest adds the further keys to a command.
func newRequest(o history.Op, further []string, args ...string) request {
	if len(further) > 0 {
		args = append(append(args, "KEYS", strconv.Itoa(len(further))), further...)
	}
	return request{o, further, args}
}

// record adds the outcome of a command to the history, for each key.
func (c *stormClient) record(o history.Op, further []string) {
	c.s.log.Add(o)
	for _, o.Key = range further {
		c.s.log.Add(o)
	}
}

// ask sends a command to a proxy. It records and returns the outcome; false means that it sent no
// command.
func (c *stormClient) ask(proxy int, r request) (history.Op, bool) {
	o := r.Op
	conn := c.conns[proxy]
	if conn == nil {
		var err error
		if conn, err = lab.Connect(c.s.addrs[proxy]); err != nil {
			return o, false
		}
		c.conns[proxy] = conn
	}
	conn.Timeout = stormPatience
	o.Via = proxy
	o.Call = c.s.log.Now()
	reply, err := conn.Ask(r.args...)
	o.Return = c.s.log.Now()
	switch {
	case err == nil:
		c.judge(&o, reply)
	case errors.Is(err, os.ErrDeadlineExceeded) && c.IntN(2) == 0: // the client ignores a late reply
		if late, err := conn.Next(); err == nil && o.Kind == history.Lock {
			o.Token = strings.Join(lab.Fields(late), " ")
			o.Token = o.Token[:min(57, len(o.Token))]
		}
	}
	if err != nil {
		c.drop(proxy)
	}
	c.record(o, r.further)
	return o, true
}

// drop ends the connection to a proxy, by FIN or RST.
func (c *stormClient) drop(proxy int) {
	if conn := c.conns[proxy]; conn != nil {
		conn.Vanish(lab.Manners[c.IntN(2)])
		delete(c.conns, proxy)
	}
}

// judge sets the outcome of o by the reply.
func (c *stormClient) judge(o *history.Op, reply string) {
	parts := lab.Fields(reply)
	code, _, _ := strings.Cut(reply, " ")
	switch {
	case code == "-NOQUORUM", code == "-TRYAGAIN" && o.Kind != history.Unlock:
		o.Outcome, o.Error = history.Failed, strings.TrimSpace(reply)
	case o.Kind == history.Lock && reply == lab.Null2,
		o.Kind == history.Unlock && reply == ":0\r\n", reply == "*2\r\n:0\r\n:0\r\n":
		o.Outcome = history.No
	case o.Kind == history.Unlock && reply == ":1\r\n":
		o.Outcome, o.Validity = history.OK, max(0, o.TTL-o.TTL/100-2*time.Millisecond)
	case o.Kind == history.Lock && grantOf(o, reply):
		o.Outcome, o.Token = history.OK, parts[0]
		o.Fence, _ = strconv.ParseUint(parts[1], 10, 64)
		o.Validity = c.validity(parts[2])
		if o.Mode == history.Limited {
			o.Slot = lab.Number(c.s.t, parts[3])
		}
	case o.Kind == history.Extend && strings.HasPrefix(reply, "*2\r\n:1\r\n") && len(parts) == 2:
		o.Outcome, o.Validity = history.OK, c.validity(parts[1])
	default:
		o.Outcome, o.Error = history.Failed, strings.TrimSpace(reply)
		c.s.t.Errorf("%v: got reply %q, want a known form", o, reply)
	}
}

// grantOf reports whether a reply has the form of a grant of that mode.
func grantOf(o *history.Op, reply string) bool {
	form := "*3\r\n$57\r\n"
	if o.Mode == history.Limited {
		form = "*4\r\n$57\r\n"
	}
	return strings.HasPrefix(reply, form)
}

func (c *stormClient) validity(text string) time.Duration {
	ms, err := strconv.Atoi(text)
	if err != nil || ms < 0 {
		c.s.t.Errorf("validity: got %q, want milliseconds", text)
	}
	return time.Duration(ms) * time.Millisecond
}
