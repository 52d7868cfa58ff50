package queue

import (
	"testing"

	"lockproxy/quorum"
)

// TestStreakIsFullAfterSoManyHandOvers: a streak is full after maxHandOvers grants to clients that
// waited, times the limit.
func TestStreakIsFullAfterSoManyHandOvers(t *testing.T) {
	exclusive := quorum.Request{}
	shared := quorum.Request{Mode: quorum.Shared}
	limited := quorum.Request{Mode: quorum.Limited, Limit: 3}
	for _, tt := range []struct {
		name   string
		want   quorum.Request
		grants int
		then   func(*streak)
		full   bool
	}{
		{"one is missing", exclusive, maxHandOvers - 1, nil, false},
		{"exclusive", exclusive, maxHandOvers, nil, true},
		{"limited, one is missing", limited, 3*maxHandOvers - 1, nil, false},
		{"limited", limited, 3 * maxHandOvers, nil, true},
		{"shared", shared, 100 * maxHandOvers, nil, false},
		{"a client that did not wait", exclusive, maxHandOvers,
			func(s *streak) { s.granted(quorum.Exclusive, false) }, false},
		{"a shared client in between", exclusive, maxHandOvers, func(s *streak) { s.granted(quorum.Shared, true) }, true},
		{"another proxy was faster", exclusive, maxHandOvers, (*streak).refused, false},
		{"another proxy was faster, limited", limited, 3 * maxHandOvers, (*streak).refused, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s streak
			for range tt.grants {
				s.granted(tt.want.Mode, true)
			}
			if tt.then != nil {
				tt.then(&s)
			}
			if got := s.full(&tt.want); got != tt.full {
				t.Errorf("full is %v after %d hand-overs", got, s.handOvers)
			}
		})
	}
}
