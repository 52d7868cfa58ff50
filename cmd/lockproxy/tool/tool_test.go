package tool

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/conf"
	"lockproxy/resp/respio"
	"lockproxy/stat"
)

// TestNoNamesCollide: settings, the variables of subcommands, and subcommands all have different
// names.
func TestNoNamesCollide(t *testing.T) {
	taken := map[string]string{}
	for _, c := range Subcommands() {
		if taken[c.Name] != "" {
			t.Errorf("%s is there twice", c.Name)
		}
		taken[c.Name] = "a subcommand"
		if c.help == "" || c.Define == nil {
			t.Errorf("%s has no help or does nothing", c.Name)
		}
		if usage := c.usage(flagsOf(c)); !strings.Contains(usage, "usage: lockproxy "+c.Name) {
			t.Errorf("the help of %s begins %.60q", c.Name, usage)
		}
	}
	for _, s := range conf.Settings() {
		if taken[s.Name] != "" {
			t.Errorf("setting %s is %s as well", s.Name, taken[s.Name])
		}
		if slices.Contains(conf.ToolVariables, strings.TrimPrefix(s.Environment, "LOCKPROXY_")) {
			t.Errorf("%s is a variable of a subcommand and of setting %s", s.Environment, s.Name)
		}
	}
	for _, name := range conf.ToolVariables { // a command under lockproxy run may be a proxy
		if _, err := conf.Load(nil, []string{"LOCKPROXY_" + name + "=x"}); err != nil {
			t.Errorf("LOCKPROXY_%s: %v", name, err)
		}
	}
	if _, found := Run(t.Context(), []string{"--help"}, nil, nil, nil); found {
		t.Error("a flag is taken for a subcommand")
	}
}

func flagsOf(c Subcommand) *flag.FlagSet {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	c.Define(flags)
	return flags
}

func TestClientReadsReplies(t *testing.T) {
	for name, test := range map[string]struct {
		bytes string
		want  string
		ok    bool
	}{
		"status":        {"+OK\r\n", "+OK", true},
		"error":         {"-ERR x y\r\n", "-ERR x y", true},
		"bulk error":    {"!5\r\nERR x\r\n", "-ERR x", true},
		"number":        {":42\r\n", ":42", true},
		"bulk":          {"$5\r\na\r\nbc\r\n", "$a\r\nbc", true},
		"empty":         {"$0\r\n\r\n", "$", true},
		"null bulk":     {"$-1\r\n", "null", true},
		"null array":    {"*-1\r\n", "null", true},
		"null":          {"_\r\n", "null", true},
		"array":         {"*2\r\n:1\r\n$1\r\na\r\n", "*(:1 $a)", true},
		"map":           {"%1\r\n+a\r\n:1\r\n", "%(+a :1)", true},
		"push":          {">2\r\n+lock\r\n+lost\r\n", ">(+lock +lost)", true},
		"attribute":     {"|1\r\n+a\r\n:1\r\n+OK\r\n", "+OK", true},
		"no RESP":       {"HTTP/1.1 400\r\n", "", false},
		"empty line":    {"\r\n", "", false},
		"no number":     {"$x\r\n", "", false},
		"too long":      {"$99999999999\r\n", "", false},
		"too many":      {"*99999999\r\n", "", false},
		"too deep":      {strings.Repeat("*1\r\n", 20), "", false},
		"cut off":       {"*2\r\n:1\r\n", "", false},
		"a bulk cut of": {"$5\r\nab", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &client{replies: respio.NewReader(strings.NewReader(test.bytes), replyLimits)}
			r, err := c.next()
			if (err == nil) != test.ok || err == nil && show(r) != test.want {
				t.Errorf("got %q, %v", show(r), err)
			}
		})
	}
}

func show(r proxyReply) string {
	switch {
	case r.Null:
		return "null"
	case len(r.Elems) == 0:
		return string(r.Kind) + r.Scalar()
	}
	var list []string
	for _, entry := range r.Elems {
		list = append(list, show(entry))
	}
	return string(r.Kind) + "(" + strings.Join(list, " ") + ")"
}

// TestClientSkipsPushes: pushes before a reply are passed over, and when the context ends so does
// the waiting.
func TestClientSkipsPushes(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c := newClient(near, "proxy")
	go func() {
		buffer := make([]byte, 100)
		n, _ := far.Read(buffer)
		if got := string(buffer[:n]); got != "*2\r\n$4\r\nPING\r\n$2\r\n\r\n\r\n" {
			t.Errorf("it sent %q", got)
		}
		far.Write([]byte(">1\r\n+news\r\n+PONG\r\n"))
		far.Read(buffer) // and no answer
	}()
	if r, err := c.ask(t.Context(), "PING", "\r\n"); err != nil || r.Text != "PONG" {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.ask(ctx, "PING"); err == nil {
		t.Error("no answer is an answer")
	}
}

func TestPercentiles(t *testing.T) {
	var all []time.Duration
	for i := range 101 {
		all = append(all, time.Duration(100-i)*time.Millisecond)
	}
	if got := *percentilesOf(all); got != (percentiles{50_000, 90_000, 99_000, 100_000}) {
		t.Errorf("%+v", got)
	}
	if got := *percentilesOf(nil); got != (percentiles{}) {
		t.Errorf("of none: %+v", got)
	}
}

func TestShortTime(t *testing.T) {
	for millis, want := range map[int64]string{-1: "for ever", 0: "0.0s", 1234: "1.2s", 61_500: "61s", 3_600_000: "1h",
		5_400_000: "90m", 86_400_000: "24h", 300_000_000: "3d"} {
		t.Run(want, func(t *testing.T) {
			if got := shortTime(millis); got != want {
				t.Errorf("%d ms: %s, want %s", millis, got, want)
			}
		})
	}
}

// TestStatusShowsModeAndSlots: lockproxy status shows how a lock is held, and its slots. An older
// proxy sends neither.
func TestStatusShowsModeAndSlots(t *testing.T) {
	text := func(s string) proxyReply { return proxyReply{Kind: '$', Text: s} }
	list := func(all ...proxyReply) proxyReply { return proxyReply{Kind: '*', Elems: all} }
	slot := list(text("slot"), text("3"), text("fence"), text("7"), text("owner"), text("me"), text("ttl"), text("2500"))
	s := &statusResult{Masters: make([]stat.MasterReport, 3), Locks: []stat.Lock{
		lockOf(list(text("key"), text("old"), text("held"), text("3"))),
		lockOf(list(text("key"), text("slots?"), text("held"), text("2"), text("mode"), text("limit"), text("holders"),
			text("1"), text("slots"), list(slot))),
		lockOf(list(text("key"), text("k"), text("mode"), text("exclusive"), text("holders"), text("1"))),
	}}
	var b strings.Builder
	s.writeLocks(&b)
	want := "\nLOCK    KIND       HELD ON  LEFT  FENCE  WAITING  OWNER\n" +
		"old     -          3 of 3   0.0s  0      0\n" +
		"slots?  limit, 1   2 of 3   0.0s  0      0\n" +
		"        slot 3              2.5s  7               me\n" +
		"k       exclusive  0 of 3   0.0s  0      0\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// slowProxy answers as a proxy with three masters that vote, the last too late.
func slowProxy(t *testing.T, info string) *fakeProxy {
	f := startFake(t)
	master := func(address, reason string, late, slow int) string {
		return fmt.Sprintf("*10\r\n+address\r\n+%s\r\n+state\r\n+voting\r\n+reason\r\n+%s\r\n"+
			"+late\r\n:%d\r\n+slow_ms\r\n:%d\r\n", address, reason, late, slow)
	}
	f.says("PING", "+PONG\r\n")
	f.on("LOCKPROXY", func(args []string) string {
		switch args[1] {
		case "INFO":
			return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
		case "MASTERS":
			return "*3\r\n" + master("h:1", "", 0, 0) + master("h:2", "", 0, 0) +
				master("h:3", "answers in 62 ms, later than the majority needs", 9, 62)
		}
		return "*2\r\n$1\r\n0\r\n*0\r\n"
	})
	return f
}

// TestStatusWarnsOfLoad: a slow master is a warning, and so are LOCKs that wait and a late proxy.
func TestStatusWarnsOfLoad(t *testing.T) {
	f := slowProxy(t, "# Load\r\nlocks_unsent:8123\r\nlate_ms:2000\r\nlate_seconds_ago:12\r\n")
	var out strings.Builder
	if code, _ := Run(t.Context(), []string{"status", "--addr", f.addr}, nil, &out, &out); code != 0 {
		t.Errorf("ends with %d", code)
	}
	for _, want := range []string{"\nmasters   3 of 3 vote, 1 slow, 2 needed, none may fail\n",
		"answers in 62 ms, later than the majority needs\n",
		"\nlocks     8123 LOCKs wait until they can be sent to the masters\n",
		"\nlate      this proxy was late by 2 s, 12 s ago: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("status lacks %q:\n%s", want, &out)
		}
	}
	out.Reset()
	Run(t.Context(), []string{"status", "--json", "--addr", f.addr}, nil, &out, &out)
	var got statusResult
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || !got.Majority || got.Spare != 0 ||
		got.Lateness != "this proxy was late by 2 s, 12 s ago" ||
		len(got.Masters) != 3 || got.Masters[2].Slow != 62 || got.Masters[2].Late != 9 ||
		got.Info["locks_unsent"] != "8123" {
		t.Errorf("%v: %s", err, &out)
	}
}

// TestStatusColoursShowRisk: on a terminal slow masters, and the masters where none may fail, are
// amber.
func TestStatusColoursShowRisk(t *testing.T) {
	type masters = []stat.MasterReport
	voting := stat.MasterReport{Address: "h:1", State: "voting"}
	slow := stat.MasterReport{Address: "h:3", State: "voting", Slow: 62}
	down := stat.MasterReport{Address: "h:4", State: "down"}
	const amber, red = "\x1b[33m", "\x1b[31m"
	for _, tt := range []struct {
		masters masters
		line    string // of the votes
		last    string // the colour of the last master
	}{
		{masters{voting, voting, voting}, "masters   3 of 3 vote, 2 needed, 1 may fail\n", "\x1b[32m"},
		{masters{voting}, "masters   1 of 1 vote, 1 needed, none may fail\n", "\x1b[32m"},
		{masters{voting, voting, slow}, "masters   " + amber +
			"3 of 3 vote, 1 slow, 2 needed, none may fail\x1b[0m\n", amber},
		{masters{voting, voting, down}, "masters   " + amber + "2 of 3 vote, 2 needed, none may fail\x1b[0m\n", red},
		{masters{voting, down, down}, "masters   " + red + "1 of 3 vote, 2 needed\x1b[0m\n", red},
	} {
		t.Run(tt.line, func(t *testing.T) {
			s := &statusResult{Masters: tt.masters, votes: stat.CountReports(tt.masters)}
			last := tt.masters[len(tt.masters)-1]
			if text := s.text(true); !strings.Contains(text, tt.line) ||
				!strings.Contains(text, last.Address+"     "+tt.last+last.State) {
				t.Errorf("want %q, and the last master with %q:\n%q", tt.line, tt.last, text)
			}
		})
	}
}

// TestStatusAcceptsOlderProxy: a proxy that sends no load figures counts as neither late nor slow.
func TestStatusAcceptsOlderProxy(t *testing.T) {
	if got := latenessOf(map[string]string{"waiting": "0"}); got != "" {
		t.Errorf("late: %q", got)
	}
	m := stat.MasterReport{State: "voting"}
	if m.IsSlow() {
		t.Error("slow")
	}
}

// TestStatusExplainsMissingLocks: that no lock is shown does not mean that none is held.
func TestStatusExplainsMissingLocks(t *testing.T) {
	for want, s := range map[string]*statusResult{
		"\nno locks are held\n":                  {},
		"\nlocks are held; --locks shows them\n": {MoreLock: true},
	} {
		t.Run(want, func(t *testing.T) {
			var b strings.Builder
			if s.writeLocks(&b); b.String() != want {
				t.Errorf("got %q, want %q", b.String(), want)
			}
		})
	}
}

// TestHealthAcceptsUserWithoutPing: an upstream that refuses the PING of this user answers.
func TestHealthAcceptsUserWithoutPing(t *testing.T) {
	f := startFake(t)
	f.says("LOCKPROXY", "*1\r\n*2\r\n+state\r\n+voting\r\n")
	for reply, want := range map[string]int{
		"+PONG\r\n": 0,
		"-NOPERM this user has no permissions to run the 'ping' command\r\n": 0,
		"-NOAUTH Authentication required.\r\n":                               0,
		"-ERR upstream 127.0.0.1:1: connection refused\r\n":                  exitFailed,
	} {
		t.Run(reply, func(t *testing.T) {
			f.says("PING", reply)
			var out strings.Builder
			if code, _ := Run(t.Context(), []string{"health", "--ready", "--addr", f.addr}, nil, &out, &out); code != want {
				t.Errorf("%q: ends with %d, want %d: %s", reply, code, want, out.String())
			}
		})
	}
}

// TestReadyIsAboutTheRelay: --ready needs the upstream's answer, and --ready=locks a majority of
// the masters as well.
func TestReadyIsAboutTheRelay(t *testing.T) {
	f := startFake(t)
	f.says("LOCKPROXY", "*3\r\n*2\r\n+state\r\n+voting\r\n*2\r\n+state\r\n+down\r\n*2\r\n+state\r\n+refused\r\n")
	f.says("PING", "+PONG\r\n")
	for flags, want := range map[string]int{"--ready": 0, "--ready=true": 0, "--ready=locks": exitFailed,
		"--ready=false": 0, "": 0, "--ready=lock": exitUsage, "--ready locks": exitUsage} {
		t.Run(flags, func(t *testing.T) {
			args := append([]string{"health", "--addr", f.addr}, strings.Fields(flags)...)
			var out strings.Builder
			if code, _ := Run(t.Context(), args, nil, &out, &out); code != want {
				t.Errorf("ends with %d, want %d: %s", code, want, out.String())
			}
		})
	}
}

// TestWrongTargetIsAUsageError: wrong flags, including the flags that name the proxy, end each
// subcommand at once with 64.
func TestWrongTargetIsAUsageError(t *testing.T) {
	for _, target := range []string{"--addr=here", "--addr=127.0.0.1:1,", "--addr=127.0.0.1:1 --user=me",
		"--addr=127.0.0.1:1 --tls-ca=/ca.pem", "--addr=127.0.0.1:1 --tls-server-name=here",
		"--addr=rediss://127.0.0.1:1 --tls-cert=/cert.pem"} {
		t.Run(target, func(t *testing.T) {
			for _, command := range []string{"health", "health --ready", "status", "status --watch", "bench", "run --key=k"} {
				args := strings.Fields(command + " " + target)
				if strings.HasPrefix(command, "run") {
					args = append(args, "--", "true")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				var out strings.Builder
				if code, _ := Run(ctx, args, nil, &out, &out); code != exitUsage || ctx.Err() != nil {
					t.Errorf("%q: ends with %d: %s", args, code, out.String())
				}
				cancel()
			}
		})
	}
}

// TestNearestIsSuggested: an error about a command line writes flags in the form in which they are
// given.
func TestNearestIsSuggested(t *testing.T) {
	for args, want := range map[string]string{
		"stauts":             `lockproxy: unknown command "stauts": did you mean status? --help lists all`,
		"s3cret":             "lockproxy: the first argument is neither a flag nor a command; --help lists both",
		"status --wach":      "lockproxy status: unknown flag --wach: did you mean --watch? --help lists the flags",
		"status --nothing":   "lockproxy status: unknown flag --nothing; --help lists the flags",
		"health --timeout 5": `lockproxy health: --timeout: "5" has no unit; name a unit: 5ms, 5s; --help lists the flags`,
		"run --limit 0":      `lockproxy run: --limit: "0" must be from 1 to 128; --help lists the flags`,
		"health --addr here": `lockproxy health: --addr: "here" is not of the form host:port (IPv6 in brackets)`,
		"health --addr u:p@h": "lockproxy health: --addr: is not of the form host:port; credentials and database need " +
			"redis://",
	} {
		t.Run(args, func(t *testing.T) {
			var out strings.Builder
			if _, found := Run(t.Context(), strings.Fields(args), nil, &out, &out); !found ||
				strings.TrimSpace(out.String()) != want {
				t.Errorf("%s: got %q, want %q", args, out.String(), want)
			}
		})
	}
}
