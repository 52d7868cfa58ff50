package tool

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/stat"
)

// answerOf is a proxy's answer about a lock of fence 7.
func answerOf(name string, change func(*stat.Why)) whyAnswer {
	a := whyAnswer{Proxy: name, at: time.UnixMilli(1000), why: stat.Why{Key: "job", Asked: name, Quorum: true,
		Mode:  "exclusive",
		Fence: 7, Owner: "me", Held: 2, Masters: 3, Seen: 3, Holders: 1, TTL: 9000,
		Advice: []string{"advice of " + name}}}
	change(&a.why)
	return a
}

// TestMergeWhy: the best answer counts, and the others add the grant, waiters and earlier holders
// that only they know, each proxy once.
func TestMergeWhy(t *testing.T) {
	minority := answerOf("minority", func(w *stat.Why) {
		w.Quorum = false
		w.Waiting = 1
		w.Waiters = []stat.WhyWaiter{{Place: 1, Label: "w1", Age: 300}}
	})
	minority.at = time.UnixMilli(500) // half a second before the others
	limited := answerOf("limited", func(w *stat.Why) { w.Owner, w.Waiting = "other", 2 })
	limited.Limited = "NOPERM"
	best := answerOf("best", func(w *stat.Why) { w.Last = []stat.WhyHolder{{Fence: 5, Since: 10}} })
	granted := answerOf("granted", func(w *stat.Why) {
		w.Since, w.Granted, w.Client, w.Proxy = 900, 30_000, "10.0.0.9:7", "granted"
		w.Waiting, w.Waiters = 1, []stat.WhyWaiter{{Place: 1, Label: "w2", Age: 700}}
		w.Last = []stat.WhyHolder{{Fence: 6, Since: 20}}
	})
	older := answerOf("older", func(w *stat.Why) { w.Fence, w.Since = 3, 1 })
	dead := whyAnswer{Proxy: "dead", Error: "refused", err: errors.New("refused")}
	r, ok := mergeWhy([]whyAnswer{dead, limited, minority, best, older, granted, granted},
		time.UnixMilli(1000))
	if !ok || r.Asked != "best" || r.Since != 900 || r.Granted != 30_000 || r.Client != "10.0.0.9:7" ||
		r.Proxy != "granted" {
		t.Errorf("%+v", r.Why)
	}
	if fmt.Sprint(r.Waiters) != fmt.Sprint([]stat.WhyWaiter{{Place: 1, Label: "w1", Age: 800, Proxy: "minority"},
		{Place: 1, Label: "w2", Age: 700, Proxy: "granted"}}) || r.Waiting != 2 {
		t.Errorf("%d waiters: %+v", r.Waiting, r.Waiters)
	}
	if len(r.Last) != 2 || r.Last[0].Fence != 6 || r.Last[0].Proxy != "granted" || r.Last[1].Proxy != "best" {
		t.Errorf("before: %+v", r.Last)
	}
	if text, err := json.Marshal(&r); err != nil || !strings.Contains(string(text),
		`"proxies":[{"proxy":"dead","error":"refused"},`) ||
		!strings.HasPrefix(string(text), `{"key":"job",`) {
		t.Errorf("%s, %v", text, err)
	}
	if _, ok := mergeWhy([]whyAnswer{dead}, time.Now()); ok {
		t.Error("no answer is an answer")
	}
	uncertain := answerOf("uncertain", func(w *stat.Why) { w.Error = "NOQUORUM" })
	if r, _ := mergeWhy([]whyAnswer{uncertain, best}, time.Now()); r.Asked != best.why.Asked {
		t.Errorf("got the answer of %q, want the certain one of %q", r.Asked, best.why.Asked)
	}
	if r, _ := mergeWhy([]whyAnswer{limited, minority}, time.Now()); r.Asked != "minority" {
		t.Errorf("%+v; LOCKINFO alone is the last choice", r.Why)
	}
}

// TestMergeWhyCountsDown: times in the report are as of its printing, however long a silent proxy
// was waited for.
func TestMergeWhyCountsDown(t *testing.T) {
	a := answerOf("p", func(w *stat.Why) {
		w.Voters = []stat.WhyMaster{{Holds: true, Answered: true, TTL: 9000}, {Holds: true, Answered: true, TTL: -1}}
		w.Slots = []stat.WhySlot{{TTL: 9000}, {TTL: 10}}
		w.Waiters, w.Waiting = []stat.WhyWaiter{{Age: 300}}, 1
	})
	r, _ := mergeWhy([]whyAnswer{a}, a.at.Add(4*time.Second))
	if r.TTL != 5000 || r.Voters[0].TTL != 5000 || r.Voters[1].TTL != -1 || r.Slots[0].TTL != 5000 ||
		r.Slots[1].TTL != 0 || r.Waiters[0].Age != 4300 {
		t.Errorf("%+v", r.Why)
	}
	if a.why.Voters[0].TTL != 9000 {
		t.Error("the answer of the proxy was changed")
	}
	if text := r.text(time.Now()); !strings.Contains(text, "5.0s, if it was not extended in the last 4.0s") {
		t.Errorf("got\n%s", text)
	}
	if r, _ := mergeWhy([]whyAnswer{a}, a.at); strings.Contains(r.text(time.Now()), "if it was not") {
		t.Error("a fresh answer is called old")
	}
}

// votersOf sets the masters of an answer. A name with a mark did not answer.
func votersOf(names ...string) func(*stat.Why) {
	return func(w *stat.Why) {
		w.Seen = 0
		for _, name := range names {
			name, silent := strings.CutSuffix(name, "!")
			w.Voters = append(w.Voters, stat.WhyMaster{Master: name, Answered: !silent})
			if !silent {
				w.Seen++
			}
		}
	}
}

// TestProxiesDisagree: the report says which proxy says what about the holder and about the
// masters.
func TestProxiesDisagree(t *testing.T) {
	mode := func(mode string) func(*stat.Why) { return func(w *stat.Why) { w.Mode = mode } }
	same := mode("exclusive")
	another := func(w *stat.Why) { w.Owner, w.Fence = "you", 8 }
	unknown := func(w *stat.Why) { w.Mode, w.Error = "", "NOQUORUM" }
	for name, tt := range map[string]struct {
		a, b func(*stat.Why)
		want string
	}{
		"agreed": {same, same, ""},
		"free": {same, mode(""),
			"the proxies disagree about the holder, or it has just changed: a, limited: held by me, fence 7; b: not held"},
		"another": {same, another, "a, limited: held by me, fence 7; b: held by you, fence 8"},
		"foreign": {mode("kept"), mode("foreign"),
			"a: kept closed; b: another program's key; limited: held by me, fence 7"},
		"unknown":       {same, unknown, ""},
		"masters known": {same, votersOf("m1", "m2"), ""},
		"other masters": {votersOf("x@m1", "m2"), votersOf("m3", "m1"),
			"the proxies disagree about the masters: a: asks m1, m2; b: asks m1, m3"},
		"another order": {votersOf("x@m1", "m2"), votersOf("m2", "m1"), ""},
		"a silent one":  {votersOf("m1", "m2!", "m3"), votersOf("m1", "m2", "m3"), "a: no answer of m2; b: 3 of 3 answer"},
		"hidden":        {votersOf("master 1", "master 2", "master 3"), votersOf("m1", "m2", "m3"), ""},
		"hidden, fewer": {votersOf("master 1", "master 2!", "master 3"), votersOf("m1", "m2", "m3"),
			"a: 2 of 3 answer; b: 3 of 3 answer"},
	} {
		t.Run(name, func(t *testing.T) {
			limited := answerOf("limited", same)
			limited.Limited = "NOPERM"
			r, _ := mergeWhy([]whyAnswer{limited, answerOf("a", tt.a), answerOf("b", tt.b)}, time.UnixMilli(1000))
			got, text := strings.Join(r.Disagree, "\n"), r.text(time.Now())
			if (got == "") != (tt.want == "") || !strings.HasSuffix(got, tt.want) || !strings.Contains(text, got) ||
				strings.Contains(got, "\n") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestWhyNamesTheRest: at its end the report names silent and limited proxies.
func TestWhyNamesTheRest(t *testing.T) {
	lone := answerOf("lone", func(w *stat.Why) { w.Quorum = false })
	lone.NoQuorum = "NOQUORUM 1 of 3 masters can vote"
	limited := answerOf("limited", func(w *stat.Why) { w.Waiting = 2 })
	limited.Limited = "NOPERM no right"
	r, _ := mergeWhy([]whyAnswer{answerOf("best", func(*stat.Why) {}), lone, limited}, time.UnixMilli(1000))
	text := r.text(time.Now())
	for _, want := range []string{"\nno client waits at the proxies that answered in full\n",
		"\nproxy lone: NOQUORUM 1 of 3 masters can vote\n",
		"\nproxy limited says only who holds the lock, and that 2 wait there: NOPERM no right\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	lone.why.Error = lone.NoQuorum
	if r, _ = mergeWhy([]whyAnswer{lone, limited}, time.UnixMilli(1000)); strings.Contains(r.text(time.Now()), "lone:") {
		t.Error("the report itself has no quorum, and its proxy is named again")
	}
}

// TestHealthNamesSilence: health says which command had no answer, within which time.
func TestHealthNamesSilence(t *testing.T) {
	f := startFake(t)
	health := func(args ...string) string {
		var out strings.Builder
		args = append([]string{"health", "--addr", f.addr, "--timeout", "50ms"}, args...)
		if code, _ := Run(t.Context(), args, nil, &out, &out); code != exitUnavailable {
			t.Errorf("ends with %d: %s", code, out.String())
		}
		return strings.TrimPrefix(out.String(), "lockproxy health: ")
	}
	f.says("LOCKPROXY", silence)
	if got := health(); got != "no answer to LOCKPROXY HELP in 50ms\n" {
		t.Errorf("got %q", got)
	}
	if got := health("--ready"); got != "no answer to LOCKPROXY MASTERS in 50ms\n" {
		t.Errorf("got %q", got)
	}
	f.says("LOCKPROXY", "*0\r\n")
	f.says("PING", silence)
	if got := health("--ready"); got != "no answer to PING in 50ms\n" {
		t.Errorf("got %q", got)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.says("AUTH", silence)
	if got := health("--ready", "--password-file", password); got != f.addr+": no answer to AUTH in 50ms\n" {
		t.Errorf("got %q", got)
	}
}

// TestWhyText: the text names holder, masters, waiters, earlier holders, advice and silent
// proxies.
func TestWhyText(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*stat.Why)
		want   []string
	}{
		{"held", func(w *stat.Why) {
			w.Client, w.Since, w.Granted, w.Proxy = "10.0.0.9:7", time.Now().Add(-time.Minute).UnixMilli(), 30_000,
				"p2"
			w.Voters = []stat.WhyMaster{{Master: "m1", Holds: true, Answered: true, TTL: 9000},
				{Master: "m2", Error: "refused the connection"}, {Master: "m3", Answered: true, Other: "foreign",
					Type: "hash", TTL: -1}, {Master: "m4", Answered: true}}
			w.Waiting, w.Waiters = 3, []stat.WhyWaiter{{Place: 1, Label: "w\x1b1", Address: "10.0.0.8:1", Age: 1200,
				Mode: "shared"}}
			w.Last = []stat.WhyHolder{{Fence: 6, Owner: "before", Since: 1000, Until: 2000}}
		}, []string{"job is held by me at 10.0.0.9:7\n", "for 60s", "9.0s, of a ttl of 30s", "m1 has it, left 9.0s",
			"m2 did not answer: refused",
			"m3 has something else (foreign hash), left for ever", "m4 does not have it", "3 waiting", `w\x1b1`,
			"and 2 more", "before", "what to do\n  advice of p"}},
		{"free", func(w *stat.Why) { w.Mode, w.Held, w.Holders = "", 0, 0 }, []string{"job is free\n",
			"no client waits at the proxies that answered\n"}},
		{"blocked", func(w *stat.Why) {
			w.Mode, w.Held, w.Holders, w.Blocked = "", 0, 0, true
			w.Voters = []stat.WhyMaster{{Other: "foreign"}, {Other: "exclusive"}, {}}
		}, []string{
			"job is not held, but no majority of the masters is free for LOCK: 2 of 3 have other keys of this name\n"}},
		{"several", func(w *stat.Why) { w.Mode, w.Holders = "shared", 3 },
			[]string{"job is held by 3 clients, the latest me\n", "--proxies asks others"}},
		{"kept", func(w *stat.Why) { w.Mode = "kept" }, []string{"job is kept closed\n", "held before by"}},
		{"foreign", func(w *stat.Why) { w.Mode, w.Type, w.TTL = "foreign", "hash", -1 },
			[]string{"job is not a lock: a key of type hash is in the way\n", "for ever"}},
		{"minority", func(w *stat.Why) { w.Quorum, w.Seen, w.Error = false, 1, "NOQUORUM 1 of 3" },
			[]string{"job may be held by me, seen on 2 of 3 masters\n", "no quorum   1 of 3"}},
		{"no majority agrees", func(w *stat.Why) { w.Mode, w.Error = "kept", "NOQUORUM 3 of 3" },
			[]string{"job may be kept closed, seen on 2 of 3 masters\n", "uncertain       3 of 3"}},
		{"nothing seen", func(w *stat.Why) { w.Quorum, w.Seen, w.Mode = false, 1, "" },
			[]string{"job: not known whether it is held, 1 of 3 masters answer\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := mergeWhy([]whyAnswer{answerOf("p", tt.change), {Proxy: "p3", Error: "no answer in 4s",
				err: errors.New("")}}, time.UnixMilli(1000))
			text := r.text(time.Now())
			for _, want := range append(tt.want, "proxy p3: no answer in 4s") {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			if strings.Contains(text, "\x1b") {
				t.Errorf("control characters in %q", text)
			}
		})
	}
}

// TestWhyAsksPages: the token reaches the page, errors name their cause, and exit codes differ.
func TestWhyAsksPages(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.FormValue("key") == "old":
			http.NotFound(w, r)
		case r.FormValue("key") == "odd":
			fmt.Fprint(w, "hello")
		case r.FormValue("key") == "json":
			fmt.Fprint(w, `{"status":"ok","quorum":true}`)
		case r.URL.Path != "/why" || r.Header.Get("Authorization") != "Bearer secret":
			http.Error(w, "the admin-token is missing or wrong", http.StatusUnauthorized)
		default:
			key := r.FormValue("key")
			json.NewEncoder(w).Encode(stat.Why{Key: key, Hex: hex.EncodeToString([]byte(key)), Quorum: key != "lost"})
		}
	}))
	defer page.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"job": {exitDenied, "(--admin-token-file)"}, "--admin-token-file " + token + " job": {0, "job is free"},
		"a&b --json --admin-token-file " + token: {0, `{"key":"a\u0026b"`},
		"lost --admin-token-file " + token:       {exitFailed, "not known whether it is held"},
		"old":                                    {exitUnavailable, "too old"}, "odd": {exitUnavailable,
			"is not a lockproxy: its answer is not that of /why"},
		"json":                                  {exitUnavailable, "is not a lockproxy: its answer is not that of /why"},
		"job --admin-token-file /nowhere/token": {exitUsage, "--admin-token-file: "},
		"job --proxie x":                        {exitUsage, "did you mean --proxies?"},
		"job other":                             {exitUsage, "needs one key"},
		"":                                      {exitUsage, "needs one key"},
		"--proxies here job":                    {exitUsage, `--proxies: "here" is not of the form`},
	} {
		t.Run(args, func(t *testing.T) {
			all := append([]string{"why", "--addr", "127.0.0.1:1", "--proxies", page.Listener.Addr().String()},
				strings.Fields(args)...)
			var out strings.Builder
			if code, _ := Run(t.Context(), all, nil, &out, &out); code != want.code ||
				!strings.Contains(out.String(), want.text) {
				t.Errorf("ends with %d: %s\nwant %d and %q", code, out.String(), want.code, want.text)
			}
		})
	}
}

// TestWhyGoesBackToLockinfo: a proxy that refuses LOCKPROXY WHY, or does not know it, is asked by
// LOCKINFO.
func TestWhyGoesBackToLockinfo(t *testing.T) {
	f := startFake(t)
	for why, refusal := range map[string]string{
		"without admin-commands": "NOPERM LOCKPROXY WHY needs admin-commands: on",
		"of an older proxy":      "ERR unknown subcommand 'WHY'. Try LOCKPROXY HELP.",
	} {
		f.says("LOCKPROXY", "-"+refusal+"\r\n")
		for name, tt := range map[string]struct {
			reply string
			code  int
			text  string
		}{
			"key that is no lock": {"*18\r\n+held\r\n:3\r\n+masters\r\n:5\r\n+ttl\r\n:-1\r\n+fence\r\n:0\r\n+owner\r\n+\r\n+waiting\r\n:2\r\n+mode\r\n+foreign\r\n+holders\r\n:0\r\n+type\r\n+hash\r\n",
				0, "job is not a lock: a key of type hash"},
			"free": {"$-1\r\n", 0, "job is not held\n"},
			"too few vote": {"-NOQUORUM 2 of 5 masters can vote, 3 needed; seen on 2 of 5: exclusive\r\n", exitFailed,
				"job: not known whether it is held, 2 of 5 masters answer\n  no quorum  2 of 5 masters can vote, " +
					"3 needed; seen on 2 of 5: exclusive\n\nno client waits at the proxies that answered\n\n" +
					"what to do\n  No lock can be granted"},
			"masters disagree": {"-NOQUORUM 4 of 5 masters can vote, but no majority agrees\r\n", 0,
				"not known whether it is held, 4 of 5 masters answer\n  uncertain  4 of 5"},
			"no right to the key": {"-NOPERM no right\r\n", exitDenied, "no right"},
		} {
			t.Run(why+"/"+name, func(t *testing.T) {
				f.says("LOCKINFO", tt.reply)
				var out strings.Builder
				code, _ := Run(t.Context(), []string{"why", "--addr", f.addr, "job"}, nil, &out, &out)
				if text := out.String(); code != tt.code || !strings.Contains(text, tt.text) ||
					code != exitDenied && !strings.Contains(text, "says only who holds the lock: "+refusal) {
					t.Errorf("ends with %d: %s", code, text)
				}
			})
		}
	}
	var out strings.Builder
	f.says("LOCKPROXY", "-ERR unknown command 'LOCKPROXY'\r\n")
	if code, _ := Run(t.Context(), []string{"why", "--addr", f.addr, "--proxies", f.addr, "job"}, nil, &out,
		&out); code != exitUnavailable || !strings.Contains(out.String(), ": is not a lockproxy: ERR unknown") ||
		!strings.Contains(out.String(), "it is not the admin-listen of a lockproxy") {
		t.Errorf("a plain Redis: ends with %d: %s", code, out.String())
	}
	f.says("LOCKPROXY", "-ERR invalid key: it is longer than 1024 bytes\r\n")
	out.Reset()
	if code, _ := Run(t.Context(), []string{"why", "--addr", f.addr, "job"}, nil, &out, &out); code != exitUsage {
		t.Errorf("an invalid key: ends with %d: %s", code, out.String())
	}
}
