package master

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/stat"
)

// Each refusal at connect shows its reason, and since when the master has been refused.
func TestRefusedMasters(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		state        stat.State
		make         func(m *fake.Master)
	}{
		{"replica", "is a replica", stat.StateRefused, func(m *fake.Master) { m.Role = "slave" }},
		{"cluster", "runs in cluster mode", stat.StateRefused, func(m *fake.Master) { m.Mode = "cluster" }},
		{"no run_id", "has no run_id", stat.StateRefused, func(m *fake.Master) { m.RunID = "" }},
		{"password missing", "wants a password", stat.StateRefused, func(m *fake.Master) { m.Password = "secret" }},
		{"loading", `answered "LOADING wait"`, stat.StateDown, replying("SCRIPT", "-LOADING wait\r\n")},
		{"not Redis", "answered something that is not Redis' protocol", stat.StateDown, replying("CLIENT ID", "hello\r\n")},
		{"no record", `answered "WRONGTYPE no hash"`, stat.StateRefused, replying("probe", "-WRONGTYPE no hash\r\n")},
		{"odd record", "does not tell its record", stat.StateRefused, replying("probe", ":1\r\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				m.Set(func() { c.make(m) })
				l, h := start(t, m)
				if s := l.Status(); s.State != c.state || s.Reason != c.reason {
					t.Errorf("%s: %q, want %s: %q", s.State, s.Reason, c.state, c.reason)
				}
				if err := l.MayServe(); err == nil || len(h.sofar().observed) != 0 {
					t.Errorf("may serve: %v, %d observations", err, len(h.sofar().observed))
				}
				since := l.Status().Since
				time.Sleep(5 * time.Second) // in which it is tried again
				if s := l.Status(); s.State != c.state || !s.Since.Equal(since) {
					t.Errorf("%s since %v later", s.State, s.Since.Sub(since))
				}
				m.Set(func() { m.Hook, m.Role, m.Mode, m.RunID, m.Password = nil, "master", "standalone", "run-1", "" })
				time.Sleep(5 * time.Second)
				if s := l.Status(); s.State != stat.StateVoting {
					t.Errorf("does not recover: %+v", s)
				}
			})
		})
	}
}

// replying makes a master give this reply to commands whose name begins so.
func replying(name, reply string) func(m *fake.Master) {
	return func(m *fake.Master) {
		m.Hook = func(c *fake.Command) (time.Duration, string) {
			if strings.HasPrefix(c.Name, name) {
				return 0, reply
			}
			return 0, ""
		}
	}
}

// TestUnreachableMasterSaysWhy: masters that do not listen, or do not answer.
func TestUnreachableMasterSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		m.Stop()
		l, _ := start(t, m)
		if s := l.Status(); s.State != stat.StateDown || s.Reason != "refused the connection" {
			t.Errorf("stopped: %+v", s)
		}
		m.Pause()
		m.Start()
		time.Sleep(5 * time.Second)
		if s := l.Status(); s.State != stat.StateDown || s.Reason != "gave no answer in 2s" {
			t.Errorf("hung: %+v", s)
		}
	})
}

// TestRefusingMasterIsTriedSlowly: a master that cannot be reached is tried again soon, one that
// refuses slowly.
func TestRefusingMasterIsTriedSlowly(t *testing.T) {
	for password, c := range map[string]struct{ least, most int }{"": {40, 80}, "wrong": {10, 21}} {
		t.Run("password "+password, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				m.Password = "right"
				tried := 0
				start(t, m, func(c *LaneConfig) {
					c.Options.Password = password
					c.Options.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						if tried++; password == "" {
							return nil, syscall.ECONNREFUSED
						}
						return m.Dial(ctx, network, addr)
					}
				})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if tried < c.least || tried > c.most {
					t.Errorf("password %q: tried %d times in ten seconds, want %d to %d", password, tried, c.least, c.most)
				}
			})
		})
	}
}

func TestWrongPasswordIsNamed(t *testing.T) {
	for password, want := range map[string]string{"right": "", "wrong": "says wrong password"} {
		t.Run(password, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				m.Password = "right"
				l, _ := start(t, m, func(c *LaneConfig) { c.Options.Password = password })
				if s := l.Status(); s.Reason != want {
					t.Errorf("%s: %q, want %q", password, s.Reason, want)
				}
			})
		})
	}
}

// TestSameServerTwice: a server that another lane has already does not vote.
func TestSameServerTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m, func(c *LaneConfig) { c.Host.(*host).claimed["run-1"] = 1 })
		if s := l.Status(); s.State != stat.StateRefused || s.Reason != "is the same server as 10.0.0.2:6379" {
			t.Errorf("status %+v", s)
		}
		h.Unclaim(1)
		time.Sleep(2 * time.Second)
		if s := l.Status(); s.State != stat.StateVoting {
			t.Errorf("when the other has gone: %+v", s)
		}
	})
}
