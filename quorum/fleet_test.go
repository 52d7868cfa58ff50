package quorum

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// releaseAt releases a token on a set of masters, and on no others.
func TestFleetReleasesAtSet(t *testing.T) {
	for _, c := range []struct {
		name string
		set  uint64
		want []bool
	}{
		{"none", 0, []bool{true, true, true}},
		{"the second", 0b010, []bool{true, false, true}},
		{"two", 0b101, []bool{false, true, false}},
		{"all", allMasters, []bool{false, false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				lease := mustAcquire(t, q, "job", time.Minute)
				synctest.Wait()
				q.fleet.releaseAt(q.fleet.tokenAt("job", lease.Token), c.set)
				q.Flush()
				synctest.Wait()
				var got []bool
				for _, m := range s.masters {
					_, ours := m.Holds("lock:job", lease.Token.Secret)
					got = append(got, ours)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("held on %v, want %v", got, c.want)
				}
			})
		})
	}
}

// callAll passes on the answers of the masters that answer in time.
func TestFleetCallsAll(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(1, 2, (*fake.Master).Pause)
		began := time.Now()
		var got []int
		q.fleet.callAll(t.Context(), func(lane int, _ wire.Reply) { got = append(got, lane) },
			wire.AppendCommand(nil, "HGET", "lockproxy:test:lock:", "nothing"))
		slices.Sort(got)
		if took := time.Since(began); !slices.Equal(got, []int{0, 2}) || took != q.opts.MasterTimeout {
			t.Errorf("lanes %v answered after %v, want 0 and 2 after %v", got, took, q.opts.MasterTimeout)
		}
	})
}

// The distance is that of the farthest master of the nearest majority.
func TestFleetDistance(t *testing.T) {
	for _, c := range []struct {
		name string
		near int
		want time.Duration
	}{{"all far", 0, time.Millisecond}, {"one near", 1, time.Millisecond}, {"a majority near", 2, 0}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum(s.nearTo(0, c.near))
				time.Sleep(3 * time.Second) // for a PING
				if got := q.fleet.distance(); got != c.want {
					t.Errorf("%v, want %v", got, c.want)
				}
			})
		})
	}
}
