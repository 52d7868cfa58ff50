package conf

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lockproxy.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t *testing.T, args, environ []string) Config {
	t.Helper()
	cfg, err := Load(args, environ)
	if err != nil {
		t.Fatalf("Load(%q, %q): %v", args, environ, err)
	}
	return cfg
}

func TestNothingSetIsTheDefaultAndEmbedded(t *testing.T) {
	cfg := mustLoad(t, nil, []string{"PATH=/bin", "LOCKPROXY_MASTERS="})
	if !reflect.DeepEqual(cfg, Default()) || !cfg.Embedded() {
		t.Errorf("got %+v, want the default, embedded", cfg)
	}
	if w := cfg.Warnings(); w != nil {
		t.Errorf("the embedded default warns: %q", w)
	}
}

func TestLaterSourcesWin(t *testing.T) {
	file := writeFile(t, "max-ttl: 20s\nmin-ttl: 1s\nmaster-timeout: 7ms\nfencing: off\nmasters:\n  - a:1\n  - b:2\n  "+
		"- c:3\n")
	environ := []string{"LOCKPROXY_CONFIG=" + file, "LOCKPROXY_MAX_TTL=30s", "LOCKPROXY_MIN_TTL=2s",
		"LOCKPROXY_ALLOW_OPEN=on"}
	cfg := mustLoad(t, []string{"--max-ttl", "40s", "--show-masters=false"}, environ)
	if cfg.MaxTTL != 40*time.Second || cfg.MinTTL != 2*time.Second || cfg.MasterTimeout != 7*time.Millisecond {
		t.Errorf("got max-ttl %s (flag 40s), min-ttl %s (environment 2s), master-timeout %s (file 7ms)",
			cfg.MaxTTL, cfg.MinTTL, cfg.MasterTimeout)
	}
	if cfg.Fencing || !cfg.AllowOpen || cfg.ShowMasters {
		t.Errorf("got fencing %v, allow-open %v, show-masters %v", cfg.Fencing, cfg.AllowOpen, cfg.ShowMasters)
	}
	if len(cfg.Masters) != 3 || cfg.Upstream.Name() != "a:1" || cfg.Embedded() {
		t.Errorf("got masters %v, upstream %v: want three, and the first as upstream", cfg.Masters, cfg.Upstream)
	}
	other := writeFile(t, "max-ttl: 50s\nembedded: true\n")
	if cfg := mustLoad(t, []string{"--config", other}, environ[:1]); cfg.MaxTTL != 50*time.Second ||
		len(cfg.Masters) != 0 {
		t.Errorf("--config does not take the place of LOCKPROXY_CONFIG: %v %v", cfg.MaxTTL, cfg.Masters)
	}
}

func TestUpstreamAloneIsTheMaster(t *testing.T) {
	cfg := mustLoad(t, []string{"--upstream=redis://u:p@h:1/2"}, nil)
	if len(cfg.Masters) != 1 || cfg.Masters[0] != cfg.Upstream {
		t.Errorf("got masters %#v, want the upstream alone", cfg.Masters)
	}
}

func TestWarnings(t *testing.T) {
	for args, want := range map[string][]string{
		"--upstream=h:1": {"one master: locks are lost with that server; three or five independent masters survive it"},
		"--masters=a:1,b:1,c:1,d:1 --restart-guard off": {"4 masters survive no more failures than 3 would: use an " +
			"odd number",
			"restart-guard off: a master that restarts without its data may grant a lock twice"},
		"--masters=a:1,b:1,c:1 --restart-guard strict": nil,
		"--masters=a:1,b:1,c:1 --allow-eviction": {"allow-eviction true: a master that is short of memory may drop " +
			"locks that are held"},
	} {
		t.Run(args, func(t *testing.T) {
			if got := mustLoad(t, strings.Fields(args), nil).Warnings(); !slices.Equal(got, want) {
				t.Errorf("%s: got warnings %q, want %q", args, got, want)
			}
		})
	}
}

// The name of a master is unique, and the upstream does not inherit it.
func TestMasterNamesAreUnique(t *testing.T) {
	file := writeFile(t, "masters: [m1@redis://u:hush@a:1, m2@b:1, m3@unix:///x]\n")
	cfg := mustLoad(t, []string{"--config", file}, nil)
	if cfg.Masters[0].ID != "m1" || cfg.Masters[2].Name() != "m3@unix:///x" || cfg.Upstream.ID != "" ||
		cfg.Upstream.Name() != "a:1" || cfg.Upstream.Password != "hush" {
		t.Errorf("got masters %#v, upstream %#v", cfg.Masters, cfg.Upstream)
	}
	if got := cfg.Values()["masters"]; got != "m1@a:1,m2@b:1,m3@unix:///x" {
		t.Errorf("the log says %s", got)
	}
}

// serverless adds to environ that servers in memory will do, unless args name others or a file.
func serverless(args, environ []string) []string {
	for _, name := range []string{"upstream=", "masters=", "--upstream ", "--masters ", "--config"} {
		if strings.Contains(strings.Join(args, " "), name) {
			return environ
		}
	}
	return append([]string{"LOCKPROXY_EMBEDDED=true"}, environ...)
}

// loadFault is a configuration with faults. want has all lines of the error, in any order.
type loadFault struct {
	args, environ []string
	file          string // the content of the file FILE; empty: no file
	want          []string
}

// Faults of flags and of the environment.
var loadFaults = map[string]loadFault{
	"all at once": {
		args: []string{"--max-ttl", "1m 0s", "--max-clients=0", "--fencing=maybe", "--log-level", "loud",
			"--masters", "a:1,,a:1,b", "--key-prefix", "lockproxy:x", "--master-timeout=0", "--queue-timeout=0"},
		environ: []string{"LOCKPROXY_MAX_TLL=1", "LOCKPROXY_DRAIN_TIMEOUT=-1s"},
		want: []string{
			`max-ttl: "1m 0s" is not a time: digits with ms, s, m or h, such as 500ms, 30s or 1m30s`,
			`max-clients 0 is under 1`,
			`fencing: "maybe" is not one of on, off, true, false`,
			`log-level: "loud" is not one of debug, info, warn, error`,
			`masters: entry 2 of 4: is empty`,
			`masters: entry 4 of 4: "b" is not of the form host:port (IPv6 in brackets)`,
			`key-prefix "lockproxy:x" begins with "lockproxy:", which is kept for lockproxy's own keys`,
			`master-timeout 0s is not positive`,
			`queue-timeout 0s is not positive`,
			`environment variable LOCKPROXY_MAX_TLL names no setting: did you mean LOCKPROXY_MAX_TTL?`,
			`drain-timeout (LOCKPROXY_DRAIN_TIMEOUT): "-1s" is not a time: digits with ms, s, m or h, such as 500ms, 30s or 1m30s`,
		}},
	"more than the system can watch": {
		args: []string{"--session-timeout", "19h"},
		want: []string{"session-timeout 19h exceeds 18h"}},
	"more than a year": {
		args: []string{"--max-ttl", "2562047h"},
		want: []string{"max-ttl 2562047h exceeds 8760h"}},
	"too many masters": {
		args: []string{"--masters", manyMasters(32)},
		want: []string{"masters: 32 are listed, at most 31 are allowed"}},
	"two that disagree": {
		args: []string{"--min-ttl", "2m", "--max-ttl=90s"},
		want: []string{"min-ttl 120s exceeds max-ttl 90s"}},
	"a fault hides what follows from it": {
		args: []string{"--min-ttl", "90s", "--max-ttl=2x"},
		want: []string{`max-ttl: "2x" is not a time: digits with ms, s, m or h, such as 500ms, 30s or 1m30s`}},
	"the same master twice": {
		args: []string{"--masters", "h:1,redis://u:p@H:1/3,h:2"},
		want: []string{"masters: h:1 is listed twice"}},
	"the same name twice, and the same server under two": {
		args: []string{"--masters", "m1@h:1,M1@h:2,m1@h:3,m4@h:2"},
		want: []string{"masters: m1@h:1 and m1@h:3 have the same name", "masters: m4@h:2 is listed twice"}},
	"names where there are none": {
		args: []string{"--upstream", "m1@h:1", "--listen=m1@127.0.0.1:1", "--masters", "m 1@h:1,m1@h"},
		want: []string{"upstream: has a name before '@', which only masters take; credentials need redis://",
			"listen: has a name before '@', which only masters take; credentials need redis://",
			"masters: entry 1 of 2: has a name before '@' that is not 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'",
			"masters: entry 2 of 2: is not of the form host:port (IPv6 in brackets)"}},
	"the lock listener, where the other is": {
		args: []string{"--listen=127.0.0.1:1", "--upstream=127.0.0.1:2", "--admin-listen=127.0.0.1:3",
			"--adopt-listen", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:3"},
		want: []string{"adopt-listen 127.0.0.1:1 is in listen, too", "adopt-listen: 127.0.0.1:3 is listed twice",
			"admin-listen 127.0.0.1:3 is in adopt-listen, too", "admin-listen 127.0.0.1:3 is in adopt-listen, too",
			"adopt-listen 127.0.0.1:2 is the upstream 127.0.0.1:2 itself"}},
	"settings of no lock listener": {
		args: []string{"--adopt-listen=off", "--adopt-keys", "job:*, a", "--adopt-ttl=30s"},
		want: []string{"adopt-keys job:*,a without adopt-listen", "adopt-ttl 30s without adopt-listen"}},
	"a lock listener's keys": {args: []string{"--adopt-listen=127.0.0.1:1", "--adopt-keys", "a,,b"},
		want: []string{"adopt-keys: has an empty pattern"}},
	"a lock listener's long key": {
		args: []string{"--adopt-listen=127.0.0.1:1", "--adopt-keys", "a," + strings.Repeat("b", 1025)},
		want: []string{"adopt-keys: has a pattern of 1025 bytes, more than 1024"}},
	"a lock listener's ttl": {
		args: []string{"--adopt-listen", "127.0.0.1:1", "--adopt-ttl", "61s"},
		want: []string{"adopt-ttl 61s exceeds max-ttl 60s"}},
	"a lock listener's short ttl": {
		args: []string{"--adopt-listen", "127.0.0.1:1", "--adopt-ttl", "9ms"},
		want: []string{"adopt-ttl 9ms is under min-ttl 10ms"}},
	"a lock listener's ttl of nothing": {
		args: []string{"--adopt-listen", "127.0.0.1:1", "--adopt-ttl", "0s"},
		want: []string{`adopt-ttl: "0s" is not positive: off for none`}},
	"a lock listener for everybody": {
		args: []string{"--adopt-listen", "rediss://0.0.0.0:6381", "--masters=redis://u:secret@h:1,h:2,h:3"},
		want: []string{"adopt-listen rediss://0.0.0.0:6381 lets other machines use the credentials in upstream h:1: listen " +
			"on loopback, take the credentials out of the address so that clients send their own AUTH, or set allow-open true",
			"adopt-listen: rediss://0.0.0.0:6381 needs tls-cert and tls-key"}},
	"empty masters": {
		args: []string{"--masters="}, want: []string{"masters: is empty"}},
	"the credentials for everybody": {
		args: []string{"--listen", "0.0.0.0:6380", "--masters=redis://u:secret@h:1,h:2,h:3"},
		want: []string{"listen 0.0.0.0:6380 lets other machines use the credentials in upstream h:1: listen on " +
			"loopback, take the " +
			"credentials out of the address so that clients send their own AUTH, or set allow-open true"}},
	"its own upstream": {
		args: []string{"--upstream", "127.0.0.1:6380"},
		want: []string{"listen 127.0.0.1:6380 is the upstream 127.0.0.1:6380 itself"}},
	"tls without a certificate": {
		args: []string{"--listen", "rediss://127.0.0.1:1", "--tls-key=k"},
		want: []string{"listen: rediss://127.0.0.1:1 needs tls-cert and tls-key",
			`tls-cert "" and tls-key "k": both or neither`}},
	"a path too long for a socket": {
		args: []string{"--listen", "unix:///" + strings.Repeat("s", 107)},
		want: []string{"listen: has a path of more than 107 bytes, which no Unix socket can have"}},
	"audit-log as a switch": {args: []string{"--audit-log=on"}, want: []string{
		"audit-log on: it is off, log or a file (./on for one of this name)"}},
	"listen twice": {
		args: []string{"--listen", "127.0.0.1:1,127.0.0.1:1"}, want: []string{"listen: 127.0.0.1:1 is listed twice"}},
	"flags": {
		args: []string{"--max-tll", "5s", "--min-ttl=1ms", "--min-ttl=2ms", "stray", "--listen"},
		want: []string{`unknown flag "max-tll": did you mean --max-ttl? --help lists all`, "--min-ttl is given twice",
			"argument 5 is not a flag; settings are given as --name value", "--listen needs a value"}},
	"flags: a switch with another word": {
		args: []string{"--fencing", "yes", "--lock-acl"},
		want: []string{`fencing: "yes" is not one of on, off, true, false`,
			"lock-acl on needs a real upstream: the embedded one has no users"}},
	"no servers": {args: []string{"--max-ttl", "30s"}, environ: []string{"LOCKPROXY_EMBEDDED=false"}, want: []string{
		"no server is named: set masters and upstream, or embedded true for servers in memory, to try lockproxy out"}},
	"both": {args: []string{"--embedded", "--upstream=h:1"},
		want: []string{"embedded true and upstream h:1: leave one of the two out"}},
	"in memory, for everybody": {args: []string{"--embedded", "--listen=0.0.0.0:1"}, want: []string{
		"listen 0.0.0.0:1 lets other machines use the servers in memory: listen on loopback, or set allow-open true"}},
	"the name of no file": {args: []string{"--config", ""}, want: []string{"--config needs a value"}},
	"no file": {args: []string{"--config", "/nonexistent/x"},
		want: []string{"config /nonexistent/x: no such file or directory"}},
}

// Faults of configuration files.
var fileFaults = map[string]loadFault{
	"file: unknown, repeated, empty, nested": {
		file: "max-tll: 5s\nmin-ttl: 1ms\nmin-ttl: 2ms\nmax-ttl:\nlisten: {a: b}\nfencing: [on]\nmasters: []\n",
		want: []string{`config FILE: line 1: unknown setting "max-tll": did you mean max-ttl?`,
			"config FILE: line 3: min-ttl is set twice",
			"max-ttl (config FILE line 4): has no value", "listen (config FILE line 5): is not a single value or a list",
			"fencing (config FILE line 6): takes one value, not a list", "masters (config FILE line 7): has no entries"}},
	"file: a list that does not end": {file: "# c\nmin-ttl: 1s\nlisten: [a\nmax-ttl: 5s\n",
		want: []string{"config FILE: line 3: did not find expected ',' or ']'"}},
	"file: a text that does not end": {file: "# c\nmin-ttl: 1s\nmax-ttl: \"5s\n",
		want: []string{"config FILE: line 3: found unexpected end of stream"}},
	"file: a list entry": {file: "# c\n# d\nmin-ttl: 1s\n- foo\nmax-ttl: 5s\n",
		want: []string{"config FILE: line 4: did not find expected key"}},
	"file: no colon": {file: "# c\nmin-ttl: 1s\nmax-ttl 5s\nmax-clients: 5\n",
		want: []string{"config FILE: line 3: could not find expected ':'"}},
	"file: an alias": {file: "min-ttl: 1s\nadmin-token: *a\n",
		want: []string{"config FILE: line 2: a value begins with '*' or '&', which YAML reads as an alias: put it " +
			"in quotes"}},
	"file: a list": {file: "- a\n", want: []string{"config FILE: not of the form name: value"}},
	"file: two of them": {file: "min-ttl: 1\n---\nmax-ttl: 2\n",
		want: []string{"config FILE: more than one document"}},
	"no servers in the file": {file: "max-ttl: 60\n", want: []string{
		`max-ttl (config FILE line 1): "60" has no unit; name a unit: 60ms, 60s`,
		"no server is named: set masters and upstream, or embedded true for servers in memory, to try lockproxy out"}},
	"an empty file": {file: "# nothing\n", want: []string{
		"no server is named: set masters and upstream, or embedded true for servers in memory, to try lockproxy out"}},
	"embedded with another word": {file: "embedded: yes\n",
		want: []string{`embedded (config FILE line 1): "yes" is not one of on, off, true, false`}},
	"file: patterns": {file: "adopt-listen: 127.0.0.1:1\nadopt-keys: [\"a,b\", c]\n",
		want: []string{`adopt-keys (config FILE line 2): has a comma in the pattern "a,b": write ? for it`,
			"no server is named: set masters and upstream, or embedded true for servers in memory, to try lockproxy out"}},
	"file: tags": {file: "key-prefix: !lock\nupstream: !!binary aDox\nmasters: [!a b]\nlog-level: !!str warn\n",
		want: []string{
			"key-prefix (config FILE line 1): begins with '!', which YAML reads as a tag: put it in quotes",
			"upstream (config FILE line 2): begins with '!', which YAML reads as a tag: put it in quotes",
			"masters (config FILE line 3): has an entry that begins with '!', which YAML reads as a tag: put it in quotes"}},
}

func TestLoadReportsEveryFault(t *testing.T) {
	for _, table := range []map[string]loadFault{loadFaults, fileFaults} {
		for name, c := range table {
			t.Run(name, c.check)
		}
	}
}

func (c loadFault) check(t *testing.T) {
	args, path := c.args, ""
	if c.file != "" {
		path = writeFile(t, c.file)
		args = []string{"--config", path}
	}
	_, err := Load(args, serverless(args, c.environ))
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	if path != "" {
		text = strings.ReplaceAll(text, path, "FILE")
	}
	lines := strings.Split(text, "\n")
	for _, want := range c.want {
		if i := slices.Index(lines, want); i >= 0 {
			lines[i] = ""
		} else {
			t.Errorf("missing: %s", want)
		}
	}
	if rest := strings.Join(strings.Fields(strings.Join(lines, "\n")), " "); rest != "" {
		t.Errorf("not expected: %s", rest)
	}
}

func TestPasswordsNeverInErrors(t *testing.T) {
	const secret = "s3cr3t"
	for _, text := range []string{
		"redis://:" + secret + "@:x", "redis://u:" + secret + "%zz@h:1", "redis://%zz:" + secret + "@h:1",
		"redis://u:" + secret + "/1@h:1", "redis://:" + secret,
		"redis://u:" + secret + "@h:99999", "redis://u:" + secret + "@h:1/x", "http://u:" + secret + "@h:1",
		"u:" + secret + "@h:1",
		"redis://" + secret + "@h:1", "unix://u:" + secret + "@/path", "redis://u:" + secret + "@h:1?db=2",
		"rediss://u:" + secret + "@[::1:1",
		"redis://u:" + secret + "#x@h:1,", secret,
	} {
		// the files of a subtest are in a folder with its name, which errors repeat
		t.Run(strings.NewReplacer(secret, "PASSWORD", "%zz", "%").Replace(text), func(t *testing.T) {
			for name, load := range map[string]func() error{
				"flag":        func() error { _, err := Load([]string{"--upstream", text}, nil); return err },
				"list":        func() error { _, err := Load([]string{"--masters=" + text}, nil); return err },
				"listen":      func() error { _, err := Load([]string{"--listen", text}, nil); return err },
				"unknown":     func() error { _, err := Load([]string{"--upstrem=" + text, "--" + text}, nil); return err },
				"argument":    func() error { _, err := Load([]string{text}, nil); return err },
				"environment": func() error { _, err := Load(nil, []string{"LOCKPROXY_UPSTREAM=" + text}); return err },
				"file": func() error {
					_, err := Load([]string{"--config", writeFile(t, "upstream: \""+text+"\"\n\""+text+"\": 1\n")}, nil)
					return err
				},
				"alias": func() error {
					_, err := Load([]string{"--config", writeFile(t, "upstream: *"+secret+"\n")}, nil)
					return err
				},
				"bare": func() error { _, err := Load([]string{"--config", writeFile(t, text+"\n")}, nil); return err },
			} {
				err := load()
				if err == nil {
					t.Errorf("%s %q: no error", name, text)
				} else if text != secret && strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "%zz") {
					t.Errorf("%s %q: %v", name, text, err)
				}
			}
		})
	}
}

func TestServiceLinksAreNotSettings(t *testing.T) {
	mustLoad(t, nil, []string{"LOCKPROXY_SERVICE_HOST=10.0.0.1", "LOCKPROXY_SERVICE_PORT=6380",
		"LOCKPROXY_SERVICE_PORT_REDIS=6380",
		"LOCKPROXY_PORT=tcp://10.0.0.1:6380", "LOCKPROXY_PORT_6380_TCP=tcp://10.0.0.1:6380",
		"LOCKPROXY_PORT_6380_TCP_ADDR=10.0.0.1",
		"LOCKPROXY_A_SERVICE_HOST=10.0.0.2"})
}

func TestFlagsChooseAction(t *testing.T) {
	for _, c := range []struct {
		args []string
		want Task
	}{
		{[]string{"--help", "--nonsense"}, Help}, {[]string{"-h"}, Help}, {[]string{"--version", "--help"}, Help},
		{[]string{"--check", "--version"}, Version}, {[]string{"--check"}, Check}, {nil, Run},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			if cfg := mustLoad(t, c.args, nil); cfg.Action != c.want {
				t.Errorf("%q: got action %d, want %d", c.args, cfg.Action, c.want)
			}
		})
	}
	if _, err := Load([]string{"--check", "--max-clients=0"}, nil); err == nil {
		t.Error("--check passes wrong settings")
	}
	if cfg := mustLoad(t, []string{"--allow-open", "--fencing", "off", "--embedded", "--check"}, nil); !cfg.AllowOpen ||
		cfg.Fencing || cfg.Action != Check {
		t.Errorf("booleans without '=': got %+v", cfg)
	}
}

func TestUsageNamesEverySetting(t *testing.T) {
	usage := Usage("words\n")
	for _, s := range Settings() {
		if s.Help == "" || s.Default == "" && s.Name != "key-prefix" {
			t.Errorf("%s: help %q, default %q", s.Name, s.Help, s.Default)
		}
		if !strings.Contains(usage, "--"+s.Name+" ") || !strings.Contains(usage, "(default: "+s.Default+")") {
			t.Errorf("--help lacks %s with default %s", s.Name, s.Default)
		}
	}
	if got := Settings()[6]; got.Name != "max-ttl" || got.Environment != "LOCKPROXY_MAX_TTL" || got.Default != "60s" {
		t.Errorf("got %+v", got)
	}
	for line := range strings.SplitSeq(usage, "\n") {
		if len(line) > 160 {
			t.Errorf("line of %d characters: %s", len(line), line)
		}
	}
}

func TestDefaultsAreValidAndReadable(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	defaults := Default()
	for _, s := range table {
		shown := s.valueOf(&defaults).String()
		if shown == "" {
			continue
		}
		cfg, defaults := Default(), defaults
		if s.name == "admin-listen" {
			defaults.AdminListen.Network = "off" // the demo has a page only if admin-listen is not set
		}
		if err := s.valueOf(&cfg).set(shown); err != nil {
			t.Errorf("%s does not read its own default %q: %v", s.name, shown, err)
		} else if !reflect.DeepEqual(cfg, defaults) {
			t.Errorf("%s: %q reads as something else", s.name, shown)
		}
	}
	if v := mustLoad(t, []string{"--upstream=redis://u:hush@h:1"}, nil).Values(); v["upstream"] != "h:1" ||
		v["max-ttl"] != "60s" {
		t.Errorf("got values %v", v)
	}
	changed := mustLoad(t, []string{"--masters=redis://u:hush@h:1", "--max-ttl=60000ms", "--min-ttl=1s"}, nil).Changed()
	want := map[string]string{"upstream": "h:1", "masters": "h:1", "min-ttl": "1s"}
	if !reflect.DeepEqual(changed, want) || len(Default().Changed()) > 0 {
		t.Errorf("changed %v, want %v", changed, want)
	}
}

// manyMasters returns a list of n different masters.
func manyMasters(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("a:%d", i+1))
	}
	return strings.Join(list, ",")
}
