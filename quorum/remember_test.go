package quorum

import (
	"slices"
	"testing"
	"time"

	"lockproxy/stat"
)

// TestValueIsRecalledThroughAnotherProxy: a value that one proxy keeps with the masters another
// recalls, from those masters that answer.
func TestValueIsRecalledThroughAnotherProxy(t *testing.T) {
	minis := []string{}
	first := startMini(t)
	minis = append(minis, first.Addr(), startMini(t).Addr(), startMini(t).Addr())
	q := dialQuorum(t, minis)
	if got := q.Recall(t.Context(), "upstream", "10.0.0.9:6379"); !slices.Equal(got, []string{"", "", ""}) {
		t.Errorf("before anything: %q", got)
	}
	if kept := q.Remember(t.Context(), "upstream", "10.0.0.9:6379", "none"); kept != 3 {
		t.Errorf("kept by %d, want 3", kept)
	}
	if got := first.HGet("lockproxy:upstream:lock:", "10.0.0.9:6379"); got != "none" {
		t.Errorf("the first master has %q", got)
	}
	other := dialQuorum(t, minis)
	if got := other.Recall(t.Context(), "upstream",
		"10.0.0.9:6379"); !slices.Equal(got, []string{"none", "none", "none"}) {
		t.Errorf("another proxy recalls %q", got)
	}
	if got := other.Recall(t.Context(), "upstream", "other"); !slices.Equal(got, []string{"", "", ""}) {
		t.Errorf("about another: %q", got)
	}
	first.Del("lockproxy:upstream:lock:")
	first.Set("lockproxy:upstream:lock:", "no hash")
	if got := other.Recall(t.Context(), "upstream",
		"10.0.0.9:6379"); !slices.Equal(got, []string{"", "none", "none"}) {
		t.Errorf("where one has no hash: %q", got)
	}
	first.Close()
	for end := time.Now().Add(aWhile); other.Masters()[0].State != stat.StateDown &&
		time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if kept := other.Remember(t.Context(), "upstream", "10.0.0.9:6379", "password"); kept != 2 {
		t.Errorf("kept by %d, want 2", kept)
	}
	if got := q.Recall(t.Context(), "upstream",
		"10.0.0.9:6379"); !slices.Equal(got, []string{"", "password", "password"}) {
		t.Errorf("where one is down: %q", got)
	}
	eventually(t, q, "job", time.Second) // the lanes go on
}

// TestRememberNobody: masters that do not answer cost no more than their time.
func TestRememberNobody(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		for _, m := range s.masters {
			m.Pause()
		}
		start := time.Now()
		if got := q.Recall(t.Context(), "upstream", "u"); !slices.Equal(got, []string{"", "", ""}) ||
			time.Since(start) != q.opts.MasterTimeout {
			t.Errorf("got %q after %v", got, time.Since(start))
		}
	})
}
