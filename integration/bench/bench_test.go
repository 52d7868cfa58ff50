package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseFigures(t *testing.T) {
	const head = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n"
	got, err := parseFigures([]byte("WARNING: Could not fetch server CONFIG\n" + head +
		`"GET","1234.50","0.9","0.1","0.127","0.2","1.503","9.0"` + "\n"))
	want := figures{rate: 1234.5, p50: 127 * time.Microsecond, p99: 1503 * time.Microsecond}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, text := range []string{"", head, head + `"GET","0.00","0","0","0","0","0","0"` + "\n", "Error from server\n"} {
		if got, err := parseFigures([]byte(text)); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
		}
	}
}

func TestSeries(t *testing.T) {
	for _, tt := range []struct {
		s      series
		median float64
		shown  string
	}{
		{series{3, 1, 2}, 2, "2 (1-3)"},
		{series{4, 1, 2, 3}, 2.5, "2 (1-4)"},
		{series{7}, 7, "7"},
		{series{math.NaN(), 5, 1, 3}, 3, "3 (1-5)"},
	} {
		t.Run(fmt.Sprint(tt.s), func(t *testing.T) {
			if got, shown := tt.s.median(), tt.s.show(whole); got != tt.median || shown != tt.shown {
				t.Errorf("%v, %q; want %v, %q", got, shown, tt.median, tt.shown)
			}
		})
	}
	hundred := make(series, 100)
	for i := range hundred {
		hundred[i] = float64(i)
	}
	if got, want := hundred.showInterval(whole), "50 (40-60)"; got != want {
		t.Errorf("interval of 0 to 99: %s, want %s", got, want)
	}
	if none := (series{}); !math.IsNaN(none.median()) || none.show(whole) != "-" {
		t.Errorf("nothing: %v, %q", none.median(), none.show(whole))
	}
	if got := (series{2, 9, 8}).over(series{1, 3, 2}); got.median() != 3 || len(got) != 3 {
		t.Errorf("ratios %v, want 2, 3 and 4, round by round", got)
	}
}

func TestGoals(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  verdict
		want verdict
	}{
		{"reached", atLeast(1, series{0.5, 1, 2}, series{1.5}), met},
		{"one of two", atLeast(1, series{0.9}, series{1.5}), "**1 of 2 met**"},
		{"over the limit", atMost(1.2, series{1.3, 1.25, 1.1}), missed},
		{"nothing measured", atMost(1.2), missed},
		{"no figure", atLeast(1, series{}), missed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("%q, want %q", tt.got, tt.want)
			}
		})
	}
}

func TestErrorKinds(t *testing.T) {
	for text, want := range map[string]string{
		`LOCK: "-TRYAGAIN the masters are busy: 8123 commands wait\r\n"`: "LOCK: -TRYAGAIN the masters are busy: N commands wait",
		`LOCK: "-NOQUORUM 2 of 5 masters can vote, 3 needed: 127.0.0.1:4001 gave no answer in 50ms; ` +
			`127.0.0.1:4002 has 4096 commands unanswered; 127.0.0.1:4003 gave no answer in 50ms\r\n"`: "LOCK: -NOQUORUM gave no answer in Nms; has N commands unanswered",
		`UNLOCK: ":0\r\n"`: "UNLOCK: :N",
	} {
		if got := errorKind(errors.New(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := kindsOf(map[string]int{"a": 1, "b": 3, "c": 2}, 2); got != "3 b; 2 c; 1 more kind" {
		t.Errorf("got %q", got)
	}
}

func TestOptions(t *testing.T) {
	env := map[string]string{"BENCH_LOCKPROXY": "x", "BENCH_ONLY": "relay,wait", "BENCH_CASES": "get64-p16",
		"BENCH_QUICK": "1", "BENCH_ROUNDS": "3"}
	o, err := readOptions(func(name string) string { return env[name] })
	if err != nil || o.rounds != 3 || o.span != 500*time.Millisecond || !o.runs("wait") || o.runs("locks") ||
		!o.wants("haproxy") {
		t.Errorf("%+v, %v", o, err)
	}
	var kept []string
	for _, c := range relayCases() {
		if o.wantsCase(c.name()) {
			kept = append(kept, c.name())
		}
	}
	if len(kept) != 1 || kept[0] != "get64-p16" {
		t.Errorf("cases %q", kept)
	}
	env = map[string]string{"BENCH_ONLY": "relays", "BENCH_ROUNDS": "0", "BENCH_SECONDS": "x"}
	_, err = readOptions(func(name string) string { return env[name] })
	for _, name := range []string{"BENCH_ONLY", "BENCH_ROUNDS", "BENCH_SECONDS", "BENCH_LOCKPROXY"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
}
