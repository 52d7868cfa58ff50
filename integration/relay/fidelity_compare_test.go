package relay

import (
	"bufio"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockproxy/integration/lab"
)

// Comparison of the two answers.

// Parts that differ between any two connections or moments: the id in HELLO's reply; the time and
// the address in a line of MONITOR. Lines about commands that the test or the proxy sends on
// other connections are dropped.
var (
	helloID      = regexp.MustCompile(`(\$2\r\nid\r\n):\d+\r\n`)
	foreignLine  = regexp.MustCompile(`\+\d{10}\.\d{6} \[\d+ [^\]]*\] ("PING"( "harness")?|"RESET"|"INFO" "clients"|"cLiEnT" "lIsT")\r\n`)
	monitorLine  = regexp.MustCompile(`\+\d{10}\.\d{6} \[(\d+) [^\]]*\] "`)
	lockReplyErr = regexp.MustCompile(`^-(ERR (wrong number of arguments for|syntax error|unknown subcommand |invalid |ttl |[A-Z]+ is not allowed in transactions|Can't execute)|NOAUTH |NOQUORUM |TRYAGAIN )`)
	refusedLock  = regexp.MustCompile(`(?i)^-ERR unknown command '(lock|unlock|extend|lockinfo|lockproxy)', with args`)
)

// plain removes the parts that always differ. Tagged replies become "+order ..." or "+value ...".
func (s *fidelityScript) plain(text string) string {
	text = helloID.ReplaceAllString(text, "$1:0\r\n")
	text = foreignLine.ReplaceAllString(text, "")
	text = monitorLine.ReplaceAllString(text, "+T [$1 A] \"")
	for i, m := range s.masks {
		open, end := s.tagReply(i, "("), s.tagReply(i, ")")
		before, rest, found := strings.Cut(text, open)
		inside, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			continue
		}
		text = before + open + masked(m, inside) + end + after
	}
	return text
}

func (s *fidelityScript) tagReply(i int, which string) string {
	name := fmt.Sprintf("mask-%d%s", i, which)
	if s.state.pings {
		return lab.Bulk(name)
	}
	return "-ERR unknown command '" + name + "', with args beginning with: \r\n"
}

// masked reduces replies to the parts that are compared. Lines of MONITOR and errors stay
// unchanged.
func masked(m mask, text string) string {
	var b strings.Builder
	for _, f := range frames(text) {
		switch {
		case m == maskAny && !strings.HasPrefix(f, "+T [") && !strings.HasPrefix(f, "+QUEUED"):
			b.WriteString("+any\r\n")
		case strings.HasPrefix(f, "-") || strings.HasPrefix(f, "+T [") || strings.HasPrefix(f, "+QUEUED"):
			b.WriteString(f)
		case m == maskOrder:
			fmt.Fprintf(&b, "+order %q\r\n", unordered(f))
		default:
			fmt.Fprintf(&b, "+value %q\r\n", f[:1])
		}
	}
	return b.String()
}

// unordered returns a reply with the elements of each aggregate sorted.
func unordered(frame string) string {
	if strings.IndexByte("*~%>", frame[0]) < 0 {
		return frame
	}
	head, _, _ := strings.Cut(frame, "\r\n")
	list := lab.Elements(frame)
	for i := range list {
		list[i] = unordered(list[i])
	}
	slices.Sort(list)
	return head + "\r\n" + strings.Join(list, "")
}

// frames splits text into replies. An incomplete or malformed rest becomes the last element.
func frames(text string) (list []string) {
	r := bufio.NewReader(strings.NewReader(text))
	for text != "" {
		f, err := lab.ReadFrame(r)
		if err != nil {
			return append(list, text)
		}
		list, text = append(list, f), text[len(f):]
	}
	return list
}

// lockCount counts the lock commands of a script by their outcome.
type lockCount struct{ granted, refused, passed int }

// differs compares the answer through the proxy with the direct one, and describes the first
// difference; "" means equal. In the place of each lock command that Redis calls unknown, the
// proxy must have answered the command itself; pushes may come before or after.
func (s *fidelityScript) differs(got, want string) (what string, count lockCount) {
	g, w := frames(s.plain(got)), frames(s.plain(want))
	place := 0
	exactPlaces := !s.mutated && !s.state.silent
	for i, wanted := range w {
		if !refusedLock.MatchString(wanted) {
			if len(g) == 0 || g[0] != wanted {
				return fmt.Sprintf("reply %d of %d, %s", i, len(w), firstDifference(append(g, "no reply")[0], wanted)), count
			}
			g = g[1:]
			continue
		}
		at := slices.IndexFunc(g, func(f string) bool { return !lab.IsPush(f) })
		if at < 0 {
			return fmt.Sprintf("reply %d of %d: a lock command has no answer", i, len(w)), count
		}
		reply, expect := g[at], ""
		if exactPlaces && place < len(s.locks) {
			expect = s.locks[place]
		}
		if what := s.lockAnswer(reply, wanted, expect, &count); what != "" {
			return fmt.Sprintf("reply %d of %d: %s", i, len(w), what), count
		}
		g = slices.Delete(g, at, at+1)
		place++
	}
	if len(g) > 0 {
		return fmt.Sprintf("got more through the proxy than directly: %.300q", g[0]), count
	}
	return "", count
}

// firstDifference shows two replies from shortly before their first difference.
func firstDifference(got, want string) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	at = max(0, at-20)
	return fmt.Sprintf("from byte %d of it: through the proxy %.300q, directly %.300q", at, got[at:], want[at:])
}

// lockAnswer judges the reply to a lock command. If the upstream may suppress replies (CLIENT
// REPLY), or the bytes may no longer be commands, the proxy forwards the command, and Redis' own
// error is right.
func (s *fidelityScript) lockAnswer(reply, refusal, expect string, count *lockCount) string {
	sent := strings.ToUpper(s.text.String())
	uncertain := strings.Contains(sent, "REPLY") || strings.Contains(sent, "SYNC") ||
		strings.Contains(sent, "REPLCONF") || strings.Contains(sent, "DEBUG")
	granted := strings.HasPrefix(reply, "$57\r\n")
	switch {
	case reply == refusal && uncertain:
		count.passed++
		return ""
	case reply == refusal:
		return "a lock command was not recognised"
	case expect != "" && !strings.HasPrefix(reply, expect) && !(expect == "$57\r\n" &&
		strings.HasPrefix(reply, "-NOQUORUM ")):
		return fmt.Sprintf("LOCK was answered %.200q, want %.100q", reply, expect)
	case s.state.noAuth && reply[0] != '-':
		return fmt.Sprintf("without authentication a lock command was answered %.200q", reply)
	case granted || strings.HasPrefix(reply, "*3\r\n$57\r\n"):
		count.granted++
	case reply[0] == '-' && !lockReplyErr.MatchString(reply) || strings.IndexByte("-*:$_%", reply[0]) < 0:
		return fmt.Sprintf("in the place of a lock command's answer stands %.200q", reply)
	default:
		count.refused++
	}
	return ""
}
