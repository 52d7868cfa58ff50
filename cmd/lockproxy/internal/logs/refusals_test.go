package logs

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/stat"
)

// noLogin is the refusal of a client that has not logged in.
func noLogin(n int) stat.Event {
	client := &net.TCPAddr{IP: net.IPv4(10, 0, byte(n>>8), byte(n)), Port: 1 + n}
	return stat.Event{Command: "lock", Outcome: stat.OutcomeDenied, Key: fmt.Sprint("job-", n), User: "default",
		Client: client, NoLogin: true}
}

// auditLine is what matters of a line.
type auditLine struct {
	Time                string `json:"ts"`
	Command, Key        string
	Refusals, Addresses int
}

func auditLines(t *testing.T, text string) (all []auditLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l auditLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

// TestRefusalsWithoutLoginShareALine: clients that have not logged in cause one line a second,
// which counts their refusals and shows the last one. Events of other clients keep their lines.
func TestRefusalsWithoutLoginShareALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		log, err := New(&out, Options{"error", "json", "log"})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		const every = 100 * time.Microsecond
		start := time.Now()
		for n := range 25_000 { // 2.5 s
			log.Audit.Record(noLogin(n % 500))
			if n == 5000 {
				mine := noLogin(0)
				mine.NoLogin, mine.User, mine.Key = false, "app", "mine"
				log.Audit.Record(mine)
			}
			time.Sleep(every)
		}
		sub := noLogin(7)
		sub.Command, sub.Sub = "lockproxy", "locks" // not audited
		log.Audit.Record(sub)
		time.Sleep(2 * time.Second)
		log.Sync()
		all := auditLines(t, out.String())
		if len(all) != 4 || all[0].Key != "mine" || all[0].Refusals != 0 {
			t.Fatalf("got %+v, want the line of one who logged in and 3 others", all)
		}
		checkRefusals(t, all[1:], start)

		// A single one has its line within a second, and no line follows.
		log.Audit.Record(noLogin(1))
		time.Sleep(refusalsEvery)
		synctest.Wait()
		log.Sync()
		if all := auditLines(t, out.String()); len(all) != 5 || all[4].Refusals != 1 || all[4].Addresses != 1 ||
			all[4].Key != "job-1" {
			t.Errorf("got %+v", all)
		}
		time.Sleep(time.Hour)
		if n := strings.Count(out.String(), "\n"); n != 5 {
			t.Errorf("%d lines after an hour", n)
		}
	})
}

// checkRefusals checks the lines of 25,000 refusals of 500 clients in the seconds after start.
func checkRefusals(t *testing.T, lines []auditLine, start time.Time) {
	t.Helper()
	total := 0
	for i, l := range lines {
		at := start.Add(time.Duration(i+1) * refusalsEvery)
		if ts, err := time.Parse("2006-01-02T15:04:05.000Z0700", l.Time); err != nil ||
			ts.Sub(at).Abs() > 10*time.Millisecond {
			t.Errorf("line %d is of %s, want %v", i, l.Time, at)
		}
		if l.Command != "lock" || !strings.HasPrefix(l.Key, "job-") || l.Addresses != 500 {
			t.Errorf("line %d: %+v", i, l)
		}
		total += l.Refusals
	}
	if total != 25_000 || lines[2].Key != "job-499" {
		t.Errorf("%d refusals are counted, the last one as %+v", total, lines[2])
	}
}

// TestRefusalsAreWrittenAtTheEnd: the line that is due is written at the end, and before the file
// is opened again.
func TestRefusalsAreWrittenAtTheEnd(t *testing.T) {
	t.Run("log", func(t *testing.T) { // which is not opened again
		var out lines
		wantDueLines(t, &out, "log", out.String, "[5]")
	})
	t.Run("audit", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit")
		text := func() string {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		wantDueLines(t, new(lines), path, text, "[3 2]")
	})
}

// wantDueLines: of three refusals before Audit.Reopen and two after it, the lines in text count
// want when Close returns, which it does at once.
func wantDueLines(t *testing.T, out *lines, setting string, text func() string, want string) {
	synctest.Test(t, func(t *testing.T) {
		log, err := New(out, Options{"error", "json", setting})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			log.Audit.Record(noLogin(n))
		}
		if err := log.Audit.Reopen(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the lines are written
		log.Audit.Record(noLogin(9))
		log.Audit.Record(noLogin(9))
		start := time.Now()
		log.Close()
		if time.Since(start) != 0 {
			t.Errorf("Close took %v", time.Since(start))
		}
		var counts []int
		for _, l := range auditLines(t, text()) {
			counts = append(counts, l.Refusals)
		}
		if got := fmt.Sprint(counts); got != want {
			t.Errorf("audit-log %s: the lines count %s, want %s", setting, got, want)
		}
		time.Sleep(time.Minute)
	})
}

// TestRefusalsAreBounded: many addresses take no more memory than so many.
func TestRefusalsAreBounded(t *testing.T) {
	addresses := 0
	r := newRefusals(func(_ *stat.Event, _, n int) { addresses = n })
	for n := range 5 * maxAddresses {
		e := noLogin(n)
		r.add(&e)
	}
	if len(r.from) != maxAddresses {
		t.Errorf("%d addresses are kept", len(r.from))
	}
	if r.flush(); addresses != maxAddresses {
		t.Errorf("the line says %d addresses", addresses)
	}
	e := noLogin(1)
	e.Client = &net.UnixAddr{Name: "@"}
	r.add(&e)
	r.add(&e)
	if r.flush(); addresses != 1 {
		t.Errorf("clients of a Unix socket have %d addresses", addresses)
	}
}
