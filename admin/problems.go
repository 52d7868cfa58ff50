package admin

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockproxy/plain"
	"lockproxy/stat"
)

// Waiting clients are a problem beyond these limits. The alerts have the same.
const (
	longWait    = time.Minute
	manyWaiters = 1000
	shownLong   = 3 // keys with long waits that are named
)

// recentDrops is for how long dropped repairs are a problem.
const recentDrops = 5 * time.Minute

// problem is something that an operator should know or do.
type problem struct {
	// "bad": clients are not served. "warn": they are, for now.
	Tone  string `json:"tone"`
	Text  string `json:"text"`          // the fault
	Do    string `json:"do"`            // what to do next
	Alert string `json:"alert"`         // the alert whose row in the operations document says more; or ""
	Key   string `json:"key,omitempty"` // the key that it is about, printable
	Hex   string `json:"hex,omitempty"` // its bytes
}

// problems lists the faults, the worst first. waits are the keys with the longest waits.
func (s *Snapshot) problems(waits []stat.Waiting, drops map[string]uint64, now time.Time) []problem {
	list := slices.Concat(s.proxyProblems(now), s.quorumProblems(), s.masterProblems(drops), s.waitProblems(waits))
	slices.SortStableFunc(list, func(a, b problem) int { return cmp.Compare(a.Tone, b.Tone) })
	return append([]problem{}, list...)
}

// proxyProblems are about this process and the upstream.
func (s *Snapshot) proxyProblems(now time.Time) (list []problem) {
	if s.Draining {
		list = append(list, problem{Tone: "warn", Text: "This proxy is ending: it takes no new clients.",
			Do: "Its clients connect to another proxy, or to this one after its restart. If nobody wanted that, its log " +
				"has the signal."})
	}
	if !s.Upstream.Up {
		list = append(list, problem{Tone: "bad", Text: "The upstream " + s.Upstream.Name + " gives no answer: " +
			s.Upstream.Reason + ".", Alert: "LockproxyUpstreamDown",
			Do: "Bring it back, or wait for its failover. Until then only lock commands work."})
	}
	if late := s.Load.Lateness(now); late != "" {
		list = append(list, problem{Tone: "warn", Text: "T" + late[1:] + ".", Alert: "LockproxyLate",
			Do: "Give it more processor time: raise or remove the limit of its container, or move other programs away. " +
				"Masters may look slow or silent although they are well."})
	}
	if s.Load.Window > 0 && s.Load.Waiting > s.Load.Window {
		list = append(list, problem{Tone: "warn", Alert: "LockproxyOverload",
			Text: fmt.Sprintf("%d LOCKs wait until they can be sent to the masters.", s.Load.Waiting),
			Do: "Look below for keys that clients fight over: a client that asks in a loop should use WAIT. Then look " +
				"for masters or a proxy short of processor time."})
	}
	return list
}

// quorumProblems are about the number of masters that vote.
func (s *Snapshot) quorumProblems() []problem {
	switch v := s.votes(); {
	case !v.Majority():
		return []problem{{Tone: "bad", Alert: "LockproxyNoQuorum",
			Text: fmt.Sprintf("No lock can be had: %d of %d masters can vote, %d needed.", v.Voting, v.Masters, v.Needed()),
			Do:   "Bring masters back as their reasons say, network first. Restart no master that votes or is in quarantine."}}
	case v.Spare() <= 0 && v.Masters > v.Needed():
		return []problem{{Tone: "warn", Alert: "LockproxyQuorumAtRisk",
			Text: "If one more master fails, locks need a slow master or cannot be had.",
			Do:   "Bring back what is missing now. Put off restarts and upgrades of the other masters."}}
	}
	return nil
}

// masterProblems are about single masters. Masters with the same next step share one. drops counts
// the repairs that were dropped a while ago.
func (s *Snapshot) masterProblems(drops map[string]uint64) (list []problem) {
	add := func(tone, text, do, alert string) {
		same := func(p problem) bool { return p.Do == do }
		if i := slices.IndexFunc(list, same); i >= 0 {
			list[i].Text = strings.TrimSuffix(list[i].Text, ".") + "; " + text + "."
			return
		}
		list = append(list, problem{Tone: tone, Text: strings.ToUpper(text[:1]) + text[1:] + ".", Do: do, Alert: alert})
	}
	away := "warn"
	if !s.votes().Majority() {
		away = "bad"
	}
	for i := range s.Masters {
		m := &s.Masters[i]
		name := "master " + strings.TrimPrefix(m.Name, "master ")
		if m.State != stat.StateVoting {
			do, alert := masterAdvice(m)
			add(away, name+" "+m.Why(), do, alert)
		} else if m.IsSlow() {
			add("warn", name+" "+m.Why(), "Compare its load, its disk and the network to it with those of the others. It is "+
				"no spare master. If only this proxy says so, look at this machine.", "LockproxyMasterSlow")
		}
		if n := drops[m.Name]; n > 0 {
			add("warn", fmt.Sprintf("%d releases or top-ups for %s were given up in the last five minutes", n, name),
				"Bring the master back, or remove the cause of its silence. Keys of released locks stay on it until their "+
					"ttl ends.", "LockproxyRepairsDropped")
		}
	}
	return list
}

// masterAdvice says what to do about a master that does not vote.
func masterAdvice(m *stat.Master) (do, alert string) {
	switch {
	case m.State == stat.StateQuarantined && m.VotesIn > 0:
		return "Leave it alone: it votes again by itself. Restart no other master until then. If you did not restart it, " +
			"find out who did.", "LockproxyMasterQuarantined"
	case m.State == stat.StateQuarantined:
		return "Do what its reason says: start the named server, or send the LOCKPROXY ADMIT.", "LockproxyMasterQuarantined"
	case m.State == stat.StateRefused:
		return "It answers but must not vote. Change what its reason names, there or in the settings here.",
			"LockproxyMasterDown"
	}
	return "Is its server up, and does it answer redis-cli PING from this machine? Check address, firewall and password.",
		"LockproxyMasterDown"
}

// waitProblems are about clients that wait for locks.
func (s *Snapshot) waitProblems(waits []stat.Waiting) (list []problem) {
	if s.Waiters > manyWaiters {
		list = append(list, problem{Tone: "warn", Text: fmt.Sprintf("%d clients wait for locks.", s.Waiters),
			Alert: "LockproxyWaiters",
			Do:    "Find the keys with the most clients below, and see why they are taken: a holder may hang."})
	}
	long := slices.DeleteFunc(slices.Clone(waits), func(w stat.Waiting) bool { return w.Longest <= longWait })
	slices.SortStableFunc(long, func(a, b stat.Waiting) int { return cmp.Compare(b.Longest, a.Longest) })
	for _, w := range long[:min(len(long), shownLong)] {
		text := "A client waits"
		if w.Clients > 1 {
			text = fmt.Sprintf("%d clients wait, the first", w.Clients)
		} // the key follows the text
		list = append(list, problem{Tone: "warn", Key: plain.Escape(w.Key), Hex: hex.EncodeToString([]byte(w.Key)),
			Text: fmt.Sprintf("%s for %v, for", text, w.Longest.Truncate(time.Second)), Alert: "LockproxyLongWait",
			Do: "See why it is taken: if its holder renews the lock and hangs, end or restart the holder. Candidates for " +
				"a leader wait for long on purpose."})
	}
	return list
}

// drops remembers how many repairs were dropped lately. Safe for concurrent use.
type drops struct {
	mu   sync.Mutex
	seen map[string]uint64 // the counter of each master
	list []drop            // in order of time
}

type drop struct {
	at     time.Time
	master string
	n      uint64
}

// note notes the growth of the masters' counters since the last call.
func (d *drops) note(masters []stat.Master, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = map[string]uint64{}
	}
	for i := range masters {
		if m := &masters[i]; m.Dropped > d.seen[m.Name] {
			d.list = append(d.list, drop{now, m.Name, m.Dropped - d.seen[m.Name]})
			d.seen[m.Name] = m.Dropped
		}
	}
	d.list = slices.DeleteFunc(d.list, func(one drop) bool { return now.Sub(one.at) > recentDrops })
}

// recent returns how many were dropped lately, by master.
func (d *drops) recent() map[string]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := map[string]uint64{}
	for _, one := range d.list {
		sum[one.master] += one.n
	}
	return sum
}
