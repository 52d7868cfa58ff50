package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// What masters forget of locks that several hold, and get back.

// several is locks of one kind that all hold at the same time.
type several struct {
	name   string
	locks  [][]string // behind LOCK key ttl: two holders, or one
	others [][]string // what is refused: key and options
	keys   []string
}

func severals() []several {
	return []several{
		{"readers", [][]string{{"SHARED"}, {"SHARED"}}, [][]string{{"job"}, {"job", "LIMIT", "2"}},
			[]string{"job"}},
		{"slots", [][]string{{"LIMIT", "2"}, {"LIMIT", "2"}},
			[][]string{{"job", "LIMIT", "2"}, {"job"}, {"job", "SHARED"}}, []string{"job"}},
		{"keys", [][]string{{"KEYS", "2", "job2", "job3"}},
			[][]string{{"job3"}, {"other", "KEYS", "1", "job2"}, {"job2", "SHARED"}},
			[]string{"job", "job2", "job3"}},
	}
}

// take locks for all holders and returns the tokens.
func (s several) take(t testing.TB, host *lab.Client, ttl string) (tokens []string) {
	t.Helper()
	for _, options := range s.locks {
		token, command := "", append([]string{"LOCK", "job", ttl}, options...)
		lab.WaitFor(t, s.name, lab.Patience, func() bool {
			token = lab.TokenOf(host.Do(command...))
			return token != ""
		})
		tokens = append(tokens, token)
	}
	for _, key := range s.keys { // on all masters
		lab.WaitFor(t, key+" is held", lab.Patience, func() bool {
			return lab.MapOf(host.Do("LOCKINFO", key))["held"] == "3"
		})
	}
	return tokens
}

// extend must find each lock held, again while too few masters vote.
func (s several) extend(t testing.TB, host *lab.Client, tokens []string) {
	t.Helper()
	for i, token := range tokens {
		args := []string{"EXTEND", "job", token, "4s"}
		if s.name == "keys" {
			args = append(args, s.locks[i]...)
		}
		reply := ""
		if !lab.Poll(lab.Patience, func() bool {
			reply = host.Do(args...)
			return !refusedNow(reply, true)
		}) || reply != ":1\r\n" {
			t.Fatalf("%q: %q", args, reply)
		}
	}
}

// wantRefusedNow asks for what cannot be granted beside them. While one master is away another may
// be too slow for an answer.
func (s several) wantRefusedNow(host *lab.Client) {
	host.T.Helper()
	for _, other := range s.others {
		args := append([]string{"LOCK", other[0], "2s"}, other[1:]...)
		if reply := host.Do(args...); reply != lab.Null2 && !refusedNow(reply, true) {
			host.T.Fatalf("%q: %q", args, reply)
		}
	}
}

// TestGuardKindsWiped: readers, slots or several keys are held, and two of three masters lose them.
// Nobody gets what they exclude until max-ttl is over.
func TestGuardKindsWiped(t *testing.T) {
	t.Parallel()
	for _, s := range severals() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			const maxTTL = 2 * time.Second
			l := lab.StartGuarded(t, maxTTL, lab.Config{})
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			tokens := s.take(t, host, "2s")
			s.wantRefusedNow(host)
			start := time.Now()
			for _, m := range l.Masters[:2] {
				m.RestartEmpty(t)
			}
			lab.WaitStates(t, host, lab.Patience, "quarantined", "quarantined", "voting")
			other := s.others[0]
			next := wantRefused(t, host, other[0], start, maxTTL, other[1:]...)
			for _, token := range tokens {
				if next <= token {
					t.Errorf("the token after the wipe is %s, before it was %s", next, token)
				}
			}
		})
	}
}

// TestKindsFilledIn: a master is killed and comes back empty while readers, slots or several keys
// are held. Once it votes, EXTEND fills it in with each of them; so it counts when another is gone.
func TestKindsFilledIn(t *testing.T) {
	t.Parallel()
	for _, s := range severals() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := lab.StartGuarded(t, 4*time.Second, lab.Config{})
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			tokens := s.take(t, host, "4s")
			l.Masters[2].RestartEmpty(t)
			lab.WaitFor(t, "all vote, and the master has all of it", lab.Patience, func() bool {
				s.extend(t, host, tokens)
				s.wantRefusedNow(host)
				return s.stands(t, l.Masters[2], tokens)
			})
			s.extend(t, host, tokens)
			l.Masters[0].Kill()
			lab.WaitStates(t, host, lab.Patience, "down", "voting", "voting")
			s.extend(t, host, tokens)
			s.wantRefusedNow(host)
		})
	}
}

// stands reports whether a master has all of the tokens at all keys.
func (s several) stands(t testing.TB, m *lab.Redis, tokens []string) bool {
	t.Helper()
	for _, key := range s.keys {
		var all strings.Builder
		for _, f := range standing(t, m, "lock:"+key) {
			all.WriteString(f.Value + "\n")
		}
		for _, token := range tokens {
			if !strings.Contains(all.String(), token[17:]) {
				return false
			}
		}
	}
	return true
}
