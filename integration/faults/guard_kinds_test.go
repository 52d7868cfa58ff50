package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters lose locks that several clients hold, or locks of several keys, and get them back.

// several has locks of one kind that clients can hold at the same time.
type several struct {
	name   string
	locks  [][]string // the options of each LOCK
	others [][]string // key and options of LOCKs that these exclude
	keys   []string   // the first is the key of each LOCK
}

func severals() []several {
	return []several{
		{"readers", [][]string{{"SHARED"}, {"SHARED"}}, [][]string{{"read"}, {"read", "LIMIT", "2"}},
			[]string{"read"}},
		{"slots", [][]string{{"LIMIT", "2"}, {"LIMIT", "2"}},
			[][]string{{"slots", "LIMIT", "2"}, {"slots"}, {"slots", "SHARED"}}, []string{"slots"}},
		{"keys", [][]string{{"KEYS", "2", "job2", "job3"}},
			[][]string{{"job3"}, {"other", "KEYS", "1", "job2"}, {"job2", "SHARED"}},
			[]string{"job", "job2", "job3"}},
	}
}

// take takes all locks and returns the tokens.
func (s several) take(t testing.TB, host *lab.Client, ttl string) (tokens []string) {
	t.Helper()
	for _, options := range s.locks {
		token, command := "", append([]string{"LOCK", s.keys[0], ttl}, options...)
		lab.WaitFor(t, s.name, lab.Patience, func() bool {
			token = lab.TokenOf(host.Do(command...))
			return token != ""
		})
		tokens = append(tokens, token)
	}
	for _, key := range s.keys {
		lab.WaitFor(t, key+" on all masters", lab.Patience, func() bool {
			return lab.MapOf(host.Do("LOCKINFO", key))["held"] == "3"
		})
	}
	return tokens
}

// extend extends each lock, which must be held. It tries again while too few masters vote.
func (s several) extend(t testing.TB, host *lab.Client, tokens []string) {
	t.Helper()
	for i, token := range tokens {
		args := []string{"EXTEND", s.keys[0], token, "12s"}
		if s.name == "keys" {
			args = append(args, s.locks[i]...)
		}
		reply := ""
		if !lab.Poll(lab.Patience, func() bool {
			reply = host.Do(args...)
			return !refusedNow(reply, true)
		}) || reply != ":1\r\n" {
			t.Fatalf("%q: got %q, want 1", args, reply)
		}
	}
}

// wantRefusedNow asks for locks that these exclude. While one master is away, NOQUORUM counts as
// well, because another may be too slow.
func (s several) wantRefusedNow(host *lab.Client) {
	host.T.Helper()
	for _, other := range s.others {
		args := append([]string{"LOCK", other[0], "2s"}, other[1:]...)
		if reply := host.Do(args...); reply != lab.Null2 && !refusedNow(reply, true) {
			host.T.Fatalf("%q: got %q, want a refusal", args, reply)
		}
	}
}

// TestKindsStayExclusiveAfterWipe: two of three masters lose the locks of readers, slots and
// several keys. No client gets a lock that these exclude until max-ttl has passed.
func TestKindsStayExclusiveAfterWipe(t *testing.T) {
	t.Parallel()
	const maxTTL = 6 * time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	tokens := map[string][]string{}
	var excluded []ask
	for _, s := range severals() {
		tokens[s.name] = s.take(t, host, maxTTL.String())
		s.wantRefusedNow(host)
		other := s.others[0]
		excluded = append(excluded, ask{other[0], other[1:]})
	}
	start := time.Now()
	for _, m := range l.Masters[:2] {
		m.RestartEmpty(t)
	}
	waitOut(t, host, start, 2)
	next := wantAllRefused(t, host, excluded, start, maxTTL)
	for i, s := range severals() {
		for _, token := range tokens[s.name] {
			if next[i] <= token {
				t.Errorf("%s: token after the wipe: got %s, want one above %s", s.name, next[i], token)
			}
		}
	}
}

// TestExtendFillsMasterWithKinds: a master comes back empty while clients hold readers' locks,
// slots and several keys. Once it votes, EXTEND sets each lock on it. So it counts after another
// has gone.
func TestExtendFillsMasterWithKinds(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, 12*time.Second, lab.Config{})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	kinds, tokens := severals(), map[string][]string{}
	for _, s := range kinds {
		tokens[s.name] = s.take(t, host, "12s")
	}
	l.Masters[2].RestartEmpty(t)
	lab.WaitFor(t, "all locks on the restarted master", lab.Patience, func() bool {
		complete := true
		for _, s := range kinds {
			s.extend(t, host, tokens[s.name])
			s.wantRefusedNow(host)
			complete = s.complete(t, l.Masters[2], tokens[s.name]) && complete
		}
		lab.Pass(t, 50*time.Millisecond)
		return complete
	})
	for _, s := range kinds {
		s.extend(t, host, tokens[s.name])
	}
	l.Masters[0].Kill()
	lab.WaitStates(t, host, lab.Patience, "down", "voting", "voting")
	for _, s := range kinds {
		s.extend(t, host, tokens[s.name])
		s.wantRefusedNow(host)
	}
}

// complete reports whether a master has all tokens at all keys.
func (s several) complete(t testing.TB, m *lab.Redis, tokens []string) bool {
	t.Helper()
	for _, key := range s.keys {
		var all strings.Builder
		for _, f := range valuesOf(t, m, "lock:"+key) {
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
