package relay

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Redis' own test suite cannot be copied here. suite_*_test.go rewrites the cases in which a
// proxy may differ: scenes of a few connections, played directly with one server and through the
// proxy with another, with the same replies.

// scene is a list of steps. Each begins with the name of a connection, which is opened at its
// first step:
//
//	a PING x        sends a command and reads its reply; {b.id} is the CLIENT ID of connection b
//	a> PING x       sends a command
//	a# "PING\r\n"   sends bytes, quoted as in Go
//	a< 3            reads three replies or pushes
//	a.              reads until the other side closes, which it must
//	a~              reads for a moment; through the proxy until it has the bytes of the direct run
//	a=              asks for its id, for steps in which that is impossible
//	a-              ends its input
//	a/              closes
//	a? GET k = $1   asks until the reply begins with that
type scene struct {
	name  string
	steps []string
	want  string // contained in the replies: proof that the scene reached its case
}

// stage holds the connections of the scene being played.
type stage struct {
	t       testing.TB
	addr    string
	conns   map[string]*lab.Client
	ids     map[string]string
	heard   strings.Builder
	direct  bool
	moments []string // the bytes read by each a~; through the proxy: the rest, to be read yet
}

func (s *stage) conn(name string) *lab.Client {
	if s.conns[name] == nil {
		s.conns[name] = lab.Dial(s.t, s.addr)
		s.conns[name].Timeout = lab.Patience
	}
	return s.conns[name]
}

var idOf = regexp.MustCompile(`\{(\w+)\.id\}`)

// words splits a line at blanks and fills in the ids.
func (s *stage) words(line string) []string {
	return strings.Fields(idOf.ReplaceAllStringFunc(line, func(m string) string {
		name := idOf.FindStringSubmatch(m)[1]
		if s.ids[name] == "" {
			s.ids[name] = strings.TrimSpace(s.conn(name).Do("CLIENT", "ID")[1:])
		}
		return s.ids[name]
	}))
}

// step plays one step. It returns the reason if that failed, or "".
func (s *stage) step(line string) (what string) {
	who, rest, _ := strings.Cut(line, " ")
	name := strings.TrimRight(who, "><#.~=-/?")
	if err := s.act(name, who[len(name):], rest); err != nil {
		return err.Error()
	}
	return ""
}

// act does what the mark after the connection's name says.
func (s *stage) act(name, how, rest string) error {
	c := s.conn(name)
	switch how {
	case "":
		if err := c.Put(lab.Encode(s.words(rest)...)); err != nil {
			return err
		}
		return s.read(name, 1)
	case ">":
		return c.Put(lab.Encode(s.words(rest)...))
	case "#":
		text, err := strconv.Unquote(rest)
		if err != nil {
			return err
		}
		return c.Put(text)
	case "<":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		return s.read(name, n)
	case ".":
		text, closed, _ := c.Rest(lab.Patience)
		if s.note(name, text); !closed {
			return errors.New("the connection is still open")
		}
	case "~":
		s.note(name, s.moment(c))
	case "=":
		s.words("{" + name + ".id}")
	case "-":
		return c.CloseWrite()
	case "/":
		c.Close()
	case "?":
		command, want, _ := strings.Cut(rest, " = ")
		args := s.words(command)
		if !lab.Poll(lab.Patience, func() bool { return strings.HasPrefix(c.Do(args...), want) }) {
			return fmt.Errorf("the reply never became %s", want)
		}
	default:
		return errors.New("no such step")
	}
	return nil
}

// note records bytes that a connection got.
func (s *stage) note(name, text string) { fmt.Fprintf(&s.heard, "%s: %q\n", name, text) }

// read reads and records n replies or pushes.
func (s *stage) read(name string, n int) error {
	for range n {
		frame, err := s.conn(name).Next()
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		s.note(name, frame)
	}
	return nil
}

// moment reads for a moment, and adds whether the connection was closed.
func (s *stage) moment(c *lab.Client) string {
	text, closed, _ := c.Rest(50 * time.Millisecond)
	again := func() string {
		if !closed {
			var more string
			more, closed, _ = c.Rest(20 * time.Millisecond)
			text += more
		}
		return fmt.Sprintf("%s, closed %v", text, closed)
	}
	if s.direct { // after so many event loops the server has read all that was sent
		desk := lab.Dial(s.t, s.addr)
		for range 30 {
			desk.Do("PING")
		}
		desk.Close()
		s.moments = append(s.moments, again())
		return s.moments[len(s.moments)-1]
	}
	if len(s.moments) == 0 {
		return "more moments than directly"
	}
	var got string
	lab.Poll(lab.Patience, func() bool { got = again(); return got == s.moments[0] })
	s.moments = s.moments[1:]
	return got
}

// perform plays a scene and returns all replies. moments are nil for the direct run, and that
// run's result for the one through the proxy.
func perform(t testing.TB, addr string, sc scene, moments []string) (heard string, read []string) {
	t.Helper()
	s := &stage{t: t, addr: addr, conns: map[string]*lab.Client{}, ids: map[string]string{}, direct: moments == nil,
		moments: moments}
	for i, line := range sc.steps {
		if what := s.step(line); what != "" {
			fmt.Fprintf(&s.heard, "step %d, %s: %s\n", i, line, what)
			break
		}
	}
	for _, c := range s.conns {
		c.Close()
	}
	text := s.heard.String()
	for _, id := range s.ids {
		text = strings.ReplaceAll(text, ":"+id+`\r`, `:ID\r`)
	}
	return variable.ReplaceAllString(text, "$1"), append(s.moments, "")
}

// variable matches values that differ between any two connections or moments, after their names.
var variable = regexp.MustCompile(`(\\r\\nid\\r\\n|id=|addr=|laddr=|fd=|age=|idle=|\+)(:?\d+(\.\d+)? \[\d+ [^\]]+\]|[-0-9.:]*\d)`)

// performBoth plays the scenes both ways and compares. args configure the servers.
func performBoth(t *testing.T, scenes []scene, args ...string) {
	t.Helper()
	direct, upstream := lab.StartRedis(t, args...), lab.StartRedis(t, args...)
	p := lab.StartProxy(t, "--upstream", upstream.Addr, "--masters", lab.StartRedis(t).Addr, "--restart-guard", "off")
	for _, sc := range scenes {
		t.Run(sc.name, func(t *testing.T) {
			want, moments := perform(t, direct.Addr, sc, nil)
			got, _ := perform(t, p.Addr, sc, moments)
			if got != want {
				t.Errorf("through the proxy:\n%.3000s\ndirectly:\n%.3000s", got, want)
			}
			if !strings.Contains(want, sc.want) {
				t.Errorf("got no %q in the replies:\n%.3000s", sc.want, want)
			}
			if strings.Contains(want, "step ") {
				t.Errorf("the scene failed directly:\n%.3000s", want)
			}
		})
		for _, s := range []*lab.Redis{direct, upstream} {
			_ = s.Do(t, "CLIENT", "UNPAUSE")
			_ = s.Do(t, "FLUSHALL")
		}
	}
}
