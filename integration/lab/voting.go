package lab

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// StartGuarded starts a deployment whose masters stay in quarantine for maxTTL.
func StartGuarded(t testing.TB, maxTTL time.Duration, config Config) *Lab {
	t.Helper()
	config.Flags = append([]string{"--max-ttl", fmt.Sprintf("%dms", maxTTL.Milliseconds()), "--admin-commands",
		"on"}, config.Flags...)
	return Start(t, config)
}

var late = regexp.MustCompile(`, and this proxy itself was late by [0-9]+ms \(is it short of processor time\?\)`)

// NotLate returns a NOQUORUM reply without its remark that the proxy itself was late, which it
// makes on a busy machine.
func NotLate(reply string) string { return late.ReplaceAllString(reply, "") }

// Late reports whether a reply says that the proxy itself was late.
func Late(reply string) bool { return late.MatchString(reply) }

// WaitStates waits until LOCKPROXY MASTERS shows these states.
func WaitStates(t testing.TB, c *Client, within time.Duration, want ...string) {
	t.Helper()
	var got string
	if !Poll(within, func() bool { got = c.Do("LOCKPROXY", "MASTERS"); return sameStates(got, want) }) {
		t.Fatalf("LOCKPROXY MASTERS after %v: got %q, want states %q", within, got, want)
	}
}

func sameStates(frame string, want []string) bool {
	masters := Elements(frame)
	for i, m := range masters {
		if MapOf(m)["state"] != want[i] {
			return false
		}
	}
	return len(masters) == len(want)
}

// WaitAllVote waits until all masters of a proxy vote.
func WaitAllVote(t testing.TB, l *Lab, c *Client) {
	t.Helper()
	want := make([]string, len(l.Masters))
	for i := range want {
		want[i] = "voting"
	}
	WaitStates(t, c, Patience, want...)
}

// ReasonOf returns the reason that LOCKPROXY MASTERS gives for the state of a master.
func ReasonOf(c *Client, master int) string {
	return MapOf(Elements(c.Do("LOCKPROXY", "MASTERS"))[master])["reason"]
}

// WaitReason waits until the reason that LOCKPROXY MASTERS gives for the state of a master
// contains want.
func WaitReason(t testing.TB, c *Client, master int, want string) {
	t.Helper()
	var got string
	if !Poll(Patience, func() bool { got = ReasonOf(c, master); return strings.Contains(got, want) }) {
		t.Fatalf("reason for the state of master %d: got %q, want %q in it", master, got, want)
	}
}
