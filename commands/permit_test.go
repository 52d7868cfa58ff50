package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

// fakePermission answers by the key, and records its calls.
type fakePermission struct {
	asked     []string
	config    string // what MayConfigure returns
	configErr error
}

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

func (p *fakePermission) Writable(ctx context.Context, user string, keys []string) (may []string, err error) {
	for _, key := range keys {
		switch refusal, err := p.MayWrite(ctx, user, key); {
		case err != nil:
			return nil, err
		case refusal == "":
			may = append(may, key)
		}
	}
	return may, nil
}

func (p *fakePermission) MayConfigure(_ context.Context, user string) (string, error) {
	p.asked = append(p.asked, user+" CONFIG SET")
	return p.config, p.configErr
}

// TestLocksAndMastersNeedPermission: commands about locks and masters need it, the others do not;
// and it comes after arguments and authentication.
func TestLocksAndMastersNeedPermission(t *testing.T) {
	permission := &fakePermission{}
	c, r, locker, gate := start(t, func(o *Options) { o.Permission, o.AdminCommands = permission, true })
	locker.masters = []stat.Master{{Name: "m1"}}
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
		{"LOCK no 0", "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s", ""},
		{"LOCK HELP", "*", ""},
		{"LOCKPROXY RELEASE job", ":1", "default lock:job"},
		{"LOCKPROXY RELEASE no", refused, "default lock:no"},
		{"LOCKPROXY RELEASE unasked", "-NOPERM lock-acl: connection refused", "default lock:unasked"},
		{"LOCKPROXY WAITERS job", "*0", "default lock:job"},
		{"LOCKPROXY WAITERS no", refused, "default lock:no"},
		{"LOCKPROXY WHY no", refused, "default lock:no"},
		{"LOCKPROXY RELEASE", "-ERR wrong number of arguments for 'lockproxy|release' command", ""},
		{"LOCKPROXY ADMIT m1", "+OK", "default CONFIG SET"},
	} {
		t.Run(tt.send, func(t *testing.T) {
			permission.asked = nil
			locker.take()
			got := ask(t, c, r, strings.Fields(tt.send)...)
			if tt.want == "*" {
				got = got[:1]
			}
			if asked := strings.Join(permission.asked, "; "); got != tt.want || asked != tt.asked {
				t.Errorf("%s: got %q, asked %q; want %q, %q", tt.send, got, asked, tt.want, tt.asked)
			}
			if masters := locker.take(); strings.ContainsAny(got[:1], "-*") != (masters == nil) {
				t.Errorf("%s: got %q, the masters were asked %q", tt.send, got, masters)
			}
		})
	}
	gate.required, permission.asked = true, nil
	if got := ask(t, c, r, "LOCK", "job", "5000"); got != fmt.Sprint("-", errNoAuth) || permission.asked != nil {
		t.Errorf("without authentication: got %q, asked %q", got, permission.asked)
	}
}

// TestPermissionToAdmit: only users who may CONFIG SET admit a master, and no client finds out the
// names of masters by trying.
func TestPermissionToAdmit(t *testing.T) {
	const noConfig = "This user has no permissions to run the 'config|set' command"
	for _, tt := range []struct {
		refusal string
		err     error
		want    string
	}{
		{noConfig, nil, "-NOPERM " + noConfig},
		{"", errors.New("connection refused"), "-NOPERM lock-acl: connection refused"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			c, r, locker, _ := start(t, func(o *Options) {
				o.Permission, o.AdminCommands = &fakePermission{config: tt.refusal, configErr: tt.err}, true
			})
			locker.masters = []stat.Master{{Name: "m1"}}
			for _, name := range []string{"m1", "m2"} {
				if got := ask(t, c, r, "LOCKPROXY", "ADMIT", name); got != tt.want || locker.take() != nil {
					t.Errorf("ADMIT %s: got %q, want %q", name, got, tt.want)
				}
			}
		})
	}
}

// TestPermissionToList: LOCKPROXY LOCKS shows the locks whose keys the user may SET. The cursor is
// the same, also of a page without such locks.
func TestPermissionToList(t *testing.T) {
	for _, tt := range []struct {
		keys string // that the masters have
		want string // the listed keys, or the error
	}{
		{"a no b no", "a b"},
		{"no no", ""},
		{"", ""},
		{"a unasked", "-NOPERM lock-acl: connection refused"},
	} {
		t.Run(tt.keys, func(t *testing.T) {
			permission := &fakePermission{}
			c, r, locker, _ := start(t, func(o *Options) { o.Permission, o.AdminCommands = permission, true })
			locker.found = []quorum.Info{}
			for key := range strings.FieldsSeq(tt.keys) {
				locker.found = append(locker.found, quorum.Info{Key: key, Held: 1, Masters: 1})
			}
			got := ask(t, c, r, "LOCKPROXY", "LOCKS", "0")
			if listed := listedKeys(got); listed != tt.want {
				t.Errorf("got %q, want the locks %q", got, tt.want)
			}
			if got[0] != '-' && len(permission.asked) != len(strings.Fields(tt.keys)) {
				t.Errorf("asked %q", permission.asked)
			}
		})
	}
}

// listedKeys returns the keys in a reply to LOCKPROXY LOCKS with the cursor 7, or another reply.
func listedKeys(reply string) string {
	var keys []string
	words := strings.Fields(reply)
	for i, word := range words {
		if word == "key" {
			keys = append(keys, words[i+1])
		}
	}
	if !strings.HasPrefix(reply, fmt.Sprintf("*2 7 *%d", len(keys))) {
		return reply
	}
	return strings.Join(keys, " ")
}

// TestPermissionOnUnixSocket: LOCKPROXY there does not ask the upstream; LOCK does.
func TestPermissionOnUnixSocket(t *testing.T) {
	permission := &fakePermission{config: "no"}
	locker := &fakeLocker{held: true, masters: []stat.Master{{Name: "m1"}}, found: []quorum.Info{{Key: "no"}}}
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{required: true},
		KeyPrefix: "lock:", MaxTTL: time.Minute, Permission: permission})
	mux := redcon.NewServeMux()
	service.Register(mux)
	c, _ := serveAt(t, "unix", filepath.Join(t.TempDir(), "s"), service,
		resp.Options{Handler: mux, UpstreamName: "nowhere",
			Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("no upstream") }})
	r := bufio.NewReader(c)
	for line, want := range map[string]string{
		"LOCKPROXY RELEASE no": ":1",
		"LOCKPROXY ADMIT m1":   "+OK",
		"LOCKPROXY LOCKS 0":    "*2 7 *1 ",
		"LOCK no 5s":           "-NOAUTH ",
	} {
		if got := ask(t, c, r, strings.Fields(line)...); !strings.HasPrefix(got, want) || permission.asked != nil {
			t.Errorf("%s: got %q, asked %q", line, got, permission.asked)
		}
	}
}

// twicePermission permits the first request and answers the next with second.
type twicePermission struct {
	Rights // nil
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

// TestPermissionAfterWaiting: after a wait the permission is checked again before the reply, and a
// lock that the user may not have is given back.
func TestPermissionAfterWaiting(t *testing.T) {
	abandoned := fmt.Sprintf("abandon %q %v", "job", aToken)
	for name, tt := range map[string]struct {
		send   string
		second func() (string, error)
		want   string
		back   bool
	}{
		"still":   {"LOCK job 5000 WAIT 0", func() (string, error) { return "", nil }, aToken.String(), false},
		"removed": {"LOCK job 5000 WAIT 0", func() (string, error) { return "no right", nil }, "-NOPERM no right", true},
		"unknown": {"LOCK job 5000 WAIT 0", func() (string, error) { return "", errors.New("timeout") },
			"-NOPERM lock-acl: timeout", true},
		"too slow": {"LOCK job 20 WAIT 0", func() (string, error) { time.Sleep(20 * time.Millisecond); return "", nil },
			"-TRYAGAIN a majority answered, but too late: no validity was left", true},
		"no wait": {"LOCK job 5000", func() (string, error) { return "no right", nil }, aToken.String(), false},
	} {
		t.Run(name, func(t *testing.T) {
			c, r, locker, _ := start(t, func(o *Options) { o.Permission = &twicePermission{second: tt.second} })
			if got := ask(t, c, r, strings.Fields(tt.send)...); got != tt.want {
				t.Errorf("%s: got %q, want %q", name, got, tt.want)
			}
			if back := slices.Contains(locker.take(), abandoned); back != tt.back {
				t.Errorf("%s: given back is %v, want %v", name, back, tt.back)
			}
		})
	}
	c, r, _, _ := start(t, func(o *Options) {
		o.Permission = &twicePermission{second: func() (string, error) { time.Sleep(50 * time.Millisecond); return "", nil }}
	})
	reply := strings.Fields(ask(t, c, r, "LOCK", "job", "5000", "WAIT", "0", "FULL"))
	if got := reply[len(reply)-1]; got > ":4950" {
		t.Errorf("validity is %s after a request of 50ms", got)
	}
}
