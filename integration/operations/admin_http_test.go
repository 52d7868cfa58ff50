package operations

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/lab"
)

// The HTTP endpoints for operators.

// Each event on commands, locks, bytes and masters is counted once.
func TestMetricsCountEachEventOnce(t *testing.T) {
	t.Parallel()
	o := lab.StartOperators(t)
	before := map[string]float64{}
	series := map[string]float64{ // the wanted growth of each
		`lockproxy_lock_commands_total{command="lock",outcome="granted"}`:           4,
		`lockproxy_master_strays_cleaned_total{master="` + o.Masters[2].Addr + `"}`: 1, // its grant of "split"
		`lockproxy_lock_commands_total{command="lock",outcome="taken"}`:             2,
		`lockproxy_lock_commands_total{command="lock",outcome="timeout"}`:           1,
		`lockproxy_lock_commands_total{command="lock",outcome="invalid"}`:           2,
		`lockproxy_lock_commands_total{command="unlock",outcome="released"}`:        2,
		`lockproxy_lock_commands_total{command="unlock",outcome="not_held"}`:        1,
		`lockproxy_lock_commands_total{command="extend",outcome="extended"}`:        1,
		`lockproxy_lock_commands_total{command="extend",outcome="lost"}`:            1,
		`lockproxy_lock_commands_total{command="lockinfo",outcome="ok"}`:            1,
		`lockproxy_lock_commands_total{command="lockproxy",outcome="denied"}`:       1,
		`lockproxy_lock_commands_total{command="lock",outcome="other"}`:             0,
		`lockproxy_lock_command_duration_seconds_count{command="lock"}`:             7, // without the two that waited
		`lockproxy_lock_wait_duration_seconds_count{granted="true"}`:                1,
		`lockproxy_lock_wait_duration_seconds_count{granted="false"}`:               1,
		`lockproxy_lock_hold_duration_seconds_count`:                                3,
		`lockproxy_session_locks_ended_total{outcome="released"}`:                   1,
		`lockproxy_relayed_commands_total`:                                          2,
		`lockproxy_relayed_command_duration_seconds_count{group="connection"}`:      1,
		`lockproxy_client_received_bytes_total`:                                     0, // at least; see below
		`lockproxy_client_connections_total`:                                        1,
		`lockproxy_upstream_dial_duration_seconds_count`:                            1,
		`lockproxy_master_votes_granted_total{master="` + o.Masters[0].Addr + `"}`:  4,
		`lockproxy_master_votes_refused_total{master="` + o.Masters[0].Addr + `"}`:  1,
		`lockproxy_session_locks`:                                                   0, `lockproxy_waiters`: 0,
	}
	for name := range series {
		before[name] = o.Metric(name)
	}
	c := causeEvents(t, o)
	if n := o.Metric("lockproxy_session_locks"); n != 1 {
		t.Errorf("got %v session locks, want 1", n)
	}
	c.Close()
	lab.WaitFor(t, "the end of the session", lab.Patience,
		func() bool { return o.Metric("lockproxy_session_locks") == 0 })
	lab.WaitFor(t, "the end of the connection", lab.Patience, func() bool { return o.Metric("lockproxy_clients") == 0 })
	for name, growth := range series {
		if strings.Contains(name, "{master=") { // counted when that master answers, which may be after the majority
			lab.Poll(lab.Patience, func() bool { return o.Metric(name)-before[name] >= growth })
		}
		got := o.Metric(name) - before[name]
		switch {
		case name == "lockproxy_client_received_bytes_total":
			if got < 100_000 || got > 103_000 {
				t.Errorf("lockproxy_client_received_bytes_total grew by %v, want 100,000 to 103,000", got)
			}
		case strings.HasPrefix(name, "lockproxy_master_votes_refused"): // the waiting LOCK asks more than once
			if got < 2 {
				t.Errorf("%s grew by %v, want at least 2", name, got)
			}
		case got != growth:
			t.Errorf("%s grew by %v, want %v", name, got, growth)
		}
	}
}

// causeEvents causes the events of TestMetricsCountEachEventOnce, and returns a client with a
// session lock.
func causeEvents(t *testing.T, o *lab.Operators) *lab.Client {
	t.Helper()
	c := lab.Dial(t, o.Proxies[0].Addr)
	token := c.Lock("a", "60s")
	c.WantDo(lab.Null2, "LOCK", "a", "60s")
	c.WantDo(lab.Null2, "LOCK", "a", "60s", "WAIT", "50ms")
	c.Do("LOCK", "a", "0")
	c.Do("LOCK", "a")
	c.WantDo(":1\r\n", "EXTEND", "a", token, "60s")
	c.Do("LOCKINFO", "a")
	c.Unlock("a", token)
	c.WantDo(":0\r\n", "UNLOCK", "a", token)
	c.WantDo(":0\r\n", "EXTEND", "a", token, "60s")
	c.Unlock("b", c.Lock("b", "60s"))
	c.Do("LOCKPROXY", "LOCKS", "0")
	c.WantDo("+PONG\r\n", "PING")
	for _, m := range o.Masters[:2] {
		m.Must(t, "SET", "lock:split", "another library", "PX", "60000")
	}
	c.WantDo(lab.Null2, "LOCK", "split", "10s")
	value := strings.Repeat("v", 100_000)
	c.WantDo(lab.Bulk(value), "ECHO", value)
	c.LockSession("s", "60s")
	if lab.TokenOf(c.Do("LOCK", "w", "60s", "WAIT", "60s")) == "" {
		t.Error("LOCK WAIT of a free lock: got no token")
	}
	return c
}

// A proxy is ready for locks with a majority and the upstream, and for all other commands with the
// upstream; readyz names the missing servers, and healthz stays good.
func TestReadyzNamesMissingServers(t *testing.T) {
	t.Parallel()
	o := lab.StartOperators(t, "--max-ttl", "2s")
	ready := func(what string, code int, words ...string) {
		t.Helper()
		last := ""
		if !lab.Poll(lab.Patience, func() bool {
			got, text := o.Get("GET", "/readyz?locks", "", "")
			last = fmt.Sprint(got, " ", text)
			return got == code && !slices.ContainsFunc(words, func(w string) bool {
				one, other, _ := strings.Cut(w, " or ")
				return !strings.Contains(text, one) && (other == "" || !strings.Contains(text, other))
			})
		}) {
			t.Fatalf("%s: readyz: got %[4]s, want %[2]d with %[3]q", what, code, words, last)
		}
		if code, text := o.Get("GET", "/healthz", "", ""); code != 200 || text != "ok\n" {
			t.Errorf("%s: healthz: got %d %q, want 200 ok", what, code, text)
		}
		relays := 200
		if strings.Contains(what, "upstream") {
			relays = 503
		}
		if code, text := o.Get("GET", "/readyz", "", ""); code != relays || strings.Contains(text, "masters can vote") {
			t.Errorf("%s: readyz without locks: got %d %q, want %d", what, code, text, relays)
		}
	}
	ready("at the start", 200, "ready")
	o.Masters[0].Kill()
	ready("one of three away", 200, "ready")
	o.Masters[1].Kill()
	ready("two of three away", 503, "1 of 3 masters can vote, 2 needed", o.Masters[0].Addr+" refused the connection",
		o.Masters[1].Addr+" ")
	o.Masters[0].RestartEmpty(t)
	// the first waits 2s at most, or for the second
	ready("one is in quarantine", 503, o.Masters[0].Addr+" restarted", "votes in or waits for 1 more to be reached")
	o.Masters[1].RestartEmpty(t)
	ready("they vote again", 200, "ready")
	if n := o.Metric(`lockproxy_master_quarantines_total{master="` + o.Masters[0].Addr + `"}`); n != 1 {
		t.Errorf("got %v quarantines, want 1", n)
	}
	o.Upstream.Pause(t)
	ready("a hung upstream", 503, "upstream "+o.Upstream.Addr+": i/o timeout")
	o.Upstream.Resume()
	ready("it goes on", 200, "ready")
	o.Upstream.Kill()
	ready("no upstream", 503, "upstream "+o.Upstream.Addr+": connection ")
	if o.Metric("lockproxy_upstream_up") != 0 {
		t.Error("lockproxy_upstream_up: got 1, want 0")
	}
	o.Proxies[0].Signal(syscall.SIGSTOP) // a client with an incomplete request must not delay the end of the process
	conn, err := lab.Connect(o.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Put("GET /metrics HTTP/1.1\r\n")
	o.Proxies[0].Resume()
	if !o.Proxies[0].Stop(t) {
		t.Error("the process did not end beside an incomplete HTTP request")
	}
}

// admin-listen asks for the token of the file, and for a new one after SIGHUP; no reply or log
// line shows a token, or a master if show-masters is off.
func TestAdminListenWantsToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-token")
	o := lab.StartOperators(t, "--admin-token-file", file, "--show-masters", "false")
	if code, _ := o.Get("GET", "/metrics", "", ""); code != 401 {
		t.Errorf("without a token: got %d, want 401", code)
	}
	o.Masters[2].Kill()
	lab.WaitFor(t, "a master reported as down", lab.Patience, func() bool {
		_, text := o.Get("GET", "/metrics", "first-token", "")
		return strings.Contains(text, `lockproxy_master_state{master="master 3",state="down"} 1`)
	})
	_, metrics := o.Get("GET", "/metrics", "first-token", "")
	_, ready := o.Get("GET", "/readyz", "first-token", "")
	for _, m := range o.Masters {
		if strings.Contains(metrics+ready, m.Addr) {
			t.Errorf("got the address of master %s although show-masters is off", m.Addr)
		}
	}
	write("second-token")
	o.Proxies[0].Signal(syscall.SIGHUP)
	lab.WaitFor(t, "the new token", lab.Patience, func() bool {
		code,
			_ := o.Get("GET", "/metrics", "second-token", "")
		return code == 200
	})
	if code, _ := o.Get("GET", "/metrics", "first-token", ""); code != 401 {
		t.Errorf("old token: got %d, want 401", code)
	}
	for _, path := range []string{"/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap"} {
		if code, text := o.Get("GET", path, "second-token", ""); code != 200 || strings.Contains(text, "second-token") {
			t.Errorf("%s: got %d", path, code)
		}
	}
	if log := o.Proxies[0].Log.String(); strings.Contains(log, "first-token") || strings.Contains(log, "second-token") {
		t.Error("got the token in the log")
	}
}
