package quorum

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/master"
)

func TestMajority(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		if got := majority(n); got != want {
			t.Errorf("majority(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestValidity(t *testing.T) {
	for _, c := range []struct{ ttl, elapsed, want time.Duration }{
		{10 * time.Second, 0, 10*time.Second - 102*time.Millisecond},
		{10 * time.Second, 50 * time.Millisecond, 10*time.Second - 152*time.Millisecond},
		{10 * time.Millisecond, 0, 7900 * time.Microsecond},
		{2 * time.Millisecond, 0, -20 * time.Microsecond},
		{time.Second, time.Second, -12 * time.Millisecond},
	} {
		if got := validity(c.ttl, c.elapsed, drift(c.ttl)); got != c.want {
			t.Errorf("ttl %v, elapsed %v: %v, want %v", c.ttl, c.elapsed, got, c.want)
		}
	}
}

func TestAttemptTime(t *testing.T) {
	for _, c := range []struct{ ttl, want time.Duration }{
		{time.Minute, time.Second},
		{4 * time.Second, time.Second},
		{time.Second, 250 * time.Millisecond},
		{10 * time.Millisecond, 2500 * time.Microsecond},
		{time.Millisecond, 2 * time.Millisecond},
	} {
		if got := attemptTime(c.ttl); got != c.want {
			t.Errorf("ttl %v: %v, want %v", c.ttl, got, c.want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	for _, c := range []struct {
		elapsed time.Duration
		retry   int
		random  float64
		want    time.Duration
	}{
		{0, 0, 0, time.Millisecond},
		{0, 0, 0.5, 2 * time.Millisecond},
		{4 * time.Millisecond, 0, 0, 4 * time.Millisecond},
		{4 * time.Millisecond, 1, 0.5, 16 * time.Millisecond},
		{time.Millisecond, 3, 0.999, 23984 * time.Microsecond},
		{30 * time.Millisecond, 3, 0, 50 * time.Millisecond},
	} {
		if got := retryDelay(c.elapsed, c.retry, c.random); got.Round(time.Microsecond) != c.want {
			t.Errorf("%v, retry %d, random %v: %v, want %v", c.elapsed, c.retry, c.random, got, c.want)
		}
	}
}

func TestDecideAcquire(t *testing.T) {
	for _, c := range []struct {
		name string
		t    tally
		now  verdict
		end  verdict // at the deadline
	}{
		{"nothing yet", tally{pending: 5}, open, noQuorum},
		{"three of five", tally{yes: 3, pending: 2}, won, won},
		{"two of three", tally{yes: 2, pending: 1}, won, won},
		{"two of four is no majority", tally{yes: 2, no: 2}, split, split},
		{"three of four", tally{yes: 3, no: 1}, won, won},
		{"can still win", tally{yes: 1, no: 2, pending: 2}, open, split},
		{"a majority refused", tally{no: 3, pending: 2}, held, held},
		{"a majority refused, one granted", tally{yes: 1, no: 3, pending: 1}, held, held},
		{"split with one down", tally{yes: 2, no: 2, none: 1}, split, split},
		{"one of three each, one silent", tally{yes: 1, no: 1, pending: 1}, open, split},
		{"two down, one refused, two pending", tally{no: 1, none: 2, pending: 2}, open, noQuorum},
		{"a majority down, the rest pending", tally{none: 3, pending: 2}, open, noQuorum},
		{"a majority down, the rest granted", tally{none: 3, yes: 2}, noQuorum, noQuorum},
		{"a majority down, the rest refused", tally{none: 3, no: 2}, noQuorum, noQuorum},
		{"script lost", tally{none: 2, askAgain: 2, pending: 1}, again, again},
		{"script lost, can still win", tally{none: 1, askAgain: 1, yes: 1, pending: 1}, open, again},
		{"script lost, won all the same", tally{none: 1, askAgain: 1, yes: 2}, won, won},
		{"script lost, a majority refused", tally{none: 1, askAgain: 1, no: 2}, held, held},
		{"one master", tally{yes: 1}, won, won},
	} {
		if got := decideAcquire(c.t); got != c.now {
			t.Errorf("%s: %d, want %d", c.name, got, c.now)
		}
		if got := decideAcquire(c.t.without(c.t.pending)); got != c.end {
			t.Errorf("%s, at the deadline: %d, want %d", c.name, got, c.end)
		}
	}
}

func TestDecideRaise(t *testing.T) {
	for _, c := range []struct {
		t    tally
		want verdict
	}{
		{tally{yes: 3, no: 2}, won}, {tally{yes: 2, pending: 1, none: 2}, open}, {tally{yes: 2, none: 3}, lost},
		{tally{yes: 1, pending: 1, no: 3}, lost}, {tally{yes: 1, pending: 1, none: 1}, open}, {tally{yes: 2, no: 2}, lost},
	} {
		if got := decideRaise(c.t); got != c.want {
			t.Errorf("%+v: %d, want %d", c.t, got, c.want)
		}
	}
}

func TestDecideHeld(t *testing.T) {
	for _, c := range []struct {
		t        tally
		now, end verdict
	}{
		{tally{pending: 3}, open, noQuorum},
		{tally{yes: 2, pending: 1}, won, won},
		{tally{no: 2, pending: 1}, lost, lost},
		{tally{yes: 1, no: 1, pending: 1}, open, noQuorum},
		{tally{yes: 1, none: 1, no: 1}, noQuorum, noQuorum}, // silence is no loss
		{tally{yes: 2, none: 1, no: 2}, noQuorum, noQuorum},
		{tally{yes: 2, no: 3}, lost, lost},
		{tally{yes: 2, no: 2}, lost, lost},
	} {
		if got := decideHeld(c.t); got != c.now {
			t.Errorf("%+v: %d, want %d", c.t, got, c.now)
		}
		if got := decideHeld(c.t.without(c.t.pending)); got != c.end {
			t.Errorf("%+v, at the deadline: %d, want %d", c.t, got, c.end)
		}
	}
}

func TestDecideRelease(t *testing.T) {
	for _, c := range []struct {
		t        tally
		now, end verdict
	}{
		{tally{pending: 3}, open, noQuorum},
		{tally{yes: 2, pending: 1}, won, won},
		{tally{no: 2, pending: 1}, lost, lost},
		{tally{yes: 1, no: 1, pending: 1}, open, won}, // D+E is a majority: it may have been held
		{tally{yes: 1, no: 1, none: 1}, won, won},
		{tally{yes: 1, no: 2}, lost, lost},
		{tally{yes: 1, none: 2}, noQuorum, noQuorum},
		{tally{no: 1, none: 2}, noQuorum, noQuorum},
		{tally{no: 3, pending: 2}, lost, lost},
		{tally{yes: 1, no: 2, none: 1, pending: 1}, open, won},
	} {
		if got := decideRelease(c.t); got != c.now {
			t.Errorf("%+v: %d, want %d", c.t, got, c.now)
		}
		if got := decideRelease(c.t.without(c.t.pending)); got != c.end {
			t.Errorf("%+v, at the deadline: %d, want %d", c.t, got, c.end)
		}
	}
}

func TestToken(t *testing.T) {
	secret := strings.Repeat("0123456789abcdef", 3)[:40]
	good := "0000000000000042:" + secret
	token, err := ParseToken([]byte(good))
	if err != nil || token.Fence != 42 || token.Secret != secret || token.String() != good {
		t.Errorf("ParseToken(%q) = %+v, %v", good, token, err)
	}
	for _, bad := range []string{
		"", ":", good[1:], good + "0", "000000000000004x:" + secret, "-000000000000042:" + secret, "+000000000000042:" + secret,
		"0000000000000042-" + secret, "0000000000000042:" + strings.ToUpper(secret), "0000000000000042:" + secret[1:] + "g", " " + good[1:],
	} {
		if _, err := ParseToken([]byte(bad)); err == nil {
			t.Errorf("ParseToken(%q) accepted it", bad)
		} else if bad != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("the error quotes the token: %v", err)
		}
	}
}

// Nothing a master or an operator writes breaks the line of an error reply.
func TestTextIsOneLine(t *testing.T) {
	e := &NoQuorumError{Answered: 1, N: 3, Needed: 2, Masters: []MasterError{
		{Index: 1, Name: "a\r\nb", Err: &master.AnswerError{Text: plain.Short("ERR x\r\n-ERR y\x00" + strings.Repeat("z", 500))}},
		{Index: 2, Name: "c", Err: admission.Naming([]string{"", "a\r\nb"}, func(name func(int) string) string { return "is " + name(1) })},
	}}
	for _, show := range []bool{true, false} {
		if text := e.Text(show); strings.ContainsAny(text, "\r\n\x00") || len(text) > 500 {
			t.Errorf("text %q", text)
		}
	}
	if !errors.Is(e, ErrNoQuorum) {
		t.Error("is not ErrNoQuorum")
	}
}

// longReason is a reason in our own words. It ends with the remedy.
type longReason struct{ master int }

func (e longReason) Error() string { return e.Text(func(int) string { return "10.0.0.1:6379" }) }

func (e longReason) Text(name func(master int) string) string {
	return strings.Repeat("x", 300) + "\r\n: LOCKPROXY ADMIT " + name(e.master)
}

// What an operator should do is not cut.
func TestTextNamesRemedy(t *testing.T) {
	e := &NoQuorumError{N: 3, Needed: 2, Masters: []MasterError{{Index: 2, Name: "a", Err: longReason{2}}}}
	for show, want := range map[bool]string{true: "  : LOCKPROXY ADMIT 10.0.0.1:6379", false: "  : LOCKPROXY ADMIT master 3"} {
		if text := e.Text(show); !strings.HasSuffix(text, want) {
			t.Errorf("text %q, want it to end with %q", text, want)
		}
	}
}

func TestOptions(t *testing.T) {
	_, err := New(Options{Masters: []MasterOptions{{DB: -1, Network: "udp"}}, KeyPrefix: "lockproxy:x"})
	for _, want := range []string{"master 1 has no address", `network "udp"`, "database -1", "key prefix", "master timeout", "max ttl"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := New(Options{MasterTimeout: 1, MaxTTL: 8761 * time.Hour}); err == nil || !strings.Contains(err.Error(), "max ttl 8761h") {
		t.Errorf("%v does not refuse a max ttl of more than a year", err)
	}
	if _, err := New(Options{MasterTimeout: 1, MaxTTL: time.Second}); err == nil || !strings.Contains(err.Error(), "no masters") {
		t.Errorf("%v does not say no masters", err)
	}
	if _, err := New(Options{Masters: make([]MasterOptions, 32), MasterTimeout: 1, MaxTTL: time.Second}); err == nil || !strings.Contains(err.Error(), "32 masters, at most 31") {
		t.Errorf("%v does not refuse 32 masters", err)
	}
}
