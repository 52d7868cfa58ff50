package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
	"lockproxy/resp/internal/scan"
)

// picky is a client's socket. TryWrite takes as much as most returns, Write all.
type picky struct {
	net.Conn
	got     []byte
	largest int // write
	most    func() int
}

func (p *picky) Write(b []byte) (int, error) {
	p.got = append(p.got, b...)
	p.largest = max(p.largest, len(b))
	return len(b), nil
}

func (p *picky) TryWrite(b []byte) (int, error) { return p.Write(b[:min(len(b), p.most())]) }

// insertHeader is how pushes of ours begin, and no other frame.
const insertHeader = ">1\r\n"

// section is a part of the upstream's bytes, with the answers to at most one query.
type section struct {
	bytes  []byte
	asked  bool   // the answers to a query follow
	full   bool   // it is a full query
	within []byte // messages among its answers
	behind []byte // replies after it
	insert string // a push of ours becomes due then
}

// randomReplies makes sections of well-formed replies and pushes.
func randomReplies(random *rand.Rand) (sections []section) {
	some := []string{"+OK\r\n", "+\r\n", ":1\r\n", ":-12\r\n", "$0\r\n\r\n", "$-1\r\n", "$3\r\nabc\r\n",
		"$12\r\n-ERR\r\n+OK\r\n:\r\n", "-ERR x\r\n", "_\r\n",
		"#t\r\n", "*2\r\n:1\r\n$1\r\na\r\n", "*0\r\n", "*-1\r\n", "%1\r\n+a\r\n:1\r\n", ">2\r\n+message\r\n$1\r\na\r\n",
		"|1\r\n+ttl\r\n:1\r\n+OK\r\n", "$300\r\n" + string(bytes.Repeat([]byte("v"), 300)) + "\r\n"}
	for range 1 + random.IntN(4) {
		s := section{asked: random.IntN(3) == 0, full: random.IntN(2) == 0}
		for range random.IntN(12) {
			s.bytes = append(s.bytes, some[random.IntN(len(some))]...)
		}
		if s.asked && s.full && random.IntN(2) == 0 {
			s.within = []byte(">2\r\n+message\r\n$1\r\na\r\n+1700000000.1 [0 x] \"ping\"\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n")
		}
		for s.asked && random.IntN(3) > 0 {
			s.behind = append(s.behind, some[random.IntN(len(some))]...)
		}
		if random.IntN(3) == 0 {
			s.insert = fmt.Sprintf(insertHeader+":%d\r\n", len(sections))
		}
		sections = append(sections, s)
	}
	return sections
}

// markerName is the name of a marker; its last digit is its role.
var markerName = regexp.MustCompile(fmt.Sprintf(`[0-9]{%d}`, protocol.MarkerLength))

// markers returns the names of the markers in a query's requests, by role.
func markers(request []byte) map[byte]string {
	names := map[byte]string{}
	for _, name := range markerName.FindAllString(string(request), -1) {
		names[name[len(name)-1]] = name
	}
	return names
}

// answersTo is what Redis says to a query.
func answersTo(request []byte, s section) []byte {
	names := markers(request)
	unknown := func(role byte) []byte {
		return fmt.Appendf(nil, "-ERR unknown command '%s', with args beginning with: \r\n", names[role])
	}
	if !s.full {
		return unknown('2')
	}
	return slices.Concat(unknown('0'), s.within, []byte("*14\r\n"+strings.Repeat("$6\r\nserver\r\n",
		14)+"$5\r\nalice\r\n"),
		fmt.Appendf(nil, "-ERR Syntax error in HELLO option '%s'\r\n", names['1']), unknown('2'))
}

// copierTo returns a copier whose session writes to client. Its connection is logged in.
func copierTo(client net.Conn) *copier {
	s := newSession(&NewServer(Options{AskUser: true, UpstreamLogin: true}).shared, client, nil)
	s.proto.Connected("")
	return newCopier(s)
}

// copyPieces gives b to a copier, in pieces whose sizes next returns, and a push of ours after the
// first.
func (c *copier) copyPieces(b []byte, insert string, next func() int, onLoop bool) {
	out := &c.s.out
	for len(b) > 0 {
		n := min(next(), len(b))
		c.in.Grew(copy(c.in.Room(), b[:n]))
		b = b[n:]
		if !onLoop || c.relay(true) {
			c.relay(false)
		}
		if insert != "" { // as reply does
			out.insert, insert = append(out.insert, insert...), ""
			if out.between {
				out.insertLocked(false)
			}
		}
	}
}

// copyAll gives the sections to a copier, in pieces whose sizes next returns. It returns the
// client's bytes, and how many replies were counted in each section. With onLoop set each piece is
// first relayed like on a loop, and the socket takes as much as most returns.
func copyAll(t *testing.T, sections []section, next, most func() int, onLoop bool) (got string, counts []uint64) {
	client := &picky{most: most}
	c := copierTo(client)
	s := c.s
	defer s.srv.loops.Close()
	s.proto.Expect(1000)
	for _, section := range sections {
		rest := section.bytes
		if section.asked {
			if section.full {
				s.proto.AskAgain()
			}
			request, _ := s.proto.Ask()
			rest = slices.Concat(rest, answersTo(request, section), section.behind)
		}
		c.copyPieces(rest, section.insert, next, onLoop)
		counts = append(counts, s.proto.Received())
		if section.asked {
			counts = append(counts, uint64(len(s.proto.Answered())))
			<-s.proto.Answered()
			decision := s.proto.Conclude()
			want := protocol.Standing{Asked: true, LoggedIn: true, User: "alice"}
			if now := s.proto.Standing(); decision != protocol.Run || section.full && now != want {
				t.Errorf("decided %d, standing %+v, want %+v", decision, now, want)
			}
		}
	}
	if c.relay(false); len(c.in.Bytes()) > 0 {
		counts = append(counts, 1e6)
	}
	return string(client.got), counts
}

// frames cuts in into top-level frames.
func frames(in string) (all []string) {
	var s scan.Replies
	from := 0
	for at := 0; at < len(in); {
		n, ended := s.Next([]byte(in[at:]))
		if n == 0 {
			break
		}
		if at += n; ended {
			all, from = append(all, in[from:at]), at
		}
	}
	return append(all, in[from:])
}

// TestCopierOnLoop: replies may come in any pieces, and the client may take any part of them at
// once. It gets them all in their order, with our pushes between two frames, and the same number
// is counted. Byte by byte, hardly any are passed over at once.
func TestCopierOnLoop(t *testing.T) {
	one, all := func() int { return 1 }, func() int { return netpoll.ChunkSize }
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 6))
		sections := randomReplies(random)
		alone := slices.Clone(sections)
		for i := range alone {
			alone[i].insert = ""
		}
		text, counts := copyAll(t, alone, one, all, false)
		want := frames(text)
		inserts := 0
		for _, s := range sections {
			if s.insert != "" && len(s.bytes) > 0 || s.insert != "" && s.asked {
				inserts++
			}
		}
		for _, onLoop := range []bool{false, true} {
			piece := func() int { return 1 + random.IntN(1<<random.IntN(12)) }
			most := func() int { return random.IntN(1 << random.IntN(12)) }
			text, counted := copyAll(t, sections, piece, most, onLoop)
			got := frames(text)
			total := len(got)
			got = slices.DeleteFunc(got, func(frame string) bool { return strings.HasPrefix(frame, insertHeader) })
			if total-len(got) != inserts || !slices.Equal(got, want) || !slices.Equal(counted, counts) {
				t.Fatalf("seed %d, on a loop %v: %+v:\ngot  %q, counts %d\nwant %q, counts %d", seed, onLoop, sections, got,
					counted, want, counts)
			}
		}
	}
}
