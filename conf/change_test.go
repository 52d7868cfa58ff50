package conf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestChangesNameDifferingSettings: every setting that differs is named, with both values and no
// password, and only live ones are taken.
func TestChangesNameDifferingSettings(t *testing.T) {
	from := mustLoad(t, []string{"--masters", "a:1,b:1,redis://u:old@c:1", "--max-ttl", "60s", "--max-clients", "10"},
		nil)
	to := mustLoad(t, []string{"--masters", "a:1,b:1,redis://u:new@c:1", "--max-ttl", "30s", "--max-clients", "20",
		"--log-level", "debug"}, nil)
	var got []string
	for _, c := range Changes(from, to) {
		got = append(got, c.String()+map[bool]string{true: ", live", false: ""}[c.Live])
	}
	want := []string{
		`masters "a:1,b:1,c:1" has other credentials`, `max-ttl "60s" becomes "30s"`, `max-clients "10" becomes "20", live`,
		`log-level "info" becomes "debug", live`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	merged, err := from.Take(to)
	if err != nil || merged.MaxClients != 20 || merged.LogLevel != "debug" || merged.MaxTTL != time.Minute ||
		merged.Masters[2].Password != "old" {
		t.Errorf("took %+v, %v", merged, err)
	}
	if Changes(from, from) != nil {
		t.Error("a Config differs from itself")
	}
}

// TestTakeRefusesInvalidCombinations: a live setting that is right only together with one that
// needs a restart.
func TestTakeRefusesInvalidCombinations(t *testing.T) {
	from := mustLoad(t, nil, nil)
	to := mustLoad(t, []string{"--embedded", "--max-ttl", "2m", "--session-lock-delay", "90s"}, nil)
	if _, err := from.Take(to); err == nil || err.Error() != "session-lock-delay 90s exceeds max-ttl 60s" {
		t.Errorf("%v", err)
	}
}

func TestFaultsOfAFileHaveTheirLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("max-ttl: 30s\n\nmax-clients: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load([]string{"--config", path}, nil); err == nil ||
		!strings.Contains(err.Error(), "max-clients (config "+path+" line 3): ") {
		t.Errorf("%v", err)
	}
}
