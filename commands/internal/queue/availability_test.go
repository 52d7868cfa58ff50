package queue

import (
	"testing"
	"time"

	"lockproxy/quorum"
)

// TestAvailability: the record after signs, grants and refusals.
func TestAvailability(t *testing.T) {
	now, ttl := time.Now(), time.Minute
	free := func(a *availability) { a.free(now) }
	grant := func(mode quorum.Mode) func(*availability) {
		return func(a *availability) { a.granted(mode, ttl, now) }
	}
	for _, tt := range []struct {
		name  string
		steps []func(*availability)
		want  availability
	}{
		{"nothing", nil, availability{}},
		{"a sign", []func(*availability){free}, availability{lastFree: now, mayBeFree: true}},
		{"an exclusive grant", []func(*availability){free, grant(quorum.Exclusive)}, availability{heldUntil: now.Add(ttl)}},
		{"a shared grant", []func(*availability){free, grant(quorum.Shared)}, availability{lastFree: now}},
		{"a limited grant", []func(*availability){free, grant(quorum.Limited)}, availability{lastFree: now}},
		{"a sign after the grant", []func(*availability){grant(quorum.Exclusive), free},
			availability{lastFree: now, mayBeFree: true}},
		{"refused after the grant", []func(*availability){grant(quorum.Exclusive), (*availability).refused}, availability{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a availability
			for _, step := range tt.steps {
				step(&a)
			}
			if a != tt.want {
				t.Errorf("got %+v, want %+v", a, tt.want)
			}
		})
	}
}

// TestNextTry: the interval is one to two times the time since the sign, and none after retryFor.
func TestNextTry(t *testing.T) {
	for range 1000 {
		for _, since := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, retryFor} {
			if got := nextTry(since); got < since+firstTry || got >= 2*(since+firstTry) {
				t.Fatalf("%v after a sign: next try in %v", since, got)
			}
		}
	}
	if got := nextTry(retryFor + 1); got != never {
		t.Errorf("got %v, want never", got)
	}
}
