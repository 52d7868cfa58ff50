package commands

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

// TestExtendTakesOver: a token that is held becomes a session lock of the connection if EXTEND
// with SESSION succeeds, and stays one if another EXTEND fails.
func TestExtendTakesOver(t *testing.T) {
	extend := []string{"EXTEND", "job", aToken.String(), "5s", "SESSION"}
	for _, w := range ways {
		locker := &fakeLocker{held: true, later: w == elsewhere}
		service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, MaxTTL: time.Minute,
			Tunable: Tunable{SessionMaxHold: time.Hour, SessionTimeout: time.Minute}})
		c := serve(t, w, service, locker, resp.Options{})
		r := bufio.NewReader(c)
		want := func(reply string, locks int) {
			t.Helper()
			if got := ask(t, c, r, extend...); got != reply || service.Counts().SessionLocks != locks {
				t.Errorf("%s: got %s, %d session locks; want %s, %d", w, got, service.Counts().SessionLocks, reply, locks)
			}
		}
		locker.err = quorum.ErrLost
		want(":0", 0)
		locker.err = &quorum.NoQuorumError{Needed: 1}
		want("-NOQUORUM 0 of 0 masters can vote, 1 needed", 0)
		locker.err = nil
		want(":1", 1)
		want(":1", 1)
		locker.err = &quorum.NoQuorumError{Needed: 1}
		want("-NOQUORUM 0 of 0 masters can vote, 1 needed", 1)
	}
}

// TestExtendTakesOverAsItEnds: if a connection ends while EXTEND with SESSION of another one asks
// the masters, its lock is left alone. If EXTEND has failed before, it is released.
func TestExtendTakesOverAsItEnds(t *testing.T) {
	for _, w := range ways {
		for _, fails := range []bool{false, true} {
			locker, ends := &fakeLocker{held: true, later: w == elsewhere}, make(chan stat.Outcome, 1)
			service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, MaxTTL: time.Minute,
				Tunable: Tunable{SessionMaxHold: time.Hour, SessionTimeout: time.Minute},
				Report: func(e stat.Event) {
					if e.Command == "session" {
						ends <- e.Outcome
					}
				}})
			c := serve(t, w, service, locker, resp.Options{})
			first, err := net.Dial("tcp", c.RemoteAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			ask(t, first, bufio.NewReader(first), "LOCK", "job", "5s", "SESSION")
			var got stat.Outcome
			end := func() {
				first.Close()
				got = <-ends
			}
			if fails {
				locker.err = &quorum.NoQuorumError{Needed: 1}
			} else {
				locker.extending = end
			}
			ask(t, c, bufio.NewReader(c), "EXTEND", "job", aToken.String(), "5s", "SESSION")
			want := stat.OutcomeLeft
			if fails {
				end()
				want = stat.OutcomeReleased
			}
			if got != want {
				t.Errorf("%s, EXTEND fails %v: the first connection's lock is %q, want %q", w, fails, got, want)
			}
		}
	}
}

// TestExtendKeepsEndedLock: where EXTEND has answered 1 during session-lock-delay, its keys are
// not released at the end of the delay. The others are.
func TestExtendKeepsEndedLock(t *testing.T) {
	for _, w := range ways {
		for _, options := range []string{"", "FULL", "SESSION", "KEYS 1 b"} {
			t.Run(fmt.Sprint(w, " ", options), func(t *testing.T) { extendEndedLock(t, w, options) })
		}
	}
}

func extendEndedLock(t *testing.T, w way, options string) {
	locker := &fakeLocker{held: true, later: w == elsewhere}
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, MaxTTL: time.Minute,
		Tunable: Tunable{SessionMaxHold: time.Hour, SessionTimeout: time.Minute,
			SessionLockDelay: 100 * time.Millisecond}})
	c := serve(t, w, service, locker, resp.Options{})
	first, err := net.Dial("tcp", c.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	ask(t, first, bufio.NewReader(first), "LOCK", "job", "5s", "KEYS", "2", "b", "c", "SESSION")
	first.Close()
	var asked []string
	delayed := func(a string) bool { return strings.HasPrefix(a, "extend") && strings.Contains(a, "100ms") }
	for !slices.ContainsFunc(asked, delayed) { // the lock has ended, and its keys stay for session-lock-delay
		runtime.Gosched()
		asked = append(asked, locker.take()...)
	}
	extend := append([]string{"EXTEND", "job", aToken.String(), "5s"}, strings.Fields(options)...)
	ask(t, c, bufio.NewReader(c), extend...)
	last := fmt.Sprintf("abandon %q %v", "c", aToken)
	for deadline := time.Now().Add(time.Minute); !slices.Contains(asked, last); time.Sleep(time.Millisecond) {
		if asked = append(asked, locker.take()...); time.Now().After(deadline) {
			t.Fatalf("asked %v", asked)
		}
	}
	extended := slices.IndexFunc(asked, func(a string) bool { return strings.HasPrefix(a, "extend") && !delayed(a) })
	if i := slices.Index(asked, fmt.Sprintf("abandon %q %v", "job", aToken)); i > extended {
		t.Errorf("asked %v", asked)
	}
}
