package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lockproxy/quorum"
)

// TestQueueYieldsWithTwoClients: two clients that hand a lock to each other leave the queue empty
// each time; other proxies get their chance all the same.
func TestQueueYieldsWithTwoClients(t *testing.T) {
	inQueue(t, func(q *crowd) {
		pauses, last := 0, time.Now()
		for range 2 {
			q.wg.Go(func() {
				for range 20 {
					lease, err := q.ls.Wait(context.Background(), nil, 0, nil, quorum.Request{Key: "job", TTL: 10 * time.Second})
					if err != nil {
						t.Error(err)
						return
					}
					if time.Since(last) >= peerPause/2+10*time.Millisecond {
						pauses++
					}
					last = time.Now()
					time.Sleep(10 * time.Millisecond)
					q.lock.set(time.Time{}, nil)
					q.ls.Released("job", lease.Token.Secret+fmt.Sprint(time.Now()))
					time.Sleep(3 * time.Millisecond) // the other one has the lock by then
				}
			})
		}
		q.wg.Wait()
		if pauses != 2 {
			t.Errorf("%d pauses in 40 hand-overs, want 2", pauses)
		}
	})
}

// TestQueueYieldsWithLongHolds: locks that are held for longer than the slow timer are handed over
// in a row, too.
func TestQueueYieldsWithLongHolds(t *testing.T) {
	const hold = 1500 * time.Millisecond
	inQueue(t, func(q *crowd) {
		for i := range 40 {
			q.join(fmt.Sprint(i), 0, hold)
		}
		q.wg.Wait()
		pauses := 0
		for i := 1; i < 40; i++ {
			if q.result(fmt.Sprint(i)).at-q.result(fmt.Sprint(i-1)).at >= hold+peerPause/2 {
				pauses++
			}
		}
		if pauses != 2 {
			t.Errorf("%d pauses in 40 hand-overs, want 2", pauses)
		}
	})
}

// TestQueueNoPauseAlone: a client that finds the lock free each time takes it from no other proxy,
// and does not pause.
func TestQueueNoPauseAlone(t *testing.T) {
	inQueue(t, func(q *crowd) {
		for i := range 40 {
			before := time.Now()
			q.join(fmt.Sprint(i), 0, -1)
			q.wg.Wait()
			if took := time.Since(before); took >= peerPause/2 {
				t.Errorf("grant %d of a free lock took %v", i, took)
			}
			time.Sleep(11 * time.Second) // it runs out
		}
	})
}

// TestQueueYieldedTurnIsTaken: if another proxy had the lock in between, a new streak begins.
func TestQueueYieldedTurnIsTaken(t *testing.T) {
	inQueue(t, func(q *crowd) {
		const hold = 10 * time.Millisecond
		for i := range 24 {
			q.join(fmt.Sprint(i), 0, hold)
			if i == 0 { // the tenth is released by others, who take it at once for a while
				time.AfterFunc(9*hold+hold/2, func() {
					q.ls.notify("job", "0123456789abcdef", true)
					q.lock.set(time.Now().Add(50*time.Millisecond), nil)
				})
			}
		}
		q.wg.Wait()
		for i := 1; i < 24; i++ {
			if took := q.result(fmt.Sprint(i)).at - q.result(fmt.Sprint(i-1)).at; took >= hold+peerPause/2 &&
				took < 40*time.Millisecond {
				t.Errorf("a pause of %v before grant %d", took-hold, i)
			}
		}
	})
}

// TestQueueSuccessorSubscribes: the head found the key free and so never subscribed. Its successor
// hears of a release through another proxy all the same (bug B19).
func TestQueueSuccessorSubscribes(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.wg.Go(func() { // at the same moment as a, and after it
			time.Sleep(time.Microsecond)
			_, err := q.ls.Wait(context.Background(), nil, 0, nil, quorum.Request{Key: "job", TTL: 10 * time.Second,
				Owner: "b"})
			q.mu.Lock()
			defer q.mu.Unlock()
			q.out["b"] = outcomeAt{err, time.Since(bubbleStart)}
		})
		q.join("a", 0, -1)
		time.Sleep(100 * time.Millisecond)
		q.lock.set(time.Time{}, nil)
		if _, watches, _ := q.lock.count(); watches > 0 {
			for range 5 {
				q.lock.tell("0123456789abcdef")
			}
		}
		q.wg.Wait()
		if got := q.result("b"); got.err != nil || got.at > 105*time.Millisecond {
			t.Errorf("b got %v at %v, want the lock by 105ms: it was released at 100ms", got.err, got.at)
		}
	})
}

// TestQueueNobodyWon: the heads of two proxies ask at once after a release, or when the holder's
// time is up, each gets a part of the masters, and both fail. No message announces that they give
// those back, so the head tries again soon by itself.
func TestQueueNobodyWon(t *testing.T) {
	for _, released := range []bool{true, false} {
		inQueue(t, func(q *crowd) {
			q.lock.set(time.Now().Add(100*time.Millisecond), nil)
			q.join("a", 0, -1)
			time.Sleep(100 * time.Millisecond)
			q.lock.set(time.Now().Add(time.Hour), nil) // as the keys of the other one look
			if released {
				for range 5 {
					q.lock.tell("0123456789abcdef")
				}
			}
			time.Sleep(5 * time.Millisecond)
			q.lock.set(time.Time{}, nil)
			q.wg.Wait()
			if got := q.result("a"); got.err != nil || got.at > 130*time.Millisecond {
				t.Errorf("released %v: got %v at %v, want the lock by 130ms", released, got.err, got.at)
			}
		})
	}
}

// TestQueueOtherWon: if another proxy won, the head soon asks no more often than the slow timer
// says.
func TestQueueOtherWon(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.lock.set(time.Now().Add(time.Hour), nil)
		leave := q.join("a", 0, -1)
		time.Sleep(100 * time.Millisecond)
		before, _, _ := q.lock.count()
		for range 5 {
			q.lock.tell("0123456789abcdef")
		}
		time.Sleep(10 * time.Second)
		if asked, _, _ := q.lock.count(); asked-before > 10+8 {
			t.Errorf("asked %d times in 10s after one release", asked-before)
		}
		leave()
	})
}

// TestQueueSlowSubscription: a waiter's time runs out, and a client leaves, also while the masters
// do not confirm the subscription.
func TestQueueSlowSubscription(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.lock.confirm = 2 * time.Second
		q.lock.set(time.Now().Add(time.Hour), nil)
		leave := q.join("leaves", 0, -1)
		q.join("in time", 300*time.Millisecond, -1)
		time.Sleep(100 * time.Millisecond)
		leave()
		q.wg.Wait()
		if got := q.result("leaves"); got.err != ErrDisconnected || got.at > 110*time.Millisecond {
			t.Errorf("who left at 100ms got %v at %v", got.err, got.at)
		}
		if got := q.result("in time"); got.err != ErrTimeout || got.at > 310*time.Millisecond {
			t.Errorf("WAIT 300ms got %v at %v", got.err, got.at)
		}
	})
}

// TestQueueConsumedWakeUp: the head takes the message of a release, pauses so that others get
// a chance, and leaves. The next head asks at once.
func TestQueueConsumedWakeUp(t *testing.T) {
	inQueue(t, func(q *crowd) {
		const hold = 10 * time.Millisecond
		q.lock.set(time.Now().Add(hold), nil)
		for i := range maxHandOvers {
			q.join(fmt.Sprint(i), 0, hold)
		}
		leave := q.join("pauses", 0, -1)
		q.join("next", 0, -1)
		for grants := []string(nil); len(grants) < maxHandOvers; _, _, grants = q.lock.count() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(hold + time.Millisecond) // a pause takes at least 4ms
		leave()
		left := time.Since(bubbleStart)
		q.wg.Wait()
		if got := q.result("pauses"); got.err != ErrDisconnected || got.at != left {
			t.Fatalf("who was to leave in its pause at %v got %v at %v", left, got.err, got.at)
		}
		if got := q.result("next"); got.err != nil || got.at > left+2*time.Millisecond {
			t.Errorf("next got %v at %v, want the lock right after %v", got.err, got.at, left)
		}
	})
}

// TestQueueQuietAfterGrant: a client that waits for a lock that was just handed over has no
// reason to ask soon.
func TestQueueQuietAfterGrant(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.lock.set(time.Now().Add(time.Hour), nil)
		q.join("a", 0, -1)
		leave := q.join("b", 0, -1)
		time.Sleep(100 * time.Millisecond)
		q.lock.set(time.Time{}, nil)
		q.ls.notify("job", "0123456789abcdef", true)
		time.Sleep(10 * time.Millisecond)
		before, _, grants := q.lock.count()
		time.Sleep(900 * time.Millisecond)
		if asked, _, _ := q.lock.count(); len(grants) != 1 || asked != before {
			t.Errorf("granted to %v; asked %d times within a second of that", grants, asked-before)
		}
		leave()
	})
}
