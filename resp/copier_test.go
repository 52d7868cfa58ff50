package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// picky is a client's socket that takes no more at once than it likes, though all where one waits for it.
type picky struct {
	net.Conn
	got  []byte
	most func() int
}

func (p *picky) Write(b []byte) (int, error) {
	p.got = append(p.got, b...)
	return len(b), nil
}

func (p *picky) tryWrite(b []byte) (int, error) { return p.Write(b[:min(len(b), p.most())]) }

func (p *picky) receive(*inbox, func(bool) bool, bool) error { panic("nobody reads here") }

// insertHeader is how pushes of ours begin, and no other frame.
const insertHeader = ">1\r\n"

// section is what comes while watching stays as it is.
type section struct {
	watch  bool
	bytes  []byte
	marker bool   // the answer to one is behind that
	behind []byte // replies behind the marker
	insert string // a push of ours becomes due then
}

// randomReplies makes sections of well-formed replies and pushes.
func randomReplies(random *rand.Rand) (sections []section) {
	some := []string{"+OK\r\n", "+\r\n", ":1\r\n", ":-12\r\n", "$0\r\n\r\n", "$-1\r\n", "$3\r\nabc\r\n",
		"$12\r\n-ERR\r\n+OK\r\n:\r\n", "-ERR x\r\n", "_\r\n",
		"#t\r\n", "*2\r\n:1\r\n$1\r\na\r\n", "*0\r\n", "*-1\r\n", "%1\r\n+a\r\n:1\r\n", ">2\r\n+message\r\n$1\r\na\r\n",
		"|1\r\n+ttl\r\n:1\r\n+OK\r\n", "$300\r\n" + string(bytes.Repeat([]byte("v"), 300)) + "\r\n"}
	for range 1 + random.IntN(4) {
		s := section{watch: random.IntN(2) == 0, marker: random.IntN(3) == 0}
		for range random.IntN(12) {
			s.bytes = append(s.bytes, some[random.IntN(len(some))]...)
		}
		for s.marker && random.IntN(3) > 0 {
			s.behind = append(s.behind, some[random.IntN(len(some))]...)
		}
		if random.IntN(3) == 0 {
			s.insert = fmt.Sprintf(insertHeader+":%d\r\n", len(sections))
		}
		sections = append(sections, s)
	}
	return sections
}

// copyAll gives the sections to a copier, in pieces whose sizes next returns, and tells what the client got, and how many replies
// were counted in each section. With onLoop set each piece is first dealt with as on a loop, where the socket takes what most says.
func copyAll(sections []section, next, most func() int, onLoop bool) (got string, counts []uint64) {
	client := &picky{most: most}
	s := &Session{loop: new(loop), srv: &Server{o: Options{Log: zap.NewNop()}}, marker: marker{met: make(chan struct{}, 1)}}
	s.out.init(client, &s.pace)
	c := copier{s: s}
	for _, section := range sections {
		s.st.irregular, s.st.resp3 = section.watch, true
		s.st.watching.Store(section.watch)
		rest := section.bytes
		if section.marker {
			s.marker.arm()
			rest = fmt.Appendf(bytes.Clone(rest), "-ERR unknown command '%s', with args beginning with: \r\n%s", s.marker.nonce[:], section.behind)
		}
		s.st.sent.Store(1000)
		for len(rest) > 0 {
			n := min(next(), len(rest))
			copy(c.in.room(), rest[:n])
			c.in.w += n
			rest = rest[n:]
			if !onLoop || c.use(false) {
				c.use(true)
			}
			if section.insert != "" { // as reply does
				s.out.insert, section.insert = append(s.out.insert, section.insert...), ""
				if s.out.between {
					s.out.insertLocked()
				}
			}
		}
		counts = append(counts, s.st.received.Load())
		if section.marker {
			counts = append(counts, uint64(len(s.marker.met)))
			<-s.marker.met
		}
	}
	if c.use(true); len(c.in.bytes()) > 0 {
		counts = append(counts, 1e6)
	}
	return string(client.got), counts
}

// TestCopierOnLoop: in whatever pieces replies come, and however little of them the client takes at once on a loop, it gets them all in
// their order, pushes of ours between two frames, and as many are counted. Byte by byte, hardly any are passed over at once.
func TestCopierOnLoop(t *testing.T) {
	one, all := func() int { return 1 }, func() int { return chunkSize }
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 6))
		sections := randomReplies(random)
		alone := slices.Clone(sections)
		for i := range alone {
			alone[i].insert = ""
		}
		text, counts := copyAll(alone, one, all, false)
		want, _, _ := frames(text, len(text)+1)
		inserts := 0
		for _, s := range sections {
			if s.insert != "" && len(s.bytes) > 0 || s.insert != "" && s.marker {
				inserts++
			}
		}
		for _, onLoop := range []bool{false, true} {
			piece := func() int { return 1 + random.IntN(1<<random.IntN(12)) }
			most := func() int { return random.IntN(1 << random.IntN(12)) }
			text, counted := copyAll(sections, piece, most, onLoop)
			got, _, _ := frames(text, len(text)+1)
			total := len(got)
			got = slices.DeleteFunc(got, func(frame string) bool { return strings.HasPrefix(frame, insertHeader) })
			if total-len(got) != inserts || !slices.Equal(got, want) || !slices.Equal(counted, counts) {
				t.Fatalf("seed %d, on a loop %v: %+v:\ngot  %q, counts %d\nwant %q, counts %d", seed, onLoop, sections, got, counted, want, counts)
			}
		}
	}
}
