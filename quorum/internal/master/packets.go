package master

import (
	"time"

	"lockproxy/quorum/internal/wire"
)

const (
	// gather is the longest time that operations wait for the answers to earlier ones. If fewer
	// than gatherFrom are on their way, waiting costs more than it saves.
	gather     = time.Millisecond
	gatherFrom = 4
	// aloneFor is how long each packet holds one operation after the master answered NOPERM to
	// one. The repairs that failed in it are tried again in that time.
	aloneFor = 2 * tickEvery
)

// packets turns the queue of a lane into bytes. Times are of the lane's clock.
type packets struct {
	batch   wire.Batch    // used by encode
	written time.Duration // when the last packet was
	loaded  bool          // the master has the script of packets
	alone   time.Duration // before it each operation has its own packet
}

// wait returns how long the queued operations wait at most for the answers to earlier ones.
func (p *packets) wait(q *queue, now time.Duration) time.Duration {
	if q.unsent == 0 || q.sent() < gatherFrom || q.unsent >= wire.MaxOps {
		return 0
	}
	return max(gather-(now-p.written), 0)
}

// idle reports whether the writer has to wait. While the master lacks the script, one packet goes
// out at a time, with the body. Operations that were on their way when the master lost the script
// go out again before all others, so their answers come first.
func (p *packets) idle(q *queue) bool {
	return q.unsent == 0 || !p.loaded && q.sent() > 0
}

// encode appends unsent entries to b: runs of operations as packets, each command by itself. It
// stops at a packet that brings the body of the script: if the master refuses that packet it does
// not have the script, which the next one needs. For a while after NOPERM each packet holds one
// operation.
func (p *packets) encode(b []byte, q *queue, e *wire.Encoder, record string, now time.Duration) []byte {
	p.written = now
	for q.unsent > 0 {
		first := q.at(q.sent())
		first.sent, first.run = now, 1
		if first.call != nil {
			b = append(b, first.call.request...)
			q.unsent--
			continue
		}
		batch, alone := &p.batch, first.alone || now < p.alone
		for batch.Reset(); q.unsent > 0; q.unsent-- {
			next := q.at(q.sent())
			if next.call != nil || batch.Len() > 0 && (alone || next.alone) || !batch.Add(&next.op) {
				break
			}
		}
		first.run = batch.Len()
		b = e.AppendPacket(b, batch, record, !p.loaded)
		for i := range first.run {
			q.at(q.sent() - first.run + i).place = batch.Place(i)
		}
		if !p.loaded {
			break
		}
	}
	return b
}
