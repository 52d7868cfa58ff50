package logs

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	queueRoom = 1 << 20         // bytes of lines that may wait for their destination
	lastLines = 1 * time.Second // how long Sync waits
)

var errLinesWait = errors.New("the destination of the lines takes none")

// lineQueue writes lines on a goroutine of its own. Logging must not delay locks, and the
// destination may block: a full pipe, a stopped terminal, a disk that hangs. Lines that find no
// room are dropped, and the next line says how many. Safe for concurrent use.
type lineQueue struct {
	to      zapcore.WriteSyncer
	lines   zapcore.Encoder // for the line that says how many were dropped
	refused func(error)     // called when the destination returned an error; may be nil

	mu      sync.Mutex
	writing int // bytes that are being written
	waiting []byte
	lost    int           // dropped after those
	idle    chan struct{} // closed when everything is written; nil: it is
}

var _ zapcore.WriteSyncer = (*lineQueue)(nil)

// Write implements io.Writer. It never blocks.
func (q *lineQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.writing+len(q.waiting)+len(line) > queueRoom {
		q.lost++
		return len(line), nil
	}
	q.waiting = append(q.waiting, line...)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run()
	}
	return len(line), nil
}

// run writes until no line waits.
func (q *lineQueue) run() {
	var lines []byte
	for {
		var lost int
		if lines, lost = q.next(lines); lines == nil {
			return
		}
		count := bytes.Count(lines, []byte("\n"))
		if lost > 0 {
			lines = q.appendLost(lines, lost)
		}
		if _, err := q.to.Write(lines); err != nil {
			q.mu.Lock()
			q.lost += lost + count
			q.mu.Unlock()
			if q.refused != nil {
				q.refused(err)
			}
		}
	}
}

// next returns the lines to write, and how many were dropped after them. It returns nil if no line
// waits. written is memory that it may use.
func (q *lineQueue) next(written []byte) (lines []byte, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writing = len(q.waiting)
	if len(q.waiting) == 0 {
		close(q.idle)
		q.idle = nil
		return nil, 0
	}
	lines, lost = q.waiting, q.lost
	q.waiting, q.lost = written[:0], 0
	return lines, lost
}

func (q *lineQueue) appendLost(lines []byte, lost int) []byte {
	entry := zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Now(),
		Message: "lines were lost: their destination took none"}
	line, err := q.lines.EncodeEntry(entry, []zapcore.Field{zap.Int("lines", lost)})
	if err != nil {
		return lines
	}
	defer line.Free()
	return append(lines, line.Bytes()...)
}

// Sync implements zapcore.WriteSyncer. It waits at most lastLines.
func (q *lineQueue) Sync() error {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-time.After(lastLines):
			return errLinesWait
		}
	}
	return q.to.Sync()
}
