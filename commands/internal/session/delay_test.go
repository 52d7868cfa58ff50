package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/quorum"
	"lockproxy/resp"
)

// TestExtendedLockOutlivesItsDelay: a lock that a client extends during session-lock-delay is not
// released later. Keys that EXTEND does not name still are.
func TestExtendedLockOutlivesItsDelay(t *testing.T) {
	for _, tt := range []struct {
		name string
		key  string
		more []string
		want []string
	}{
		{"nobody", "other", nil, []string{"of job and b", "release job", "release b"}},
		{"all", "b", []string{"job"}, []string{"of job and b"}},
		{"one", "job", nil, []string{"of job and b", "release b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			held(t, 20*time.Second, func(e *extender, o *fakeOwner, hs *Locks, freed func() []string) {
				secret := leaseOf("ab").Token.Secret
				hs.Keep(o, []string{"job", "b"}, leaseOf("ab"), 3*time.Second)
				time.Sleep(500 * time.Millisecond)
				o.onEnd(resp.EndClient)
				time.Sleep(10 * time.Second)
				hs.Claim(tt.key, tt.more, secret, false)
				time.Sleep(time.Minute)
				got := kindsOf(e.log())
				if !slices.Equal(got, tt.want) || len(freed()) != len(tt.want)-1 || len(hs.ending) != 0 {
					t.Errorf("%s: asked %v, want %v; freed %v, %d left", tt.name, e.log(), tt.want, freed(), len(hs.ending))
				}
			})
		})
	}
}

// kindsOf returns the beginnings of the calls that extend or release the lock of job and b.
func kindsOf(calls []string) (kinds []string) {
	for _, call := range calls {
		for _, kind := range []string{"of job and b", "release job", "release b"} {
			if strings.HasPrefix(call, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// TestClaimedAgain: a client that takes the lock over during the delay keeps it, and its end
// begins a delay of its own.
func TestClaimedAgain(t *testing.T) {
	held(t, 20*time.Second, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
		time.Sleep(500 * time.Millisecond)
		o.onEnd(resp.EndClient)
		time.Sleep(15500 * time.Millisecond) // to 16 s
		other := &fakeOwner{}
		lease := quorum.Lease{Token: leaseOf("ab").Token, Validity: 2900 * time.Millisecond}
		hs.Claim("job", nil, lease.Token.Secret, true)
		hs.Keep(other, []string{"job"}, lease, 3*time.Second)
		time.Sleep(500 * time.Millisecond)
		other.onEnd(resp.EndClient)
		time.Sleep(time.Minute)
		want := []string{"extend 20s at 500ms", "extend 20s at 16.5s", "release job at 36.51s"}
		if got := e.log(); !slices.Equal(got, want) || len(hs.ending) != 0 {
			t.Errorf("asked %v, want %v; %d left", got, want, len(hs.ending))
		}
	})
}

// TestLockMovedToAnotherSessionIsKept: if the connection of a lock ends while EXTEND ... SESSION
// of another one asks the masters, the lock is not released.
func TestLockMovedToAnotherSessionIsKept(t *testing.T) {
	secret := leaseOf("ab").Token.Secret
	type when int
	const no, before, after when = 0, 1, 2
	for _, tt := range []struct {
		name  string
		delay time.Duration
		end   resp.End
		stays when // EXTEND fails
		want  []string
	}{
		{"moved", 0, resp.EndClient, no, []string{"release job at 2s"}},
		{"moved after a reset", 0, resp.EndReset, no, []string{"release job at 2s"}},
		{"moved, with a delay", time.Second, resp.EndClient, no, []string{"extend 1s at 2s", "release job at 3.01s"}},
		{"failed later", time.Second, resp.EndClient, after, nil},
		{"failed before", 0, resp.EndClient, before, []string{"release job at 600ms"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			held(t, tt.delay, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
				other := &fakeOwner{}
				time.Sleep(500 * time.Millisecond)
				hs.Claim("job", nil, secret, true)
				if tt.stays == before {
					hs.Stays(secret)
				}
				time.Sleep(100 * time.Millisecond)
				o.onEnd(tt.end)
				time.Sleep(100 * time.Millisecond)
				if tt.stays == after {
					hs.Stays(secret)
				} else if tt.stays == no {
					hs.Keep(other, []string{"job"}, leaseOf("ab"), 6*time.Second)
					time.Sleep(1300 * time.Millisecond)
					other.onEnd(resp.EndClient)
				}
				time.Sleep(time.Minute)
				if got := e.log(); !slices.Equal(got, tt.want) || len(hs.ending) != 0 || hs.Count() != 0 {
					t.Errorf("%s: asked %v, want %v; %d left", tt.name, got, tt.want, len(hs.ending)+hs.Count())
				}
			})
		})
	}
}
