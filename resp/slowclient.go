package resp

import (
	"sync/atomic"
	"time"
)

// paceSteps is how often within SlowClientTimeout each connection is looked at.
const paceSteps = 8

// slowBytes is how much of a command must come within SlowClientTimeout for its client not to
// count as slow: a large value may take its time, one byte now and then may not.
const slowBytes = 64 << 10

// progress tells how a client gets on with reading and writing. The session notes, at next to no
// cost, what the watch looks at.
type progress struct {
	read    atomic.Uint64 // bytes that came from the client
	begun   atomic.Uint64 // which request the client is to go on with; 0: it is not waited for, or may rest as long as it likes
	writing atomic.Bool   // a write to the client is under way
	written atomic.Uint64 // bytes that were written to it

	// Of the watch alone.
	in  paceInput
	out paceOutput
}

// paceInput is the request that was unfinished when the watch last looked, and where it stood.
type paceInput struct {
	begun, read uint64
	since       time.Time
}

// paceOutput is how far the client had got with taking when the watch last looked.
type paceOutput struct {
	written, taken uint64
	queued         int
	since          time.Time // zero: nothing waited for it
}

// await notes that the client is waited for. unfinished: it has begun a request, the one of the
// number begun.
func (p *progress) await(begun uint64, unfinished bool) {
	if unfinished {
		p.begun.Store(begun + 1)
	}
}

// busy notes that the client is not waited for.
func (p *progress) busy() { p.begun.Store(0) }

// slow tells why the client is to be disconnected, if so. queued bytes are in the socket; taken is
// how many the other side's system ever took, as far as ours tells.
func (p *progress) slow(queued int, taken uint64, now time.Time, timeout time.Duration) (why string) {
	if p.stuck(queued, taken, now, timeout) {
		return "it takes nothing although replies wait for it"
	}
	begun, read := p.begun.Load(), p.read.Load()
	if begun != p.in.begun || read-p.in.read >= slowBytes {
		p.in = paceInput{begun, read, now}
	}
	if begun != 0 && now.Sub(p.in.since) >= timeout {
		return "it does not finish a command that it began"
	}
	return ""
}

// stuck reports whether bytes have waited for timeout and the client has taken none of them.
func (p *progress) stuck(queued int, taken uint64, now time.Time, timeout time.Duration) bool {
	at := paceOutput{p.written.Load(), taken, queued, p.out.since}
	waits := queued > 0 || p.writing.Load()
	switch {
	case !waits:
		at.since = time.Time{}
	case at != p.out || at.since.IsZero():
		at.since = now
	}
	p.out = at
	return waits && now.Sub(at.since) >= timeout
}
