package conf

import (
	"fmt"
	"strings"
	"testing"
)

func TestAdminSettings(t *testing.T) {
	for args, want := range map[string]string{
		"--admin-listen 127.0.0.1:9380":              "",
		"--admin-listen unix:///run/a.sock":          "",
		"--admin-listen off":                         "",
		"--admin-listen :9380 --admin-token s3":      "",
		"--admin-listen :9380 --admin-token-file /t": "",
		"--admin-listen :9380 --allow-open":          "",
		"--admin-listen :9380": "admin-listen :9380 shows other machines " +
			"the locks: set admin-token-file, listen on loopback, or set allow-open true",
		"--admin-listen https://127.0.0.1:1": "admin-listen https://127.0.0.1:1 needs " +
			"tls-cert and tls-key",
		"--admin-listen https://127.0.0.1:1 --tls-cert=/c --tls-key=/k": "",
		"--admin-listen redis://127.0.0.1:1": "--admin-listen: is not of the form " +
			"host:port, https://host:port or unix:///path",
		"--admin-listen http://u:s3cret@h:1/x": "--admin-listen: is not of the form " +
			"host:port, https://host:port or unix:///path",
		"--admin-listen 127.0.0.1:6380": "admin-listen 127.0.0.1:6380 is in listen, too",
		"--admin-token s3cret":          "admin-token without admin-listen",
		"--admin-token-file /t":         `admin-token-file "/t" without admin-listen`,
		"--admin-listen [::1]:1 --admin-token s3cret --admin-token-file /t": `admin-token is set and admin-token-file ` +
			`is "/t": one or the other`,
		"--admin-listen [::1]:1 --admin-token=": "--admin-token: is empty or has control characters",
		"--audit-log=":                          "audit-log is empty: off, log or a file",
	} {
		t.Run(args, func(t *testing.T) {
			_, err := Load(strings.Fields(args), serverless(strings.Fields(args), nil))
			got := ""
			if err != nil {
				got = strings.TrimPrefix(err.Error(), "--")
			}
			if got != strings.TrimPrefix(want, "--") {
				t.Errorf("%s: got %q, want %q", args, got, want)
			}
		})
	}
}

// TestAdminTokenIsNotShown: neither in the settings that are logged nor in a Config that is
// printed by name.
func TestAdminTokenIsNotShown(t *testing.T) {
	cfg := mustLoad(t, []string{"--upstream=h:1", "--admin-listen=127.0.0.1:1", "--admin-token=s3cret"}, nil)
	if text := fmt.Sprint(cfg.Values()); strings.Contains(text, "s3cret") ||
		!strings.Contains(text, "admin-token:(not shown)") {
		t.Errorf("the settings for the log say %s", text)
	}
	if text := strings.Join(cfg.Warnings(), "\n"); strings.Contains(text, "s3cret") ||
		!strings.Contains(text, "admin-token: the password is on the command line") ||
		!strings.Contains(text, "use admin-token-file,") {
		t.Errorf("the warnings are %s", text)
	}
}
