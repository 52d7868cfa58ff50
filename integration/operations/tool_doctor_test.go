package operations

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// diagnosis is the output of lockproxy doctor --json.
type diagnosis struct {
	Findings []struct{ Level, Server, Check, Found, Remedy string }
	Warnings int
	Failures int
}

// examine runs lockproxy doctor.
func examine(t *testing.T, wantCode int, flags ...string) (d diagnosis) {
	t.Helper()
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, append([]string{"doctor", "--json"}, flags...)...).Output()
	code := 0
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if code != wantCode {
		t.Fatalf("exit code %d, want %d: %s", code, wantCode, out)
	}
	if err := json.Unmarshal(out, &d); err != nil && code != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	return d
}

// of returns the level of the check of a server, with the text.
func (d diagnosis) of(server, check string) string {
	for _, f := range d.Findings {
		if f.Server == server && f.Check == check {
			return f.Level + " " + f.Found
		}
	}
	return ""
}

// want fails unless the finding has the level and the words.
func (d diagnosis) want(t *testing.T, server, check, level, words string) {
	t.Helper()
	if got := d.of(server, check); !strings.HasPrefix(got, level+" ") || !strings.Contains(got, words) {
		t.Errorf("%s, %s: got %q, want %s and %q", server, check, got, level, words)
	}
}

// TestDoctorFindsNothing: servers that serve locks well have no finding, and keep no key of it.
func TestDoctorFindsNothing(t *testing.T) {
	t.Parallel()
	masters := lab.StartMasters(t, 3)
	up := lab.StartRedis(t)
	d := examine(t, 0, "--masters", strings.Join(lab.Addrs(masters), ","), "--upstream", up.Addr, "--master-timeout",
		"5s")
	if d.Failures > 0 {
		t.Errorf("failures: %+v", d.Findings)
	}
	for _, m := range masters {
		for _, check := range []string{"reach", "round trip", "eviction", "persistence", "rights", "record", "clock"} {
			d.want(t, m.Addr, check, "ok", "")
		}
		if size := m.Do(t, "DBSIZE"); size != ":0\r\n" {
			t.Errorf("%s: DBSIZE %q", m.Addr, size)
		}
	}
	d.want(t, up.Addr+" (upstream)", "login", "ok", "no password")
	d.want(t, up.Addr+" (upstream)", "version", "ok", "redis ")
}

// TestDoctorFindsFaults: each fault is found with its server and a remedy.
func TestDoctorFindsFaults(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, time.Minute, lab.Config{})
	lab.WaitAllVote(t, l, lab.Dial(t, l.Proxies[0].Addr))
	evicts := lab.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	protected := lab.StartRedis(t, "--requirepass", "secret")
	down := lab.FreeAddr(t)
	same := strings.Replace(l.Masters[1].Addr, "127.0.0.1", "localhost", 1)
	all := append(lab.Addrs(l.Masters), same, evicts.Addr, protected.Addr, down)
	d := examine(t, 1, "--masters", strings.Join(all, ","), "--upstream", "redis://app:wrong@"+protected.Addr)
	d.want(t, l.Masters[0].Addr, "record", "fail", "another list of masters")
	d.want(t, same, "identity", "fail", "it is the same server as "+l.Masters[1].Addr)
	d.want(t, evicts.Addr, "eviction", "fail", "allkeys-lru")
	d.want(t, protected.Addr, "reach", "fail", "password")
	d.want(t, down, "reach", "fail", "refused the connection")
	d.want(t, protected.Addr+" (upstream)", "login", "fail", "WRONGPASS")
	for _, f := range d.Findings {
		if f.Level == "fail" && f.Remedy == "" {
			t.Errorf("without a remedy: %+v", f)
		}
	}
}

// TestDoctorMissesRights: the rights that lockproxy's user lacks are named.
func TestDoctorMissesRights(t *testing.T) {
	t.Parallel()
	m := lab.StartRedis(t)
	m.Do(t, "ACL", "SETUSER", "locks", "on", ">pw", "~*", "&*", "+@all", "-zadd", "-publish")
	d := examine(t, 1, "--masters", "redis://locks:pw@"+m.Addr, "--upstream", m.Addr)
	d.want(t, m.Addr, "rights", "fail", "+zadd")
}

// TestDoctorEndsWithHungServers: servers that accept and do not answer delay nothing else.
func TestDoctorEndsWithHungServers(t *testing.T) {
	t.Parallel()
	masters := lab.StartMasters(t, 3)
	masters[0].Pause(t)
	masters[1].Pause(t)
	d := examine(t, 1, "--masters", strings.Join(lab.Addrs(masters), ","), "--upstream", masters[1].Addr)
	d.want(t, masters[0].Addr, "reach", "fail", "gave no answer")
	d.want(t, masters[2].Addr, "reach", "ok", "redis ")
	d.want(t, masters[1].Addr+" (upstream)", "reach", "fail", "timeout")
}

// TestDoctorNeedsSettings: wrong settings, and settings without a server, have exit code 2.
func TestDoctorNeedsSettings(t *testing.T) {
	t.Parallel()
	examine(t, 2)
	examine(t, 2, "--max-ttl", "60", "--masters", "127.0.0.1:1")
	examine(t, 2, "--unknown")
}
