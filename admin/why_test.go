package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockproxy/stat"
)

// TestWhyIsServed: GET /why answers for any bytes of a key, to those who have the token.
func TestWhyIsServed(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = func() string { return "secret" } })
	login := func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret") }
	if w := f.ask("GET", "/why?key=job", nil); w.Code != 401 {
		t.Errorf("without the token: %d", w.Code)
	}
	var got stat.Why
	w := f.ask("GET", "/why?key=a%20b%2F%FF", login)
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Held != 2 ||
		!strings.HasPrefix(got.Key, "a b/") {
		t.Errorf("%d %q %v", w.Code, w.Body, err)
	}
	for _, bad := range []string{"/why", "/why?key=", "/why?key=" + strings.Repeat("a", maxKey+1)} {
		if w := f.ask("GET", bad, login); w.Code != 400 {
			t.Errorf("%.20s: %d", bad, w.Code)
		}
	}
	f.err = errors.New("the connection is closing")
	if w := f.ask("GET", "/why?key=job", login); w.Code != 502 || !strings.Contains(w.Body.String(), "closing") {
		t.Errorf("an error: %d %q", w.Code, w.Body)
	}
}

// TestLocksWithoutQuorum: the locks of a minority are served, and marked as such.
func TestLocksWithoutQuorum(t *testing.T) {
	f := newFixture(t, nil)
	f.found, f.fault = []stat.Lock{{Key: "job", Held: 2}}, errors.New("NOQUORUM 2 of 5")
	page := f.readLocks(t)
	if page.Quorum || page.Error != "NOQUORUM 2 of 5" || page.Seen != 2 || page.Masters != 5 || len(page.Locks) != 1 {
		t.Errorf("%+v", page)
	}
	f.fault, f.locks.kept = nil, map[string]keptPage{}
	if page := f.readLocks(t); !page.Quorum || page.Error != "" {
		t.Errorf("with a quorum: %+v", page)
	}
}

// TestHoldersAreRemembered: of a contended key the last three holders, of another one the last,
// each with its ttl and its end.
func TestHoldersAreRemembered(t *testing.T) {
	f, now := newFights(), time.Unix(6000, 0)
	grant := func(key string, fence uint64, at time.Time) {
		e := lockEvent(key, stat.OutcomeGranted, 0)
		e.Fence, e.TTL = fence, 30*time.Second
		f.note(e, at)
	}
	grant("quiet", 1, now)
	grant("quiet", 2, now.Add(time.Second))
	f.note(&stat.Event{Command: "extend", Key: "quiet", Outcome: stat.OutcomeExtended, Fence: 2, TTL: time.Minute},
		now)
	got := f.holders("quiet")
	if len(got) != 1 || got[0].Fence != 2 || got[0].TTL != time.Minute || !got[0].Until.IsZero() ||
		!got[0].Since.Equal(now.Add(time.Second)) || got[0].Owner != "me<b>" || got[0].Client != someClient {
		t.Errorf("quiet: %+v", got)
	}
	f.note(&stat.Event{Command: "session", Key: "quiet", Outcome: stat.OutcomeReleased, Fence: 1, Held: time.Hour},
		now)
	f.note(&stat.Event{Command: "session", Key: "quiet", Outcome: stat.OutcomeReleased, Fence: 2,
		Held: 2 * time.Second}, now)
	if got = f.holders("quiet"); !got[0].Until.Equal(now.Add(3 * time.Second)) {
		t.Errorf("released: %+v", got)
	}
	f.note(&stat.Event{Command: "extend", Key: "quiet", Outcome: stat.OutcomeExtended, Fence: 2, TTL: time.Hour}, now)
	if got = f.holders("quiet"); got[0].TTL != time.Minute {
		t.Errorf("extended after its release: %+v", got)
	}
	f.note(lockEvent("job", stat.OutcomeTaken, 0), now)
	for fence := range uint64(5) {
		grant("job", fence, now)
	}
	if got = f.holders("job"); len(got) != 3 || got[0].Fence != 4 || got[2].Fence != 2 {
		t.Errorf("contended: %+v", got)
	}
	if got = f.holders("none"); got != nil {
		t.Errorf("none: %+v", got)
	}
}
