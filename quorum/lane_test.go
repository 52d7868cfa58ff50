package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// collect is a receiver that keeps what it is told.
type collect struct {
	mu  sync.Mutex
	got []string
}

func (c *collect) reply(_ int, op opKind, r *reply) {
	c.note(fmt.Sprintf("%s %v", fakeOps[op], r.ints[0]))
}
func (c *collect) gone(_ int, op opKind, _ error, written bool) {
	c.note(fmt.Sprintf("%s gone %v", fakeOps[op], written))
}

func (c *collect) note(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, s)
}

// A deadline ends the waiting, never the lane.
func TestDeadlineKeepsLane(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(0, 3, (*fakeMaster).pause)
		if _, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Minute}); !errors.Is(err, ErrNoQuorum) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.each(0, 3, (*fakeMaster).resume)
		synctest.Wait()
		for _, m := range s.masters {
			if n := m.ran("CLIENT ID"); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		}
		mustAcquire(t, q, "job", time.Minute)
	})
}

// A PING unanswered for two seconds makes a lane dead; until then it costs each LOCK nothing while a majority lives.
func TestSilentLaneDies(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.masters[0].pause()
		start := time.Now()
		for q.Masters()[0].State == StateVoting {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(start); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("dead after %v, want 2s to 3s", took)
		}
		if st := q.Masters()[0]; st.State != StateDown || st.Reason != "gave no answer in 2s" {
			t.Errorf("status %+v", st)
		}
		s.masters[0].resume()
		time.Sleep(5 * time.Second)
		if st := q.Masters()[0]; st.State != StateVoting || st.Lost != 1 {
			t.Errorf("status %+v, want voting again", st)
		}
	})
}

// Without the right to SCRIPT LOAD the bodies travel with the commands.
func TestScriptLoadForbidden(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.each(0, 3, func(m *fakeMaster) { m.answering("SCRIPT", "-NOPERM no\r\n") })
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Second)
		mustRelease(t, q, "job", lease.Token)
		synctest.Wait()
		for _, m := range s.masters {
			if n := m.ran("NOSCRIPT"); n != 0 {
				t.Errorf("%d NOSCRIPT", n)
			}
		}
	})
}

// B13: SCRIPT FLUSH at any moment is not noticed.
func TestScriptFlush(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		for range 3 {
			s.each(0, 3, (*fakeMaster).flushScripts)
			lease := mustAcquire(t, q, "job", time.Second)
			s.each(0, 3, (*fakeMaster).flushScripts)
			mustRelease(t, q, "job", lease.Token)
			synctest.Wait()
			s.noKeys("after the release")
		}
		// A majority of flushed masters, the rest silent: the retry does not wait for the deadline.
		mustRelease(t, q, "other", mustAcquire(t, q, "other", time.Second).Token)
		synctest.Wait()
		s.each(0, 2, (*fakeMaster).flushScripts)
		s.masters[2].pause()
		start := time.Now()
		mustAcquire(t, q, "other", 10*time.Second)
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v, want no time", took)
		}
	})
}

// A lane with 4,096 commands unanswered refuses more at once; what it owes goes out when it has room.
func TestFullLane(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, s *sim) {
		q := s.quorum()
		l := q.lanes[0]
		s.masters[0].pause()
		var c collect
		for i := range maxUnanswered {
			if err := l.send(command{op: opCheck, to: &c, key: "k", secret: fmt.Sprint(i)}); err != nil {
				t.Fatalf("command %d: %v", i, err)
			}
		}
		start := time.Now()
		_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Minute})
		if !errors.Is(err, ErrNoQuorum) || time.Since(start) != 0 || !strings.Contains(err.Error(), "has 4096 commands unanswered") {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		s.masters[0].set(func() { s.masters[0].store["lock:job"] = fakeValue{secret: "x", end: time.Now().Add(time.Hour)} })
		if _, err := q.Release(t.Context(), "job", Token{Secret: "x"}); !errors.Is(err, ErrNoQuorum) || time.Since(start) != 0 {
			t.Errorf("Release: %v after %v", err, time.Since(start))
		}
		s.masters[0].resume()
		synctest.Wait()
		s.noKeys("when there was room")
		if len(c.got) != maxUnanswered {
			t.Errorf("%d replies, want %d", len(c.got), maxUnanswered)
		}
	})
}

// Replies reach the commands they belong to, whoever sends at the same time.
func TestRepliesMatch(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.masters[0].set(func() { s.masters[0].store["lock:k"] = fakeValue{secret: "ours", end: time.Now().Add(time.Hour)} })
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 200 {
					secret, want := "theirs", "check 0"
					if (i+g)%3 == 0 {
						secret, want = "ours", "check 1"
					}
					var c collect
					if err := q.lanes[0].send(command{op: opCheck, to: &c, key: "lock:k", secret: secret}); err != nil {
						t.Error(err)
					}
					for {
						time.Sleep(time.Millisecond)
						c.mu.Lock()
						got := strings.Join(c.got, ",")
						c.mu.Unlock()
						if got == want {
							break
						}
						if got != "" {
							t.Errorf("got %q, want %q", got, want)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	})
}

// Commands that were never written are told apart from those that may have landed.
func TestGoneSaysWhatWasWritten(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, s *sim) {
		q := s.quorum()
		l := q.lanes[0]
		s.masters[0].pause()
		var c collect
		_ = l.send(command{op: opAcquire, to: &c, key: "k", secret: "a", ttl: time.Second})
		synctest.Wait() // the writer has it
		l.mu.Lock()
		_ = l.sendLocked(command{op: opRaise, to: &c, key: "k", secret: "a"})
		conn := l.conn
		l.conn = nil // as fail does, before the writer gets the second
		l.setLocked(StateDown, errClosedConn)
		l.mu.Unlock()
		l.fail(conn, errClosedConn)
		synctest.Wait()
		if got := strings.Join(c.got, ", "); got != "acquire gone true, raise gone false" {
			t.Errorf("got %s", got)
		}
	})
}

// Refusals at connect, each with its reason; the other masters vote.
func TestRefusedMasters(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		state        State
		make         func(s *sim, m *fakeMaster)
	}{
		{"replica", "is a replica", StateRefused, func(_ *sim, m *fakeMaster) { m.role = "slave" }},
		{"cluster", "runs in cluster mode", StateRefused, func(_ *sim, m *fakeMaster) { m.mode = "cluster" }},
		{"no run_id", "has no run_id", StateRefused, func(_ *sim, m *fakeMaster) { m.runID = "" }},
		{"password missing", "wants a password", StateRefused, func(_ *sim, m *fakeMaster) { m.password = "secret" }},
		{"loading", `answered "LOADING wait"`, StateDown, func(_ *sim, m *fakeMaster) { m.answering("SCRIPT", "-LOADING wait\r\n") }},
		{"not Redis", "answered something that is not Redis' protocol", StateDown, func(_ *sim, m *fakeMaster) { m.answering("CLIENT ID", "hello\r\n") }},
		{"not listening", "refused the connection", StateDown, func(_ *sim, m *fakeMaster) { m.down = true }},
		{"hung", "gave no answer in 2s", StateDown, func(_ *sim, m *fakeMaster) { m.pause() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				c.make(s, s.masters[2])
				q := s.quorum()
				if st := q.Masters()[2]; st.State != c.state || st.Reason != c.reason {
					t.Errorf("%s: %q, want %s: %q", st.State, st.Reason, c.state, c.reason)
				}
				mustAcquire(t, q, "job", time.Second)
				if n, _ := s.masters[2].holds("", ""); n != 0 {
					t.Error("a master that must not vote was asked")
				}
			})
		})
	}
}

func TestWrongPassword(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.each(0, 3, func(m *fakeMaster) { m.password = "right" })
		q := s.quorum(func(o *Options) {
			for i := range o.Masters {
				o.Masters[i].Password = "right"
			}
			o.Masters[2].Password = "wrong"
		})
		if st := q.Masters(); st[0].State != StateVoting || st[2].State != StateRefused || st[2].Reason != "says wrong password" {
			t.Errorf("status %+v", st)
		}
	})
}

// The same server under two names votes once; when the name that votes goes, the other takes over.
func TestSameServerTwice(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum(func(o *Options) {
			same := s.masters[0].dial
			o.Masters[1].Dial = same
			o.Masters[0].Dial = same
		})
		votes, refused := 0, ""
		for _, st := range q.Masters()[:2] {
			if st.State == StateVoting {
				votes++
			} else {
				refused = st.Reason
			}
		}
		if votes != 1 || !strings.HasPrefix(refused, "is the same server as 10.0.0.") {
			t.Errorf("%d votes, the other %q", votes, refused)
		}
		s.masters[2].stop()
		synctest.Wait()
		_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
		none, ok := errors.AsType[*NoQuorumError](err)
		if !ok {
			t.Fatalf("%v: one server made a majority of three", err)
		}
		if text := none.Text(false); strings.Contains(text, "10.0.0.") {
			t.Errorf("%q names a master", text)
		}
	})
}

// Close lets the masters answer the releases they were sent, and waits no longer than ctx.
func TestClose(t *testing.T) {
	t.Run("answered", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			lease := mustAcquire(t, q, "job", time.Minute)
			s.each(0, 3, func(m *fakeMaster) { m.delayed("release", 300*time.Millisecond) })
			q.Abandon("job", lease.Token)
			start := time.Now()
			if err := q.Close(t.Context()); err != nil || time.Since(start) != 300*time.Millisecond {
				t.Errorf("%v after %v, want nil after 300ms", err, time.Since(start))
			}
			s.noKeys("after Close")
			if _, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second}); !errors.Is(err, ErrNoQuorum) {
				t.Errorf("Acquire after Close: %v", err)
			}
		})
	})
	t.Run("one is down, one hangs", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			lease := mustAcquire(t, q, "job", time.Minute)
			s.masters[1].stop()
			s.masters[2].pause()
			synctest.Wait()
			q.Abandon("job", lease.Token)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := q.Close(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 500*time.Millisecond {
				t.Errorf("%v after %v, want the deadline after 500ms", err, time.Since(start))
			}
		})
	})
}
