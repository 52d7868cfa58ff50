package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
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

// TestPermission: commands about locks need it, the others do not; and it comes behind arguments and authentication.
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
		{"LOCK no 0", "-ERR invalid expire time in 'lock' command", ""},
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
