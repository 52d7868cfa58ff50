package resp

import (
	"bytes"
	"cmp"
	"io"
	"net"
	"slices"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/scan"
)

// writeFailed waits for the last replies of an upstream that takes no more bytes: it is about to
// close, or has.
func (p *pump) writeFailed() error {
	s := p.s
	select {
	case <-s.up.copied:
	case <-time.After(lingerTime):
		s.cut()
		return net.ErrClosed
	}
	if s.life.now() >= stateLingering {
		s.discard()
	}
	return io.EOF
}

// refusedAtOnce is how many requests are refused with one write.
const refusedAtOnce = 500

// refuse answers n requests that cannot be forwarded.
func (p *pump) refuse(n int64) {
	o := &p.s.srv.o
	line := redcon.AppendError(nil, "ERR upstream "+o.UpstreamName+": "+o.DialReason(p.s.up.failed))
	for ; n > 0; n -= refusedAtOnce { // in pieces: the errors may be much longer than the requests
		p.s.out.reply(bytes.Repeat(line, int(min(n, refusedAtOnce))))
	}
}

// malform is called when the client's bytes are no requests any more. The upstream gets them all,
// reports the error itself and closes. If it cannot be reached, or if each request is judged, the
// pump refuses them.
func (p *pump) malform(t *pass) {
	s := p.s
	if s.up.failed != nil || s.srv.judges() {
		p.step = stepRefuse
		return
	}
	if t.lock < 0 && p.req.Kind == scan.KindLock && len(p.req.Argv) > 0 { // the beginning of a lock command was kept back
		s.up.unsent = slices.Concat(s.up.unsent, appendCommand(nil, p.req.Argv, int(p.req.Args)))
	}
	s.proto.Expect(1)
	p.reading, t.lock = readingMalformed, -1
}

// refuseRest ends the connection with Redis' error about the client's bytes, after the replies to
// the requests before them. With replies off there is no error.
func (p *pump) refuseRest() error {
	s := p.s
	p.step = stepPump
	if p.req.Broken {
		awaitReplies(s)
	} else if run, err := p.prepare(); !run {
		return cmp.Or(err, io.EOF)
	}
	if p.req.Why != "" {
		s.out.reply(redcon.AppendError(nil, "ERR "+scan.ProtocolError(p.req.Why).Error()))
	}
	if s.up.conn == nil && !s.srv.judges() {
		return io.EOF
	}
	s.life.end(causeFinish, EndProxy)
	netpoll.CloseWrite(s.client) // then the client closes: unread input would take the error away
	s.discard()
	return net.ErrClosed
}
