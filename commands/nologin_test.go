package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/resp"
	"lockproxy/stat"
)

// TestNoLogin: refusals of a connection on which no client has logged in are reported as such, if
// the upstream wants a login or lock-acl is on. Other commands are not.
func TestNoLogin(t *testing.T) {
	login := resp.Options{UpstreamLogin: true, UpstreamUser: "app"}
	for name, tt := range map[string]struct {
		gate       fakeGate
		permission bool
		o          resp.Options
		want       string // of the commands below
	}{
		"login wanted":          {gate: fakeGate{required: true}, want: "true true true"},
		"not known":             {gate: fakeGate{err: errors.New("away")}, want: "true true true"},
		"logged in":             {gate: fakeGate{required: true}, o: login, want: "false false false"},
		"logged in, not known":  {gate: fakeGate{err: errors.New("away")}, o: login, want: "false false false"},
		"no password":           {want: "false false false"},
		"no password, lock-acl": {permission: true, want: "false true true"},
		"logged in, lock-acl":   {permission: true, o: login, want: "false false false"},
		"logged in, lock-acl, limited": {gate: fakeGate{required: true}, permission: true, o: login,
			want: "false false false"},
	} {
		for _, w := range ways {
			t.Run(name+", "+string(w), func(t *testing.T) {
				var mu sync.Mutex
				var got []string
				locker := &fakeLocker{held: true, later: w == elsewhere}
				o := Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &tt.gate, KeyPrefix: "lock:",
					MaxTTL: time.Minute, Tunable: Tunable{MinTTL: time.Millisecond},
					Report: func(e stat.Event) {
						mu.Lock()
						defer mu.Unlock()
						got = append(got, fmt.Sprint(e.NoLogin))
					}}
				if tt.permission {
					o.Permission = knownPermission{"lock:no": "not this key"}
				}
				tt.o.Dial = func(context.Context) (net.Conn, error) { return nil, errors.New("no upstream") }
				c := serve(t, w, New(o), locker, tt.o)
				r := bufio.NewReader(c)
				for _, line := range []string{"LOCK job 5s", "LOCK no 5s", "LOCK job"} {
					ask(t, c, r, strings.Fields(line)...)
				}
				mu.Lock()
				defer mu.Unlock()
				if want := strings.Fields(tt.want); !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}
