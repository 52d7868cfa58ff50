package commands

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"lockproxy/quorum"
	"lockproxy/stat"
)

// TestReleaseShown: a release on the page goes by the rules of the command, frees only the lock
// that was shown, and is reported in all cases.
func TestReleaseShown(t *testing.T) {
	type askedFor = []string
	looked, freed := `inspect "job"`, `release key "job"`
	for name, tt := range map[string]struct {
		by      stat.Operator
		on      bool // admin-commands
		gate    fakeGate
		fence   uint64
		held    quorum.Info
		missing bool // on all masters
		fails   error
		want    error
		outcome stat.Outcome
		asked   askedFor
	}{
		"not allowed": {want: ErrNotAllowed, outcome: stat.OutcomeDenied, fence: 7},
		"token alone": {by: stat.Operator{Token: true}, want: ErrNotAllowed, outcome: stat.OutcomeDenied},
		"no login":    {on: true, gate: fakeGate{required: true}, want: ErrNeedsToken, outcome: stat.OutcomeDenied},
		"no word":     {on: true, gate: fakeGate{err: quorum.ErrLate}, want: ErrNeedsToken, outcome: stat.OutcomeDenied},
		"asked then": {on: true, gate: fakeGate{unknown: true}, outcome: stat.OutcomeReleased,
			asked: askedFor{freed}},
		"token": {by: stat.Operator{Token: true}, on: true, gate: fakeGate{required: true}, fence: 7,
			held: quorum.Info{Held: 3, Fence: 7}, outcome: stat.OutcomeReleased, asked: askedFor{looked, freed}},
		"socket": {by: stat.Operator{Unix: true}, gate: fakeGate{required: true}, outcome: stat.OutcomeReleased,
			asked: askedFor{freed}},
		"another's": {on: true, fence: 7, held: quorum.Info{Held: 3, Fence: 8}, want: ErrChanged,
			outcome: stat.OutcomeNotHeld, asked: askedFor{looked}},
		"expired": {on: true, fence: 7, outcome: stat.OutcomeNotHeld, asked: askedFor{looked}},
		"released meanwhile": {on: true, missing: true, outcome: stat.OutcomeNotHeld,
			asked: askedFor{freed}},
		"no masters": {on: true, fails: quorum.ErrNoQuorum, want: quorum.ErrNoQuorum,
			outcome: stat.OutcomeNoQuorum, asked: askedFor{freed}},
		"no masters to look": {on: true, fence: 7, fails: quorum.ErrNoQuorum, want: quorum.ErrNoQuorum,
			outcome: stat.OutcomeNoQuorum, asked: askedFor{looked}},
	} {
		t.Run(name, func(t *testing.T) {
			locker := &fakeLocker{held: !tt.missing, info: tt.held, err: tt.fails}
			var events []stat.Event
			s := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &tt.gate,
				Tunable: Tunable{AdminCommands: tt.on},
				Report:  func(e stat.Event) { events = append(events, e) }})
			tt.by.Client = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5000}
			ok, err := s.ReleaseShown(t.Context(), tt.by, "job", tt.fence)
			if !errors.Is(err, tt.want) || ok != (tt.outcome == stat.OutcomeReleased) {
				t.Errorf("got %v, %v, want %v", ok, err, tt.want)
			}
			if asked := locker.take(); !slices.Equal(asked, tt.asked) {
				t.Errorf("asked %q, want %q", asked, tt.asked)
			}
			if len(events) != 1 {
				t.Fatalf("%d reports", len(events))
			}
			e := events[0]
			if e.Command != "lockproxy" || e.Sub != "release" || e.Key != "job" || e.Via != "page" ||
				e.Outcome != tt.outcome || e.Fence != tt.fence || e.Client != tt.by.Client {
				t.Errorf("reported %+v, want %s", e, tt.outcome)
			}
		})
	}
}

// TestWaitingNames: operators see who waits, from where and for how long.
func TestWaitingNames(t *testing.T) {
	disconnected := make(chan struct{})
	locker := &fakeLocker{err: &quorum.HeldError{Free: -1}}
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{},
		Tunable: Tunable{MaxWaiters: 5}})
	from := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 7}
	done := make(chan error, 1)
	go func() {
		_, err := service.queues.Wait(t.Context(), disconnected, 0, from,
			quorum.Request{Key: "job", Owner: "me", Mode: quorum.Shared})
		done <- err
	}()
	var got []stat.Waiting
	for len(got) == 0 {
		time.Sleep(time.Millisecond)
		got = service.Waiting(5)
	}
	if first := got[0].First; len(first) != 1 || first[0].From != from || first[0].Owner != "me" ||
		first[0].Mode != "shared" || first[0].Since <= 0 {
		t.Errorf("got %+v", got)
	}
	close(disconnected)
	<-done
}
