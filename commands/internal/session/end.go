package session

import (
	"sync"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"
)

// pushLost notifies a holder that speaks RESP3 that its lock of keys is lost, or will be because
// it is no longer renewed: once for each key. It may block while the client does not read.
//
//	< >4\r\n$4\r\nlock\r\n$4\r\nlost\r\n$3\r\njob\r\n$57\r\n0000000000000007:9f86...\r\n
func (l *lock) pushLost(keys []string) {
	if !l.conn.RESP3() {
		return
	}
	for _, key := range keys {
		push := redcon.AppendBulkString([]byte(">4\r\n"), "lock")
		push = redcon.AppendBulkString(push, "lost")
		push = redcon.AppendBulkString(push, key)
		push = redcon.AppendBulkString(push, l.token.String())
		_ = l.conn.Push(push)
	}
}

// pushTimeout bounds how long Drain waits for pushLost.
const pushTimeout = 500 * time.Millisecond

// Drain ends the renewal of all session locks and notifies their holders. A holder can still
// release its lock, also by QUIT; other locks run out.
func (ls *Locks) Drain() {
	ls.mu.Lock()
	ls.draining = true
	var pushes sync.WaitGroup
	for _, l := range ls.bySecret {
		l.timer.Stop()
		pushes.Add(1)
		keys := l.keys
		ls.renewals.Go(func() {
			defer pushes.Done()
			l.pushLost(keys)
		})
	}
	if n := len(ls.bySecret); n > 0 {
		ls.log.Info("session locks are left to run out", zap.Int("locks", n))
	}
	ls.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pushes.Wait()
	}()
	select {
	case <-done:
	case <-time.After(pushTimeout):
		ls.log.Warn("some holders of session locks do not read the push message")
	}
}

// Close ends all renewals and waits for running ones.
func (ls *Locks) Close() {
	ls.mu.Lock()
	ls.draining, ls.closed = true, true
	for _, l := range ls.bySecret {
		l.timer.Stop()
	}
	if ls.check != nil {
		ls.check.Stop()
	}
	ls.mu.Unlock()
	ls.renewals.Wait()
}
