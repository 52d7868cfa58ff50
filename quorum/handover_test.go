package quorum

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The hand-over: after a break the connection before is killed, then what is owed is released, and only then comes new
// work. A SET that was on its way is never carried out after that.
func TestHandOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		m := s.masters[0]
		m.pause()
		lease := mustAcquire(t, q, "job", time.Minute)
		mustRelease(t, q, "job", lease.Token)
		m.cut() // what was written is still in the master's buffers
		for range 3 {
			time.Sleep(time.Second)
		}
		if st := q.Masters()[0]; st.Owed != 1 {
			t.Errorf("%d owed, want the release", st.Owed)
		}
		m.set(func() { m.log = nil })
		m.resume()
		time.Sleep(3 * time.Second)
		s.noKeys("after the hand-over")
		next := mustAcquire(t, q, "job", time.Minute)
		synctest.Wait()
		if _, ours := m.holds("lock:job", next.Token.Secret); !ours {
			t.Error("the master does not vote again")
		}
		if st := q.Masters()[0]; st.Owed != 0 || st.State != StateVoting {
			t.Errorf("status %+v", st)
		}
		m.mu.Lock()
		order := strings.Join(m.log, ",")
		m.mu.Unlock()
		kill, release, acquire := strings.Index(order, "CLIENT KILL"), strings.LastIndex(order, "release"), strings.LastIndex(order, "acquire")
		if kill < 0 || release < kill || acquire < release {
			t.Errorf("carried out %s: want CLIENT KILL, release, acquire", order)
		}
	})
}

// A master votes only when what was owed to it has been answered, however long that takes.
func TestHandOverWaitsForReleases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		m := s.masters[0]
		var tokens []Token
		for i := range 700 { // more than one batch
			tokens = append(tokens, mustAcquire(t, q, fmt.Sprint("job", i), time.Minute).Token)
		}
		synctest.Wait()
		m.stop()
		synctest.Wait()
		for i, token := range tokens {
			mustRelease(t, q, fmt.Sprint("job", i), token)
		}
		m.delayed("release", time.Millisecond)
		m.start()
		start := time.Now()
		for q.Masters()[0].State != StateVoting {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if time.Since(start) > time.Minute {
				t.Fatalf("status %+v", q.Masters()[0])
			}
		}
		if n, _ := m.holds("", ""); n != 0 || q.Masters()[0].Owed != 0 || time.Since(start) < 700*time.Millisecond {
			t.Errorf("votes after %v with %d keys left, %d owed", time.Since(start), n, q.Masters()[0].Owed)
		}
	})
}

// With another run_id there is nothing to kill: ids start anew in a new process.
func TestHandOverToNewProcess(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		m := s.masters[0]
		m.stop()
		m.set(func() { m.runID = "another" })
		m.empty()
		m.start()
		time.Sleep(time.Second)
		if st := q.Masters()[0]; st.State != StateVoting || st.RunID != "another" {
			t.Errorf("status %+v", st)
		}
		if n := m.ran("CLIENT KILL"); n != 0 {
			t.Errorf("CLIENT KILL sent %d times to a new process", n)
		}
	})
}

// CLIENT KILL forbidden: a warning, the lane goes on.
func TestHandOverWithoutKill(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		m := s.masters[0]
		m.answering("CLIENT KILL", "-NOPERM no\r\n")
		m.cut()
		time.Sleep(time.Second)
		if st := q.Masters()[0]; st.State != StateVoting {
			t.Errorf("status %+v", st)
		}
	})
}
