package quorum

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
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

func TestAttemptTimeout(t *testing.T) {
	for _, c := range []struct{ timeout, ttl, want time.Duration }{
		{50 * time.Millisecond, 10 * time.Second, 50 * time.Millisecond},
		{50 * time.Millisecond, time.Second, 50 * time.Millisecond},
		{50 * time.Millisecond, 500 * time.Millisecond, 25 * time.Millisecond},
		{50 * time.Millisecond, 10 * time.Millisecond, 2 * time.Millisecond},
		{time.Millisecond, time.Minute, 2 * time.Millisecond},
	} {
		if got := attemptTimeout(c.timeout, c.ttl); got != c.want {
			t.Errorf("timeout %v, ttl %v: %v, want %v", c.timeout, c.ttl, got, c.want)
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

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		t    tally
		now  verdict
		end  verdict // at the deadline
	}{
		{"nothing yet", tally{pending: 5}, open, noQuorum},
		{"three of five", tally{granted: 3, pending: 2}, won, won},
		{"two of three", tally{granted: 2, pending: 1}, won, won},
		{"two of four is no majority", tally{granted: 2, refused: 2}, split, split},
		{"three of four", tally{granted: 3, refused: 1}, won, won},
		{"can still win", tally{granted: 1, refused: 2, pending: 2}, open, split},
		{"a majority refused", tally{refused: 3, pending: 2}, held, held},
		{"a majority refused, one granted", tally{granted: 1, refused: 3, pending: 1}, held, held},
		{"split with one down", tally{granted: 2, refused: 2, none: 1}, split, split},
		{"one of three each, one silent", tally{granted: 1, refused: 1, pending: 1}, open, split},
		{"two down, one refused, two pending", tally{refused: 1, none: 2, pending: 2}, open, noQuorum},
		{"a majority down, the rest pending", tally{none: 3, pending: 2}, open, noQuorum},
		{"a majority down, the rest granted", tally{none: 3, granted: 2}, noQuorum, noQuorum},
		{"a majority down, the rest refused", tally{none: 3, refused: 2}, noQuorum, noQuorum},
		{"script lost", tally{none: 2, noScript: 2, pending: 1}, again, again},
		{"script lost, can still win", tally{none: 1, noScript: 1, granted: 1, pending: 1}, open, again},
		{"script lost, won all the same", tally{none: 1, noScript: 1, granted: 2}, won, won},
		{"script lost, a majority refused", tally{none: 1, noScript: 1, refused: 2}, held, held},
		{"one master", tally{granted: 1}, won, won},
	} {
		if got := c.t.decide(); got != c.now {
			t.Errorf("%s: %d, want %d", c.name, got, c.now)
		}
		if got := c.t.atDeadline(); got != c.end {
			t.Errorf("%s, at the deadline: %d, want %d", c.name, got, c.end)
		}
	}
}

func TestDecideRaise(t *testing.T) {
	for _, c := range []struct {
		confirmed, pending, n int
		want                  verdict
	}{
		{3, 0, 5, won}, {2, 1, 5, open}, {2, 0, 5, lost}, {1, 1, 5, lost}, {1, 1, 3, open}, {2, 0, 3, won}, {2, 0, 4, lost},
	} {
		if got := decideRaise(c.confirmed, c.pending, c.n); got != c.want {
			t.Errorf("decideRaise(%d, %d, %d) = %d, want %d", c.confirmed, c.pending, c.n, got, c.want)
		}
	}
}

func TestDecideUnlock(t *testing.T) {
	for _, c := range []struct {
		t        unlockTally
		now, end verdict
	}{
		{unlockTally{pending: 3}, open, noQuorum},
		{unlockTally{deleted: 2, pending: 1}, won, won},
		{unlockTally{notOurs: 2, pending: 1}, lost, lost},
		{unlockTally{deleted: 1, notOurs: 1, pending: 1}, open, won}, // D+E is a majority: it may have been held
		{unlockTally{deleted: 1, notOurs: 1, none: 1}, won, won},
		{unlockTally{deleted: 1, notOurs: 2}, lost, lost},
		{unlockTally{deleted: 1, none: 2}, noQuorum, noQuorum},
		{unlockTally{notOurs: 1, none: 2}, noQuorum, noQuorum},
		{unlockTally{notOurs: 3, pending: 2}, lost, lost},
		{unlockTally{deleted: 1, notOurs: 2, none: 1, pending: 1}, open, won},
	} {
		if got := c.t.decide(); got != c.now {
			t.Errorf("%+v: %d, want %d", c.t, got, c.now)
		}
		if got := c.t.atDeadline(); got != c.end {
			t.Errorf("%+v, at the deadline: %d, want %d", c.t, got, c.end)
		}
	}
}

func TestSlot(t *testing.T) {
	// 0x31C3 is the check value of CRC16/XMODEM.
	for key, want := range map[string]uint16{"": 0, "123456789": 0x31c3 % 4096, "{123456789}": slot("{123456789}")} {
		if got := slot(key); got != want {
			t.Errorf("slot(%q) = %d, want %d", key, got, want)
		}
	}
	if slot("{a}1") == slot("{a}2") {
		t.Error("braces are not special here")
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
	if a, b := (*dice)(nil).newSecret(), (*dice)(nil).newSecret(); a == b || len(a) != secretLen {
		t.Errorf("secrets %q, %q", a, b)
	}
}

// Nothing a master or an operator writes breaks the line of an error reply.
func TestTextIsOneLine(t *testing.T) {
	e := &NoQuorumError{Answered: 1, N: 3, Needed: 2, Masters: []MasterError{
		{Index: 1, Name: "a\r\nb", Err: &answerError{plain("ERR x\r\n-ERR y\x00" + strings.Repeat("z", 500))}},
		{Index: 2, Name: "c", Err: &sameServerError{1, "a\r\nb"}},
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

func TestReadReply(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"+OK\r\n", "+ OK [] false"}, {"-ERR no\r\n", "- ERR no [] false"}, {":-2\r\n", ": -2"},
		{"$5\r\na\r\nbc\r\n", "$ a\r\nbc [] false"}, {"$0\r\n\r\n", "$  [] false"}, {"$-1\r\n", "$  [] true"},
		{"*2\r\n:1\r\n:42\r\n", "*  [1 42] false"}, {"*2\r\n$2\r\n17\r\n$1\r\n3\r\n", "*  [17 3] false"}, {"*-1\r\n", "*  [] true"}, {"*0\r\n", "*  [] false"},
		{"hello\r\n", "bad"}, {"\r\n", "bad"}, {":x\r\n", "bad"}, {":1\n", "bad"}, {"$3\r\nabcd\r\n", "bad"}, {"$-2\r\n", "bad"},
		{"$99999999999\r\n", "bad"}, {"*33\r\n", "bad"}, {"*1\r\n*0\r\n", "bad"}, {"*1\r\n$-1\r\n", "bad"}, {"*1\r\n$1\r\nx\r\n", "*  [0] false [x]"}, {"*2\r\n$1\r\nx\r\n$1\r\n5\r\n", "*  [0 5] false [x 5]"}, {"*1\r\n:x\r\n", "bad"},
		{"%1\r\n", "bad"}, {"+" + strings.Repeat("x", 100), "bad"},
	} {
		var r reply
		err := readReply(bufio.NewReaderSize(strings.NewReader(c.in), 64), &r)
		got := fmt.Sprintf("%c %s %v %v", r.kind, r.text, r.ints[:r.n], r.null)
		if r.texts != nil {
			got += fmt.Sprint(" ", r.texts)
		}
		switch {
		case err != nil:
			got = "bad"
			if !errors.Is(err, errUnparsable) {
				got = err.Error()
			}
		case r.kind == ':':
			got = fmt.Sprintf(": %d", r.ints[0])
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	for _, in := range []string{"+OK\r\n:1\r\n", "*2\r\n:1\r\n$1\r\n5\r\n", "$3\r\nabc\r\n", "-ERR\r\n", "*-1\r\n"} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		b, r := bufio.NewReaderSize(strings.NewReader(string(in)), 256), reply{}
		for readReply(b, &r) == nil {
			if r.n > maxReplyInts || len(r.text) > len(in) {
				t.Fatalf("%q: %+v", in, r)
			}
		}
	})
}

func TestRing(t *testing.T) {
	var r ring
	next, want := 0, 0
	for round := range 300 {
		for range round % 7 {
			r.push(command{fence: uint64(next)})
			next++
		}
		for range round % 5 {
			c, ok := r.pop()
			if ok != (want < next) || ok && c.fence != uint64(want) {
				t.Fatalf("popped %d, %v, want %d", c.fence, ok, want)
			}
			if ok {
				want++
			}
		}
	}
	if r.n != next-want || len(r.buf) < 128 {
		t.Errorf("%d left in %d, want %d: it should have grown while wrapped", r.n, len(r.buf), next-want)
	}
}

func TestOptions(t *testing.T) {
	_, err := New(Options{Masters: []MasterOptions{{DB: -1, Network: "udp"}}, KeyPrefix: "lockproxy:x"})
	for _, want := range []string{"master 1 has no address", `network "udp"`, "database -1", "key prefix", "master timeout", "max ttl"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := New(Options{MasterTimeout: 1, MaxTTL: time.Second}); err == nil || !strings.Contains(err.Error(), "no masters") {
		t.Errorf("%v does not say no masters", err)
	}
}
