package session

import (
	"sync"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"
)

// tell says to a holder that speaks RESP3 that the lock is lost, or will be as nobody renews it any more. It may wait for a client that does not
// read.
//
//	< >4\r\n$4\r\nlock\r\n$4\r\nlost\r\n$3\r\njob\r\n$57\r\n0000000000000007:9f86...\r\n
func (h *lock) pushLost() {
	if !h.conn.RESP3() {
		return
	}
	push := redcon.AppendBulkString([]byte(">4\r\n"), "lock")
	push = redcon.AppendBulkString(push, "lost")
	push = redcon.AppendBulkString(push, h.key)
	push = redcon.AppendBulkString(push, h.token.String())
	_ = h.conn.Push(push)
}

// tellWithin is how long drain waits for holders to be told.
const pushTimeout = 500 * time.Millisecond

// drain ends the renewal of all session locks and tells their holders. A holder can still release its lock, by QUIT too; what it does not
// release runs out.
func (hs *Locks) Drain() {
	hs.mu.Lock()
	hs.draining = true
	var told sync.WaitGroup
	for _, h := range hs.bySecret {
		h.timer.Stop()
		told.Add(1)
		hs.renewals.Go(func() {
			defer told.Done()
			h.pushLost()
		})
	}
	if n := len(hs.bySecret); n > 0 {
		hs.log.Info("session locks are left to run out", zap.Int("locks", n))
	}
	hs.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		told.Wait()
	}()
	select {
	case <-done:
	case <-time.After(pushTimeout):
		hs.log.Warn("some holders of session locks do not read that nobody renews them any more")
	}
}

// close ends all renewals, and waits for those that run.
func (hs *Locks) Close() {
	hs.mu.Lock()
	hs.draining, hs.closed = true, true
	for _, h := range hs.bySecret {
		h.timer.Stop()
	}
	if hs.check != nil {
		hs.check.Stop()
	}
	hs.mu.Unlock()
	hs.renewals.Wait()
}
