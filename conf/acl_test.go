package conf

import (
	"strings"
	"testing"
)

// TestLockACLNeedsUpstream: lock-acl needs a server to ask, and settings without effect are
// refused. No output contains a password.
func TestLockACLNeedsUpstream(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--lock-acl", "on"}, "lock-acl on needs a real upstream: the embedded one has no users"},
		{[]string{"--upstream", "a:1", "--lock-acl-upstream", "redis://asker:hush@a:1"}, "without lock-acl on"},
		{[]string{"--upstream", "a:1", "--lock-acl", "on"}, ""},
		{[]string{"--upstream", "a:1", "--lock-acl", "on", "--lock-acl-upstream", "redis://asker:hush@a:1"}, ""},
		{[]string{"--upstream", "a:1", "--lock-acl", "on", "--lock-acl-upstream", "rediss://asker:hush@a:2",
			"--upstream-tls-ca", "f"}, ""},
		{[]string{"--upstream", "a:1", "--lock-acl", "on", "--lock-acl-upstream", "redis+sentinel://asker:hush@s:2/m",
			"--sentinel-password-file", "f"}, ""},
		{[]string{"--upstream", "a:1", "--lock-acl", "on", "--lock-acl-upstream", "redis://asker:hush@a:1",
			"--upstream-tls-ca", "f"}, "upstream-tls-ca \"f\" needs a rediss:// address"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			cfg, err := Load(tt.args, nil)
			if (err == nil) != (tt.want == "") || err != nil &&
				(!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush")) {
				t.Errorf("%q: got %v, want %q", tt.args, err, tt.want)
			}
			if err == nil && strings.Contains(cfg.Values()["lock-acl-upstream"], "hush") {
				t.Errorf("%q: a password shows", tt.args)
			}
		})
	}
}
