package queue

import (
	"fmt"
	"testing"
)

// TestFirstAndMajorityMessageAreNews: of five masters, the first message is news, and the third.
// here marks what this proxy has released itself.
func TestFirstAndMajorityMessageAreNews(t *testing.T) {
	const here = true
	type message struct {
		id   string
		here bool
		news bool
	}
	for _, tt := range []struct {
		name     string
		messages []message
		finished bool
	}{
		{"no message", nil, false},
		{"a minority", []message{{"a", false, true}, {"a", false, false}}, false},
		{"a majority", []message{{"a", false, true}, {"a", false, false}, {"a", false, true}}, true},
		{"all", []message{{"a", false, true}, {"a", false, false}, {"a", false, true},
			{"a", false, false}, {"a", false, false}}, true},
		{"through this proxy", []message{{"a", here, true}}, true},
		{"through this proxy, then the masters' messages", []message{
			{"a", here, true}, {"a", false, false}, {"a", false, false}, {"a", false, false}}, true},
		{"one message, then through this proxy", []message{{"a", false, true}, {"a", here, true}}, true},
		{"two releases are counted apart", []message{
			{"a", false, true}, {"b", false, true}, {"a", false, false}, {"b", false, false}}, false},
		{"shared, then released, through this proxy", []message{{"a", here, true}, {"a", here, true}}, true},
		{"shared, then released, through another", []message{
			{"a", false, true}, {"a", false, false}, {"a", false, true}, {"a", false, false}, {"a", false, false},
			{"a", false, true}, {"a", false, false}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rs releases
			for i, m := range tt.messages {
				if news := rs.note(m.id, m.here, 5); news != m.news {
					t.Errorf("message %d: news is %v", i+1, news)
				}
			}
			if got := rs.finished(5); got != tt.finished {
				t.Errorf("finished is %v", got)
			}
			rs.granted()
			if rs.finished(5) {
				t.Error("finished after an exclusive grant")
			}
			for _, m := range tt.messages {
				wantOldNews(t, &rs, m.id, m.here)
			}
		})
	}
}

// wantOldNews: a message about a release from before the last grant is no news.
func wantOldNews(t *testing.T, rs *releases, id string, here bool) {
	t.Helper()
	if rs.note(id, here, 5) {
		t.Errorf("a message about %s is news after the grant", id)
	}
}

// TestReleasesForget: the oldest release makes room for the newest.
func TestReleasesForget(t *testing.T) {
	var rs releases
	for i := range maxReleases + 1 {
		rs.note(fmt.Sprint(i), false, 5)
	}
	if len(rs) != maxReleases || rs[0].id != "1" || rs[maxReleases-1].id != fmt.Sprint(maxReleases) {
		t.Errorf("got %v", rs)
	}
}
