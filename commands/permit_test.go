package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakePermission answers by the key, and notes what it was asked.
type fakePermission struct{ asked []string }

func (p *fakePermission) MayWrite(_ context.Context, user, key string) (string, error) {
	p.asked = append(p.asked, user+" "+key)
	switch key {
	case "lock:no":
		return "This user has no permissions to access the 'lock:no\r\n' key", nil
	case "lock:unasked":
		return "", errors.New("connection refused")
	}
	return "", nil
}

// Known is never known: every command asks.
func (p *fakePermission) Known(string, string) (string, bool) { return "", false }

// TestPermission: commands about locks need it, the others do not; and it comes behind arguments
// and authentication.
func TestPermission(t *testing.T) {
	permission := &fakePermission{}
	c, r, locker, gate := start(t, func(o *Options) { o.Permission, o.AdminCommands = permission, true })
	token := aToken.String()
	const refused = "-NOPERM This user has no permissions to access the 'lock:no  ' key"
	for _, tt := range []struct{ send, want, asked string }{
		{"LOCK job 5000", token, "default lock:job"},
		{"UNLOCK job " + token, ":1", "default lock:job"},
		{"EXTEND job " + token + " 5s", ":1", "default lock:job"},
		{"LOCKINFO job", "$-1", "default lock:job"},
		{"LOCK no 5000", refused, "default lock:no"},
		{"LOCK no 5000 WAIT 1s SESSION", refused, "default lock:no"},
		{"UNLOCK no " + token, refused, "default lock:no"},
		{"EXTEND no " + token + " 5s", refused, "default lock:no"},
		{"LOCKINFO no", refused, "default lock:no"},
		{"LOCK unasked 5000", "-NOPERM lock-acl: connection refused", "default lock:unasked"},
		{"LOCK no 0", "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, or digits with ms, s, m or h, from 10ms to 60s", ""},
		{"LOCKPROXY RELEASE no", ":1", ""},
	} {
		permission.asked = nil
		locker.take()
		got := ask(t, c, r, strings.Fields(tt.send)...)
		if asked := strings.Join(permission.asked, "; "); got != tt.want || asked != tt.asked {
			t.Errorf("%s: got %q, asked %q; want %q, %q", tt.send, got, asked, tt.want, tt.asked)
		}
		if masters := locker.take(); strings.HasPrefix(got, "-") != (masters == nil) {
			t.Errorf("%s: got %q, the masters were asked %q", tt.send, got, masters)
		}
	}
	gate.required, permission.asked = true, nil
	if got := ask(t, c, r, "LOCK", "job", "5000"); got != fmt.Sprint("-", errNoAuth) || permission.asked != nil {
		t.Errorf("without authentication: got %q, asked %q", got, permission.asked)
	}
}

// twicePermission permits the first question and is told the answer to the second.
type twicePermission struct {
	asked  int
	second func() (string, error)
}

func (p *twicePermission) MayWrite(context.Context, string, string) (string, error) {
	if p.asked++; p.asked == 1 {
		return "", nil
	}
	return p.second()
}

func (p *twicePermission) Known(string, string) (string, bool) { return "", false }

// TestPermissionAfterWaiting: who waited is asked about again before the lock is handed out, and a
// lock that must not be is given back.
func TestPermissionAfterWaiting(t *testing.T) {
	abandoned := fmt.Sprintf("abandon %q %v", "job", aToken)
	for name, tt := range map[string]struct {
		send   string
		second func() (string, error)
		want   string
		back   bool
	}{
		"still":    {"LOCK job 5000 WAIT 0", func() (string, error) { return "", nil }, aToken.String(), false},
		"removed":  {"LOCK job 5000 WAIT 0", func() (string, error) { return "no right", nil }, "-NOPERM no right", true},
		"unknown":  {"LOCK job 5000 WAIT 0", func() (string, error) { return "", errors.New("timeout") }, "-NOPERM lock-acl: timeout", true},
		"too slow": {"LOCK job 20 WAIT 0", func() (string, error) { time.Sleep(20 * time.Millisecond); return "", nil }, "-TRYAGAIN a majority answered, but too late: no validity was left", true},
		"no wait":  {"LOCK job 5000", func() (string, error) { return "no right", nil }, aToken.String(), false},
	} {
		c, r, locker, _ := start(t, func(o *Options) { o.Permission = &twicePermission{second: tt.second} })
		if got := ask(t, c, r, strings.Fields(tt.send)...); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		if back := slices.Contains(locker.take(), abandoned); back != tt.back {
			t.Errorf("%s: given back is %v, want %v", name, back, tt.back)
		}
	}
	c, r, _, _ := start(t, func(o *Options) {
		o.Permission = &twicePermission{second: func() (string, error) { time.Sleep(50 * time.Millisecond); return "", nil }}
	})
	reply := strings.Fields(ask(t, c, r, "LOCK", "job", "5000", "WAIT", "0", "FULL"))
	if got := reply[len(reply)-1]; got > ":4950" {
		t.Errorf("validity is %s after a question of 50ms", got)
	}
}
