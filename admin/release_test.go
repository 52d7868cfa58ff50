package admin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockproxy/stat"
)

// releaser records the locks that it is asked to release.
type releaser struct {
	by    stat.Operator
	key   string
	fence uint64
	calls int
	freed bool
	err   error // of Release
	may   error // of MayRelease
}

func (r *releaser) release(_ context.Context, by stat.Operator, key string, fence uint64) (bool, error) {
	r.by, r.key, r.fence = by, key, fence
	r.calls++
	return r.freed, r.err
}

func releaseFixture(t *testing.T, change func(*Options)) (*fixture, *releaser) {
	r := &releaser{freed: true}
	return newFixture(t, func(o *Options) {
		o.MayRelease, o.Release = func(stat.Operator) error { return r.may }, r.release
		if change != nil {
			change(o)
		}
	}), r
}

// askRelease sends a release as the page does.
func (f *fixture) askRelease(body string, edit func(*http.Request)) (code int, text string) {
	w := f.ask("POST", "/release", func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader(body))
		r.RemoteAddr = "10.0.0.7:4000"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(pageHeader, "page")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if edit != nil {
			edit(r)
		}
	})
	return w.Code, strings.TrimSpace(w.Body.String())
}

// TestRelease: any bytes are a key, the fence that was shown goes with it, and the client is
// known.
func TestRelease(t *testing.T) {
	f, r := releaseFixture(t, nil)
	key := "two\r\nlines\x00\xff<b>"
	body := `{"key":"` + hex.EncodeToString([]byte(key)) + `","fence":"18446744073709551615"}`
	if code, text := f.askRelease(body, nil); code != 200 || text != `{"freed":true}` {
		t.Errorf("got %d %s", code, text)
	}
	if r.key != key || r.fence != 1<<64-1 || r.by.Client.String() != "10.0.0.7:4000" ||
		r.by.Token || r.by.Unix {
		t.Errorf("asked for %+v", r)
	}
	const small = `{"key":"61","fence":"0"}`
	r.freed = false
	if code, text := f.askRelease(small, nil); code != 200 || text != `{"freed":false}` {
		t.Errorf("no lock: %d %s", code, text)
	}
	r.err = fmt.Errorf("not here: %w", fs.ErrPermission)
	if code, text := f.askRelease(small, nil); code != 403 || text != "not here: permission denied" {
		t.Errorf("refused: %d %s", code, text)
	}
	r.err = errors.New("NOQUORUM 1 of 5")
	if code, text := f.askRelease(small, nil); code != 502 || text != "NOQUORUM 1 of 5" {
		t.Errorf("no masters: %d %s", code, text)
	}
}

// TestReleaseRefusesOtherPages: a request that does not come from this server's page, or has no
// valid key, never reaches the masters.
func TestReleaseRefusesOtherPages(t *testing.T) {
	f, r := releaseFixture(t, func(o *Options) { o.Local = true })
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	good := `{"key":"6a6f62","fence":"7"}`
	long := func(n int) string { return strings.Repeat("61", n) }
	for name, c := range map[string]struct {
		body string
		edit func(*http.Request)
		want int
	}{
		"another site":        {good, set("Sec-Fetch-Site", "cross-site"), 403},
		"a sister site":       {good, set("Sec-Fetch-Site", "same-site"), 403},
		"no header":           {good, set(pageHeader, ""), 403},
		"a form":              {good, set("Content-Type", "application/x-www-form-urlencoded"), 403},
		"text":                {good, set("Content-Type", "text/plain"), 403},
		"a name that is ours": {good, func(r *http.Request) { r.Host = "evil.example" }, 421},
		"an old browser": {good, func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "http://evil.example")
		}, 403},
		"a GET":              {good, func(r *http.Request) { r.Method = "GET" }, 405},
		"no key":             {`{"key":"","fence":"7"}`, nil, 400},
		"no hex":             {`{"key":"job","fence":"7"}`, nil, 400},
		"a long key":         {`{"key":"` + long(maxKey+1) + `","fence":"7"}`, nil, 400},
		"a long body":        {`{"key":"` + long(4*maxKey) + `","fence":"7"}`, nil, 400},
		"no fence":           {`{"key":"6a6f62"}`, nil, 400},
		"a fence below zero": {`{"key":"6a6f62","fence":"-1"}`, nil, 400},
		"no object":          {`[1]`, nil, 400},
	} {
		t.Run(name, func(t *testing.T) {
			if code, text := f.askRelease(c.body, c.edit); code != c.want {
				t.Errorf("%s: %d %s, want %d", name, code, text, c.want)
			}
		})
	}
	if r.calls != 0 {
		t.Errorf("%d releases were asked for", r.calls)
	}
	if code, _ := f.askRelease(good, nil); code != 200 || r.calls != 1 {
		t.Errorf("the good one: %d", code)
	}
	without := newFixture(t, nil)
	if code, _ := without.askRelease(good, nil); code != 404 {
		t.Errorf("without Release: %d", code)
	}
}

// TestReleaseKnowsWhoShowedTheToken: with a token set, exactly the clients that show it count as
// operators with a token.
func TestReleaseKnowsWhoShowedTheToken(t *testing.T) {
	f, r := releaseFixture(t, func(o *Options) { o.Token = func() string { return "s3cret" } })
	shown := func(r *http.Request) { r.SetBasicAuth("me", "s3cret") }
	good := `{"key":"6a6f62","fence":"7"}`
	if code, _ := f.askRelease(good, nil); code != 401 || r.calls != 0 {
		t.Errorf("without the token: %d", code)
	}
	if code, _ := f.askRelease(good, shown); code != 200 || !r.by.Token {
		t.Errorf("with the token: %d %+v", code, r.by)
	}
}

// TestReleaseDropsStoredLists: after a release the list is asked for again, not served from
// before.
func TestReleaseDropsStoredLists(t *testing.T) {
	f, _ := releaseFixture(t, nil)
	f.ask("GET", "/locks", nil)
	f.askRelease(`{"key":"6a6f62","fence":"7"}`, nil)
	f.ask("GET", "/locks", nil)
	if n := f.asked.Load(); n != 2 {
		t.Errorf("the masters were asked %d times, want 2", n)
	}
}

// TestReportContents: the report names the proxy, the waiting clients and their addresses, and why
// releases are not possible; keys and labels of any bytes become text.
func TestReportContents(t *testing.T) {
	f, r := releaseFixture(t, func(o *Options) {
		o.Host, o.Listen = "host-1", []string{"127.0.0.1:6380"}
		o.Waiting = func(int) []stat.Waiting {
			return []stat.Waiting{{Key: "a\x00", Clients: 3, Longest: time.Second, First: []stat.Waiter{
				{From: someClient, Owner: "</script>", Mode: "shared", Since: time.Second},
				{From: &net.UnixAddr{Net: "unix"}}, {}}}}
		}
	})
	r.may = errors.New("NOPERM not here")
	f.o.Meter.Note(lockEvent("<i>", stat.OutcomeTaken, 0))
	state := someState()
	data := f.report(&state, nil, time.Now())
	if strings.ContainsAny(string(data), "<>") {
		t.Errorf("markup in %s", data)
	}
	var got report
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	first := got.Waiting[0].First
	if got.Host != "host-1" || got.Listen[0] != "127.0.0.1:6380" || len(first) != 3 ||
		got.NoRelease != "NOPERM not here" || got.Waiting[0].Key != `a\x00` || got.Waiting[0].Hex != "6100" ||
		first[0] != (waiterReport{"</script>", "10.0.0.9:7", "shared", 1000}) ||
		first[1].From != "Unix socket" || first[2].From != "" {
		t.Errorf("got %+v", got)
	}
	if len(got.Fought) != 1 || got.Fought[0].Key != "<i>" || got.Fought[0].Hex != "3c693e" || len(got.Faults) != 2 {
		t.Errorf("fought over %+v, errors %+v", got.Fought, got.Faults)
	}
}
