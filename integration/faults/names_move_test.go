package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestNamesThatMoveMakeNoSecondHolder: the masters are single nodes of a provider, which leads the
// names of some to another server while a lock is held: a new one, or a replica. Such a master is
// one that lost its memory. Nobody gets the lock before its holder's end, and all masters vote
// again in the end.
func TestNamesThatMoveMakeNoSecondHolder(t *testing.T) {
	t.Parallel()
	for _, row := range []nameMove{
		{"two, to replicas without the last writes", 2, staleReplica},
		{"all, to replicas with all writes", 3, replica},
		{"one, to an empty server", 1, emptyServer},
		{"two, to empty servers", 2, emptyServer},
		{"two, to replicas with all writes", 2, replica},
	}[:lab.Long(2, 5)] { // the others are like TestWipedMastersWaitForMaxTTL, or like a row above
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t)
		})
	}
}

// nameMove is how names of masters are led to other servers.
type nameMove struct {
	name  string
	moves int // how many of three names move
	next  func(t *testing.T, master *lab.Redis) (s *lab.Redis, promote func())
}

func (row nameMove) run(t *testing.T) {
	const maxTTL = 2 * time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{Relays: true, Proxies: 2,
		MasterArgs: []string{"--repl-diskless-sync-delay", "0"}})
	one, two := lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[1].Addr)
	lab.WaitAllVote(t, l, one)
	lab.WaitAllVote(t, l, two)
	next, promote := []*lab.Redis{}, []func(){}
	for _, s := range l.Masters[:row.moves] {
		server, f := row.next(t, s)
		next, promote = append(next, server), append(promote, f)
	}
	token, until := holdSoon(t, one, maxTTL)
	for i, s := range next {
		promote[i]()
		for p := range l.Proxies {
			l.Link(p, i).Switch(s.Addr)
		}
	}
	const says = "restarted" // another run of a server
	said := make([]bool, row.moves)
	after := ""
	lab.WaitFor(t, "the next holder", lab.Patience, func() bool {
		reply := two.Do("LOCK", "held", "1s")
		after = lab.TokenOf(reply)
		if early := time.Until(until); after != "" && early > 0 {
			t.Fatalf("LOCK %v before the holder's end: got a token, want a refusal", early)
		}
		for i, m := range lab.Elements(two.Do("LOCKPROXY", "MASTERS"))[:row.moves] {
			m := lab.MapOf(m)
			said[i] = said[i] || m["state"] == "quarantined" && strings.Contains(m["reason"], says)
		}
		return after != ""
	})
	if after <= token {
		t.Errorf("token of the next holder: got %s, want one above %s", after, token)
	}
	if slices.Contains(said, false) {
		t.Errorf("quarantine with %q as its reason: got %v of the names that moved, want all", says, said)
	}
	l.Masters = append(next, l.Masters[row.moves:]...)
	lab.WaitAllVote(t, l, one)
	lab.WaitAllVote(t, l, two)
}

// holdSoon takes the lock held, and returns its token and when its holder may no longer count on
// it.
func holdSoon(t *testing.T, c *lab.Client, ttl time.Duration) (token string, until time.Time) {
	t.Helper()
	lab.WaitFor(t, "LOCK", lab.Patience, func() bool {
		sent := time.Now()
		parts := lab.Fields(c.Do("LOCK", "held", fmt.Sprint(ttl.Milliseconds()), "FULL"))
		if len(parts) != 3 {
			return false
		}
		token, until = parts[0], sent.Add(time.Duration(lab.Number(t, parts[2]))*time.Millisecond)
		return true
	})
	return token, until
}

// emptyServer returns a new server.
func emptyServer(t *testing.T, _ *lab.Redis) (s *lab.Redis, promote func()) {
	return lab.StartRedis(t), func() {}
}

// replica returns a replica of a master. promote makes it a master when it has the lock held.
func replica(t *testing.T, master *lab.Redis) (s *lab.Redis, promote func()) {
	s = lab.StartRedis(t)
	follow(t, s, master)
	return s, func() {
		lab.WaitFor(t, "the lock on the replica", lab.Patience, func() bool {
			return s.Do(t, "EXISTS", "lock:held") == ":1\r\n"
		})
		s.Must(t, "REPLICAOF", "NO", "ONE")
	}
}

// staleReplica returns a former replica of a master. It will have no later write.
func staleReplica(t *testing.T, master *lab.Redis) (s *lab.Redis, promote func()) {
	s = lab.StartRedis(t)
	follow(t, s, master)
	s.Must(t, "REPLICAOF", "NO", "ONE")
	return s, func() {}
}

// follow makes s a replica of a master, and waits until it has the master's data.
func follow(t *testing.T, s, master *lab.Redis) {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr, ":")
	s.Must(t, "REPLICAOF", host, port)
	lab.WaitFor(t, "a replica in step", lab.Patience, func() bool {
		return s.Info(t, "replication", "master_link_status") == "up"
	})
	if n := s.Do(t, "EXISTS", "lockproxy:state:lock:"); n != ":1\r\n" {
		t.Fatalf("EXISTS of the state on a replica: got %q, want 1", n)
	}
}
