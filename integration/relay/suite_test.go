package relay

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Redis' own test suite cannot be copied here. Its cases in which a proxy may differ are written
// anew in suite_*_test.go: scenes of a few connections, played directly with one server and through
// the proxy with another, with the same replies.

// scene is a list of steps. Each begins with the name of a connection, which is opened when it
// first occurs:
//
//	a PING x        sends a command and reads its reply; {b.id} is the CLIENT ID of connection b
//	a> PING x       sends a command
//	a# "PING\r\n"   sends bytes, quoted as in Go
//	a< 3            reads three replies or pushes
//	a.              reads until the other side closes, which it must
//	a~              reads for a moment; through the proxy until it has read the same as directly
//	a=              asks for its id, which cannot be asked for later
//	a-              ends its input
//	a/              closes
//	a? GET k = $1   asks until the reply begins with that
type scene struct {
	name  string
	steps []string
	want  string // the replies contain it: the scene has reached the case that it is about
}

// stage holds the connections of a scene that is played.
type stage struct {
	t       testing.TB
	addr    string
	conns   map[string]*lab.Client
	ids     map[string]string
	heard   strings.Builder
	direct  bool
	moments []string // the bytes read by each a~; through the proxy: those still to read
}

func (s *stage) conn(name string) *lab.Client {
	if s.conns[name] == nil {
		s.conns[name] = lab.Dial(s.t, s.addr)
		s.conns[name].Timeout = lab.Patience
	}
	return s.conns[name]
}

var idOf = regexp.MustCompile(`\{(\w+)\.id\}`)

// words cuts a line at blanks and fills in the ids.
func (s *stage) words(line string) []string {
	return strings.Fields(idOf.ReplaceAllStringFunc(line, func(m string) string {
		name := idOf.FindStringSubmatch(m)[1]
		if s.ids[name] == "" {
			s.ids[name] = strings.TrimSpace(s.conn(name).Do("CLIENT", "ID")[1:])
		}
		return s.ids[name]
	}))
}

// step plays one step. It returns the reason if it could not, or "".
func (s *stage) step(line string) (what string) {
	who, rest, _ := strings.Cut(line, " ")
	name, how := strings.TrimRight(who, "><#.~=-/?"), who[len(strings.TrimRight(who, "><#.~=-/?")):]
	c := s.conn(name)
	say := func(text string) { fmt.Fprintf(&s.heard, "%s: %q\n", name, text) }
	read := func(n int) string {
		for range n {
			if err := c.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
				return err.Error()
			}
			frame, err := lab.ReadFrame(c.Reader)
			if err != nil {
				return fmt.Sprintf("read: %v", err)
			}
			say(frame)
		}
		return ""
	}
	switch how {
	case "":
		if err := c.Put(lab.Encode(s.words(rest)...)); err != nil {
			return err.Error()
		}
		return read(1)
	case ">":
		if err := c.Put(lab.Encode(s.words(rest)...)); err != nil {
			return err.Error()
		}
	case "#":
		text, err := strconv.Unquote(rest)
		if err == nil {
			err = c.Put(text)
		}
		if err != nil {
			return err.Error()
		}
	case "<":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err.Error()
		}
		return read(n)
	case ".":
		text, closed, _ := c.Rest(lab.Patience)
		if say(text); !closed {
			return "it is open"
		}
	case "~":
		say(s.moment(c))
	case "=":
		s.words("{" + name + ".id}")
	case "-":
		if err := c.CloseWrite(); err != nil {
			return err.Error()
		}
	case "/":
		c.Close()
	case "?":
		command, want, _ := strings.Cut(rest, " = ")
		args := s.words(command)
		if !lab.Poll(lab.Patience, func() bool { return strings.HasPrefix(c.Do(args...), want) }) {
			return "it does not come to " + want
		}
	default:
		return "no such step"
	}
	return ""
}

// moment reads for a moment, and adds a mark if the connection was closed then.
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
	if s.direct { // a server that has turned so often has read all that was sent
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

// perform plays a scene and returns all replies. moments are nil for the direct one, and its result
// for the one through the proxy.
func perform(t testing.TB, addr string, sc scene, moments []string) (heard string, read []string) {
	t.Helper()
	s := &stage{t: t, addr: addr, conns: map[string]*lab.Client{}, ids: map[string]string{}, direct: moments == nil, moments: moments}
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

// performBoth plays the scenes both ways and compares. args are the servers'.
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
				t.Errorf("%q does not occur in it:\n%.3000s", sc.want, want)
			}
			if strings.Contains(want, "step ") {
				t.Errorf("it could not be played to its end:\n%.3000s", want)
			}
		})
		for _, s := range []*lab.Redis{direct, upstream} {
			_ = s.Do(t, "CLIENT", "UNPAUSE")
			_ = s.Do(t, "FLUSHALL")
		}
	}
}
