package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"lockproxy/conf"
	"lockproxy/quorum"
)

// healthy is the examination of a master without a fault.
func healthy() quorum.Examination {
	return quorum.Examination{RunID: "r", Software: "redis 7.0.15", RTT: time.Millisecond, Policy: "noeviction",
		ClockKnown: true,
		State:      "admitted"}
}

// TestDoctorJudgesMasters: each fault has its level, and a remedy if it is none.
func TestDoctorJudgesMasters(t *testing.T) {
	for name, tt := range map[string]struct {
		change   func(*quorum.Examination)
		settings func(*conf.Config)
		want     string // level and check of each fault
	}{
		"nothing":   {nil, nil, ""},
		"silent":    {func(e *quorum.Examination) { *e = quorum.Examination{Err: errors.New("gave no answer in 3s")} }, nil, "fail reach"},
		"a replica": {func(e *quorum.Examination) { e.Refusal = errors.New("is a replica") }, nil, "fail role"},
		"far":       {func(e *quorum.Examination) { e.RTT = 13 * time.Millisecond }, nil, "warn round trip"},
		"too far":   {func(e *quorum.Examination) { e.RTT = 50 * time.Millisecond }, nil, "fail round trip"},
		"far, but patient": {func(e *quorum.Examination) { e.RTT = 50 * time.Millisecond },
			func(c *conf.Config) { c.MasterTimeout = time.Second }, ""},
		"evicts": {func(e *quorum.Examination) { e.MayEvict = true }, nil, "fail eviction"},
		"evicts, allowed": {func(e *quorum.Examination) { e.MayEvict = true },
			func(c *conf.Config) { c.AllowEviction = true }, "warn eviction"},
		"limited":   {func(e *quorum.Examination) { e.Limited = true }, nil, ""},
		"unguarded": {nil, func(c *conf.Config) { c.RestartGuard = "off" }, "warn persistence"},
		"unguarded, durable": {func(e *quorum.Examination) { e.Durable = true },
			func(c *conf.Config) { c.RestartGuard = "off" }, ""},
		"long wait":           {nil, func(c *conf.Config) { c.MaxTTL = time.Hour }, "warn persistence"},
		"unreadable settings": {func(e *quorum.Examination) { e.Unknown = true }, nil, "warn persistence"},
		"a right missing": {func(e *quorum.Examination) { e.Lacks, e.ClockKnown = []string{"+zadd"}, false }, nil,
			"fail rights"},
		"a right is useful": {func(e *quorum.Examination) { e.Misses = []string{"+publish"} }, nil, "warn rights"},
		"others' record": {func(e *quorum.Examination) { e.Differs = "max-ttl 1000ms (here 60000ms)" }, nil,
			"fail record"},
		"clock ahead":  {func(e *quorum.Examination) { e.Ahead = 6 * time.Second }, nil, "warn clock"},
		"clock behind": {func(e *quorum.Examination) { e.Ahead = -13 * time.Hour }, nil, "fail clock"},
		"clock unclear": {func(e *quorum.Examination) { e.Ahead, e.RTT = 6*time.Second, 2*time.Second }, nil,
			"fail round trip"},
	} {
		t.Run(name, func(t *testing.T) {
			d, e := &doctor{cfg: conf.Default()}, healthy()
			if tt.change != nil {
				tt.change(&e)
			}
			if tt.settings != nil {
				tt.settings(&d.cfg)
			}
			d.checkMaster("m", &e)
			if got := faultsOf(t, d.findings); got != tt.want {
				t.Errorf("got %q, want %q: %+v", got, tt.want, d.findings)
			}
		})
	}
}

// faultsOf returns level and check of the findings that are faults. Each must have a remedy.
func faultsOf(t *testing.T, findings []finding) string {
	t.Helper()
	var found []string
	for _, f := range findings {
		if f.Level != levelOK {
			found = append(found, f.Level+" "+f.Check)
		}
		if (f.Level == levelOK) != (f.Remedy == "") {
			t.Errorf("the remedy of %+v", f)
		}
	}
	return strings.Join(found, ", ")
}

// TestDoctorComparesMasters: two names for one server, and clocks that differ from each other.
func TestDoctorComparesMasters(t *testing.T) {
	masters := []quorum.MasterOptions{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	all := []quorum.Examination{healthy(), healthy(), healthy(), {Err: errors.New("is down")}}
	all[1].RunID, all[1].Ahead = "other", -4*time.Second
	all[2].Ahead = 2 * time.Second
	d := &doctor{}
	d.checkTogether(masters, all)
	want := []finding{
		{levelFail, "c", "identity", "it is the same server as a",
			"name each server once, and each master a server of its own"},
		{levelWarn, "c", "clocks of the masters", "6.000s ahead of b", "run NTP (chrony) on all machines"},
	}
	if len(d.findings) != 2 || d.findings[0] != want[0] || d.findings[1] != want[1] {
		t.Errorf("got %+v", d.findings)
	}
}

// TestDoctorPrints: a line for each finding, or one object.
func TestDoctorPrints(t *testing.T) {
	d := &doctor{}
	d.ok("a", "reach", "redis\n7")
	d.note(levelWarn, "", "open files", "raise it", "few")
	var text, object bytes.Buffer
	d.print(&text, false)
	const want = "ok    a  reach: redis 7\nwarn  proxy  open files: few; raise it\n1 warnings, 0 failures\n"
	if text.String() != want {
		t.Errorf("got %q, want %q", text.String(), want)
	}
	d.print(&object, true)
	var read struct {
		Findings           []finding
		Warnings, Failures int
	}
	if err := json.Unmarshal(object.Bytes(), &read); err != nil || len(read.Findings) != 2 || read.Warnings != 1 ||
		read.Failures != 0 {
		t.Errorf("got %s, %v", object.String(), err)
	}
}

// TestBuiltinCommands: help and version become flags; doctor without a server has exit code 2.
func TestBuiltinCommands(t *testing.T) {
	for send, want := range map[string]string{
		"": "", "help": "--help", "version": "--version", "help run": "run --help", "help nope": "nope --help",
		"version now": "version now", "help --x": "help --x", "help run now": "help run now", "--max-ttl 5s": "--max-ttl 5s",
		"run --key a -- help": "run --key a -- help",
	} {
		t.Run(send, func(t *testing.T) {
			rest, _, done := builtin(t.Context(), strings.Fields(send), nil, os.Stdout, os.Stderr)
			if got := strings.Join(rest, " "); got != want || done {
				t.Errorf("%q: got %q, %v", send, got, done)
			}
		})
	}
	var out, errs bytes.Buffer
	if _, code, done := builtin(t.Context(), []string{"doctor"}, nil, &out, &errs); code != doctorSettings || !done {
		t.Errorf("doctor: code %d, %q", code, errs.String())
	}
	if _, code, done := builtin(t.Context(), []string{"help", "doctor"}, nil, &out, &errs); code != 0 || !done ||
		!strings.Contains(out.String(), "exit codes: 0 no failure") {
		t.Errorf("help doctor: code %d, %q", code, out.String())
	}
}
