package commands

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"lockproxy/quorum"
	"lockproxy/stat"
)

// threeMasters are one that votes but is slow, one that will vote, and one that may not, for a
// reason that names the first.
func threeMasters() []stat.Master {
	now := time.Now().Add(-time.Hour)
	return []stat.Master{
		{Name: "h:1", State: stat.StateVoting, Since: now, RunID: "abc", RTT: 1500 * time.Microsecond, Grants: 1,
			Refusals: 2, Errors: 3,
			Late: 4, Slow: 61500 * time.Microsecond},
		{Name: "m2@h:2", State: stat.StateQuarantined, Reason: "restarted\r\n17s ago", Since: now,
			VotesIn: 42500*time.Millisecond + 1},
		{Name: "h:10", State: stat.StateRefused, Reason: "is the same server as h:1, not h:10", Since: now},
	}
}

// sinceMillis is an hour and at most ten seconds more.
var sinceMillis = regexp.MustCompile(`since_ms :360\d{4}\b`)

// askMasters returns the text of the maps of LOCKPROXY MASTERS.
func askMasters(t *testing.T, show bool) []string {
	t.Helper()
	c, r, locker, _ := start(t, func(o *Options) { o.ShowMasters = show })
	locker.masters = threeMasters()
	reply := sinceMillis.ReplaceAllString(ask(t, c, r, "LOCKPROXY", "MASTERS"), "since_ms :an hour")
	return strings.Split(reply, " *24 ")[1:]
}

func TestMastersAreNamedOnlyIfShown(t *testing.T) {
	want := []string{
		"address h:1 state voting reason answers in 62 ms, later than the majority needs votes_in_ms :0 since_ms :an hour run_id abc rtt_us :1500 grants :1 refusals :2 errors :3 late :4 slow_ms :62",
		"address m2@h:2 state quarantined reason restarted  17s ago votes_in_ms :42501 since_ms :an hour run_id  rtt_us :0 grants :0 refusals :0 errors :0 late :0 slow_ms :0",
		"address h:10 state refused reason is the same server as h:1, not h:10 votes_in_ms :0 since_ms :an hour run_id  rtt_us :0 grants :0 refusals :0 errors :0 late :0 slow_ms :0",
	}
	if got := askMasters(t, true); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i, from := range []string{"h:1", "m2@h:2", "h:10"} {
		want[i] = strings.Replace(want[i], from, []string{"master 1", "master 2", "master 3"}[i], 1)
	}
	want[2] = strings.Replace(want[2], "h:1, not h:10", "master 1, not master 3", 1)
	if got := askMasters(t, false); !slices.Equal(got, want) {
		t.Errorf("without show-masters: got %q, want %q", got, want)
	}
}

func TestAdmitFindsMasterByNameAddressOrPlace(t *testing.T) {
	refused := quorum.MasterError{Index: 1, Name: "m2@h:2", Err: errors.New("is the same server\r\nas h:1")}
	for _, tt := range []struct {
		name, given string
		hide        bool
		err         error
		want, asked string
	}{
		{"by name", "m2@h:2", false, nil, "+OK", `admit "m2@h:2"`},
		{"by the first part", "m2", false, nil, "+OK", `admit "m2@h:2"`},
		{"by address", "h:2", false, nil, "+OK", `admit "m2@h:2"`},
		{"part of an address", "h:", false, nil, "-ERR no such master 'h:': it is one of h:1, m2@h:2, h:10", ""},
		{"any bytes", "h\r\n2", false, nil, "-ERR no such master 'h  2': it is one of h:1, m2@h:2, h:10", ""},
		{"nothing", "", false, nil, "-ERR no such master '': it is one of h:1, m2@h:2, h:10", ""},
		{"by place, though names are shown", "master 2", false, nil, "+OK", `admit "m2@h:2"`},
		{"by place", "master 2", true, nil, "+OK", `admit "m2@h:2"`},
		{"by place in capitals", "MASTER 3", true, nil, "+OK", `admit "h:10"`},
		{"a place that is not", "master 4", true, nil,
			"-ERR no such master 'master 4': it is one of master 1, master 2, master 3", ""},
		{"by name, though names are hidden", "m2@h:2", true, nil, "+OK", `admit "m2@h:2"`},
		{"refused", "m2@h:2", false, refused, "-ERR m2@h:2 is the same server  as h:1", `admit "m2@h:2"`},
		{"refused, names hidden", "master 2", true, refused, "-ERR master 2 is the same server  as master 1",
			`admit "m2@h:2"`},
		{"other error", "h:10", false, errors.New("was asked in vain"), "-ERR h:10 was asked in vain", `admit "h:10"`},
		{"the connection ends", "h:1", false, context.Canceled, "-TRYAGAIN the connection is closing", `admit "h:1"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			core, logs := observer.New(zapcore.InfoLevel)
			c, r, locker, _ := start(t, func(o *Options) {
				o.AdminCommands, o.ShowMasters, o.Log = true, !tt.hide, zap.New(core)
			})
			locker.masters, locker.err = threeMasters(), tt.err
			got := ask(t, c, r, "LOCKPROXY", "ADMIT", tt.given)
			if asked := strings.Join(locker.take(), "; "); got != tt.want || asked != tt.asked {
				t.Errorf("%s: got %q, asked %q; want %q, %q", tt.name, got, asked, tt.want, tt.asked)
			}
			wantLogged := 0
			if tt.asked != "" {
				wantLogged = 1
			}
			entries := logs.FilterMessage("operator admits master").FilterLevelExact(zapcore.InfoLevel).All()
			if len(entries) != wantLogged {
				t.Fatalf("%s: logged %v", tt.name, entries)
			}
			if wantLogged == 1 && entries[0].ContextMap()["client"] != c.LocalAddr().String() {
				t.Errorf("%s: logged %v, the client is %v", tt.name, entries[0].ContextMap(), c.LocalAddr())
			}
		})
	}
}

// TestAdmitGate: as RELEASE, only for operators; arguments are checked before.
func TestAdmitGate(t *testing.T) {
	c, r, locker, _ := start(t, nil)
	locker.masters = threeMasters()
	if got := ask(t, c, r, "LOCKPROXY", "ADMIT", "h:1"); !strings.HasPrefix(got,
		"-NOPERM LOCKPROXY ADMIT needs admin-commands: on") || locker.take() != nil {
		t.Errorf("got %q", got)
	}
	if got := ask(t, c, r, "LOCKPROXY", "admit"); got != "-ERR wrong number of arguments for 'lockproxy|admit' command" {
		t.Errorf("got %q", got)
	}
	if help := ask(t, c, r, "LOCKPROXY", "HELP"); !strings.Contains(help, "+ADMIT <master> [FORCE]") {
		t.Errorf("HELP says %q", help)
	}
}

// TestAdmitWords: operators type "LOCKPROXY ADMIT master 3" without the quotes that reasons show.
func TestAdmitWords(t *testing.T) {
	c, r, locker, _ := start(t, func(o *Options) { o.AdminCommands = true })
	locker.masters = threeMasters()
	for send, want := range map[string][2]string{
		"master 3":       {"+OK", `admit "h:10"`},
		"master 3 FORCE": {"+OK", `admit "h:10!"`},
		"h:1 force":      {"+OK", `admit "h:1!"`},
		"FORCE":          {"-ERR no such master 'FORCE': it is one of h:1, m2@h:2, h:10", ""},
		"FORCE force":    {"-ERR no such master 'FORCE': it is one of h:1, m2@h:2, h:10", ""},
		"master 3 FROCE": {"-ERR syntax error near 'FROCE': did you mean FORCE?", ""},
		"a b c":          {"-ERR syntax error near 'c': LOCKPROXY ADMIT takes FORCE", ""},
		"a b c d":        {"-ERR wrong number of arguments for 'lockproxy|admit' command", ""},
	} {
		t.Run(send, func(t *testing.T) {
			got := ask(t, c, r, append([]string{"LOCKPROXY", "ADMIT"}, strings.Fields(send)...)...)
			if asked := strings.Join(locker.take(), ""); got != want[0] || asked != want[1] {
				t.Errorf("got %q, asked %q; want %q", got, asked, want)
			}
		})
	}
}

// TestMasterCalled: what means two masters means none, unless it is the whole name of one.
func TestMasterCalled(t *testing.T) {
	all := []stat.Master{{Name: "a@h:1"}, {Name: "b@h:1"}, {Name: "h:2"}, {Name: "c@h:2"}, {Name: "h:3@x"},
		{Name: "d@h:3"}}
	for called, want := range map[string]int{"h:1": -1, "a": 0, "b": 1, "h:2": 2, "c": 3, "h:3": -1, "master 1": 0,
		"1": -1, "master": -1, "@": -1} {
		if got := masterCalled(all, called); got != want {
			t.Errorf("%q: %d, want %d", called, got, want)
		}
	}
}

// TestInfoLoad: LOCKPROXY INFO shows how busy the masters and the process are.
func TestInfoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes
		locker := &fakeLocker{load: stat.Load{Waiting: 8123, Running: 255, Window: 256, TimedOut: 7,
			LateBy: 1999*time.Millisecond + 1, LateAt: time.Now().Add(-time.Hour - time.Second/2)}}
		s := New(Options{Locker: locker, Watcher: locker, Inspector: locker, MaxTTL: time.Minute})
		t.Cleanup(s.Close)
		for _, want := range []string{
			"# Load\r\nlocks_unsent:8123\r\nlocks_undecided:255\r\nlock_window:256\r\nqueue_timeouts:7\r\n" +
				"late_ms:2000\r\nlate_seconds_ago:3600\r\n",
			"# Load\r\nlocks_unsent:0\r\nlocks_undecided:0\r\nlock_window:0\r\nqueue_timeouts:0\r\n" +
				"late_ms:0\r\nlate_seconds_ago:-1\r\n",
		} {
			if got := s.info(); !strings.HasSuffix(got, "\r\n\r\n"+want) {
				t.Errorf("got %q, want it to end with %q", got, want)
			}
			locker.load = stat.Load{}
		}
	})
}
