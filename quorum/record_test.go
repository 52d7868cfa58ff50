package quorum

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestRecordText(t *testing.T) {
	for text, want := range map[string]record{
		"":                      {},
		"A run fp nonce":        {kind: recordVotes, runID: "run", fingerprint: "fp", nonce: "nonce"},
		"N run nonce":           {kind: recordOpening, runID: "run", nonce: "nonce"},
		"O fp":                  {kind: recordOff, fingerprint: "fp"},
		"Q run n 5000 - new -":  {kind: recordMark, runID: "run", nonce: "n", wait: 5 * time.Second, cause: "new"},
		"Q run n 0 ko moved fp": {kind: recordMark, runID: "run", nonce: "n", kept: true, override: true, cause: "moved", fingerprint: "fp"},
	} {
		got := parseRecord(text)
		if got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
		if again := got.String(); again != text {
			t.Errorf("%q is written as %q", text, again)
		}
	}
	for _, text := range []string{"A", "A run fp", "A run fp nonce more", "a run fp nonce", " ", "Q run n x - new -", "Q run n -5 - new -",
		"Q run n 99999999999999999999 - new -", "Q run n 9223372036854775807 - new -", "Q run n 1 - new", "Z", "N run", "O"} {
		if got := parseRecord(text); got.kind != recordUnknown {
			t.Errorf("%q: %+v, want unknown", text, got)
		}
	}
}

func TestSettingsDiffer(t *testing.T) {
	o := func(change func(*Options)) *Options {
		o := &Options{KeyPrefix: "lock:", MaxTTL: time.Minute, Fencing: true,
			Masters: []MasterOptions{{Addr: "b:1", Password: "secret"}, {Addr: "a:1", DB: 2}, {Addr: "c:1", ID: "m3"}}}
		change(o)
		return o
	}
	base := settingsOf(o(func(*Options) {}))
	if want := "format=1 max-ttl=60000ms fencing=on restart-guard=on key-prefix=lock%3A masters=a%3A1%2F2,b%3A1,m3"; base.String() != want {
		t.Errorf("%s, want %s", base, want)
	}
	if got := parseSettings(base.String()); got.maxTTL() != time.Minute || got.String() != base.String() {
		t.Errorf("read as %s, max-ttl %v", got, got.maxTTL())
	}
	same := map[string]func(*Options){
		"order":                   func(o *Options) { o.Masters[0], o.Masters[1] = o.Masters[1], o.Masters[0] },
		"password":                func(o *Options) { o.Masters[0].Password = "other" },
		"name":                    func(o *Options) { o.Masters[0].Name = "other" },
		"route to a named master": func(o *Options) { o.Masters[2].Addr = "d:1" },
		"timeout":                 func(o *Options) { o.MasterTimeout = time.Second },
		"strict":                  func(o *Options) { o.Guard = GuardStrict },
	}
	for what, change := range same {
		if got := settingsOf(o(change)).fingerprint(); got != base.fingerprint() {
			t.Errorf("another %s changes the fingerprint", what)
		}
	}
	differ := map[string]func(*Options){
		"max-ttl 60000ms (here 30000ms)":                         func(o *Options) { o.MaxTTL = 30 * time.Second },
		"fencing on (here off)":                                  func(o *Options) { o.Fencing = false },
		"restart-guard on (here off)":                            func(o *Options) { o.Guard = GuardOff },
		"key-prefix lock%3A (here x)":                            func(o *Options) { o.KeyPrefix = "x" },
		"another list of masters":                                func(o *Options) { o.Masters[1].DB = 0 },
		"max-ttl 60000ms (here 1000ms), another list of masters": func(o *Options) { o.MaxTTL, o.Masters = time.Second, o.Masters[:1] },
	}
	for want, change := range differ {
		ours := settingsOf(o(change))
		if ours.fingerprint() == base.fingerprint() {
			t.Errorf("%s: the same fingerprint", want)
		}
		if got := (&otherSettings{base, ours}).Error(); got != "belongs to proxies with "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (&otherSettings{parseSettings("junk"), base}).Error(); !strings.Contains(got, "another max-ttl") {
		t.Errorf("%q", got)
	}
}

func TestReasonOfQuarantine(t *testing.T) {
	now := time.Now()
	q := quarantine{cause: causeRestarted, since: now.Add(-17500 * time.Millisecond), until: now.Add(42500 * time.Millisecond)}
	if got := q.Error(); got != "restarted 17s ago, votes in 43s" {
		t.Errorf("%q", got)
	}
	q.until = now.Add(-time.Second)
	if got := q.Error(); got != "restarted 17s ago, votes in 0s" {
		t.Errorf("%q", got)
	}
}

// TestClockGuard: all answers of a clock that runs at up to 1% off agree, however long each took; a step of more than the tolerance
// does not hide behind an answer that took long.
func TestClockGuard(t *testing.T) {
	const second = time.Second
	var g clockGuard
	at := second
	ask := func(took, offset time.Duration) bool {
		sent := at
		at += took
		return g.stepped("run", sent, at, sent+took/2+offset)
	}
	offset := time.Hour
	if ask(time.Millisecond, offset) {
		t.Error("the first answer is a step")
	}
	for i := range 1000 {
		pause := time.Duration(i%7) * 100 * time.Millisecond
		at += pause
		offset += (pause + time.Millisecond) * 9 / 1000
		if ask(time.Duration(1+i%5)*time.Millisecond, offset) {
			t.Fatalf("answer %d of a fast clock is a step", i)
		}
	}
	if ask(10*second, offset) {
		t.Error("a slow answer is a step")
	}
	if !ask(time.Millisecond, offset-3*second) {
		t.Error("a step of 3s behind a slow answer is not seen")
	}
	if !ask(time.Millisecond, offset-3*second) {
		t.Error("a step is forgotten by itself")
	}
	g.forget()
	if ask(time.Millisecond, offset-3*second) {
		t.Error("after forget the first answer is a step")
	}
	if ask(time.Millisecond, offset-3*second+99*time.Millisecond) || !ask(time.Millisecond, offset-3*second+300*time.Millisecond) {
		t.Error("the tolerance is not 100ms")
	}
	if g.stepped("another run", 0, 0, 0) {
		t.Error("another run's clock is compared")
	}
}

func TestDescribe(t *testing.T) {
	aof := facts{version: "7.0.15", aof: true, asked: true, always: true, written: true, alone: true}
	for want, f := range map[string]facts{
		"every write is on disk before its reply": aof,
		"a restart may lose locks":                {version: "7.0.15"},
		"CONFIG GET is refused":                   {version: "7.0.15", aof: true, notAsked: true},
		"older than lockproxy is tested with":     {version: "5.0.14"},
		"may evict locks":                         {version: "8.2.0", limited: true, policy: "allkeys-lru"},
	} {
		core, logs := observer.New(zap.InfoLevel)
		l := &lane{names: []string{"m"}, enc: &encoder{}, log: zap.New(core), maxTTL: time.Minute}
		l.describe(&f)
		if len(logs.FilterMessageSnippet(want).All()) != 1 {
			t.Errorf("%+v: %v, want a line with %q", f, logs.All(), want)
		}
	}
	for _, spoil := range []func(*facts){
		func(f *facts) { f.aof = false }, func(f *facts) { f.asked = false }, func(f *facts) { f.always = false },
		func(f *facts) { f.written = false }, func(f *facts) { f.alone = false }, func(f *facts) { f.rewrites = true },
	} {
		f := aof
		if spoil(&f); f.durable() || !aof.durable() {
			t.Errorf("%+v is durable", f)
		}
	}
}
