package faults

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestOldDiskDisturbsNoLock: one of three masters is away. The two others start empty, a new proxy
// starts, and this majority works again. The third returns with its old disk, which has outdated
// admissions of the others. This disturbs no lock: a holder extends its lock until all masters
// vote, and the two never stop voting.
func TestOldDiskDisturbsNoLock(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"append-only file": lab.AOFAlways(),
		"dump":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const maxTTL = 3 * time.Second
			l := lab.StartGuarded(t, maxTTL, lab.Config{MasterArgs: args})
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			lab.UnlockSurely(t, host, "job", lab.LockSoon(t, host, "job"))
			away := l.Masters[2]
			away.Must(t, "SAVE")
			away.Kill()
			l.Proxies[0].Kill()
			for _, s := range l.Masters[:2] {
				s.RestartEmpty(t)
			}
			l.Proxies[0].Restart(t)
			host = lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitStates(t, host, lab.Patience, "voting", "voting", "down")
			h := holder{host: host, token: lab.LockSoon(t, host, "held", "3s"),
				ttl: maxTTL, until: time.Now().Add(maxTTL), replied: time.Now()}
			away.RestartKept(t)
			h.extendUntilAllVote(t)
			lab.UnlockSurely(t, host, "held", h.token)
		})
	}
}

// holder is a client with a lock on the key held.
type holder struct {
	host    *lab.Client
	token   string
	ttl     time.Duration
	until   time.Time // it counts on the lock until then
	replied time.Time // when LOCK or the last EXTEND was answered
}

// extendUntilAllVote extends the lock and takes another one again and again until all masters
// vote. It fails if one of the first two masters is in quarantine, or if the lock is lost.
func (h *holder) extendUntilAllVote(t *testing.T) {
	t.Helper()
	lab.WaitFor(t, "all masters vote", lab.Patience, func() bool {
		for i := range 2 {
			if m := lab.MapOf(lab.Elements(h.host.Do("LOCKPROXY", "MASTERS"))[i]); m["state"] == "quarantined" {
				t.Fatalf("state of master %d, which voted: got quarantined (it %s), want voting", i+1, m["reason"])
			}
		}
		h.extend(t)
		reply := h.host.Do("LOCK", "other", "1s")
		if token := lab.TokenOf(reply); token != "" {
			h.host.Do("UNLOCK", "other", token)
		} else if reply != lab.Null2 && !refusedNow(reply, true) {
			t.Fatalf("LOCK of another key: got %q, want a token or a refusal", reply)
		}
		lab.Pass(t, 30*time.Millisecond)
		return votes(h.host) == 3
	})
}

// votes returns how many masters vote for a proxy.
func votes(c *lab.Client) (n int) {
	for _, m := range lab.Elements(c.Do("LOCKPROXY", "MASTERS")) {
		if lab.MapOf(m)["state"] == "voting" {
			n++
		}
	}
	return n
}

// extend extends the lock, which must not be lost. A single EXTEND may fail. If the machine was so
// busy that no EXTEND was answered for half of the ttl, the lock may have expired, and extend
// takes it anew.
func (h *holder) extend(t testing.TB) {
	t.Helper()
	sent := time.Now()
	reply := h.host.Do("EXTEND", "held", h.token, h.ttl.String(), "FULL")
	expired := time.Now().After(h.until)
	busy := !h.replied.IsZero() && time.Since(h.replied) > h.ttl/2
	h.replied = time.Now()
	switch held := lab.Fields(reply); {
	case len(held) == 2 && held[0] == "1":
		h.until = sent.Add(time.Duration(lab.Number(t, held[1])) * time.Millisecond)
	case expired && busy:
		t.Logf("EXTEND: got %q; the machine was too busy", reply)
		h.token, h.until = lab.LockSoon(t, h.host, "held", h.ttl.String()), time.Now()
	case !refusedNow(reply, true), expired:
		t.Fatalf("EXTEND %v before the lock expires: got %q, want 1", time.Until(h.until), reply)
	}
}
