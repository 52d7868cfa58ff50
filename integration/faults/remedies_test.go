package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// If only an operator can help, the replies to LOCK and LOCKPROXY MASTERS name the remedy.

// TestRemedyForOneDeadAndOneWipedMaster: one of three masters is dead and one has lost its
// counters. Only the dead one, or the operator, knows how high the fences were.
func TestRemedyForOneDeadAndOneWipedMaster(t *testing.T) {
	t.Parallel()
	for name, help := range map[string]func(*testing.T, *lab.Lab, *lab.Client){
		"the dead one is started": func(t *testing.T, l *lab.Lab, c *lab.Client) {
			l.Masters[0].RestartEmpty(t) // it, too, has lost its counters; then the clock decides
		},
		"ADMIT": func(t *testing.T, l *lab.Lab, c *lab.Client) {
			c.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", l.Masters[1].Addr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const maxTTL = time.Second
			l := lab.StartGuarded(t, maxTTL, lab.Config{})
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			token := lab.LockSoon(t, host, "job")
			l.Masters[0].Kill()
			l.Masters[1].RestartEmpty(t)
			lab.WaitStates(t, host, lab.Patience, "down", "quarantined", "voting")
			lab.WaitReason(t, host, 1, "waits for ") // after its quarantine
			reason := lab.ReasonOf(host, 1)
			wantRemedy(t, "LOCKPROXY MASTERS", reason, "LOCKPROXY ADMIT "+l.Masters[1].Addr, l.Masters[0].Addr)
			wantRemedy(t, "LOCK", host.Do("LOCK", "other", "1s"), "start "+l.Masters[0].Addr)
			help(t, l, host)
			lab.WaitStates(t, host, lab.Patience, map[bool]string{true: "down", false: "voting"}[name == "ADMIT"],
				"voting", "voting")
			if next := lab.LockSoon(t, host, "job"); next <= token {
				t.Errorf("got token %s, want one above %s", next, token)
			}
		})
	}
}

// TestRemedyForAnotherListOfMasters: the first proxy named the masters localhost, and has ended.
// One that names them 127.0.0.1 names the remedy, which works.
func TestRemedyForAnotherListOfMasters(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{Proxies: -1})
	addrs := lab.Addrs(l.Masters)
	wrong := strings.ReplaceAll(strings.Join(addrs, ","), "127.0.0.1", "localhost")
	first := l.StartProxy(t, "--masters", wrong)
	lab.LockSoon(t, lab.Dial(t, first.Addr), "job")
	first.Kill()
	host := lab.Dial(t, l.StartProxy(t).Addr)
	for i, addr := range addrs {
		lab.WaitReason(t, host, i, "belongs to proxies with another list of masters")
		wantRemedy(t, "LOCKPROXY MASTERS", lab.ReasonOf(host, i), "LOCKPROXY ADMIT "+addr)
	}
	if reply := host.Do("LOCK", "job", "1s"); !strings.Contains(reply,
		addrs[0]+" belongs to proxies with another list of masters: "+
			"set the same here; ") || strings.Contains(reply, "ADMIT") {
		t.Errorf("LOCK: got %q, want the setting, and no ADMIT", reply)
	}
	for _, addr := range addrs {
		host.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", addr)
	}
	lab.WaitAllVote(t, l, host)
	lab.LockSoon(t, host, "job")
}

// wantRemedy fails unless a text names one of the remedies.
func wantRemedy(t testing.TB, where, text string, remedies ...string) {
	t.Helper()
	for _, remedy := range remedies {
		if strings.Contains(text, remedy) {
			return
		}
	}
	t.Errorf("%s: got %q, want one of %q in it", where, text, remedies)
}
