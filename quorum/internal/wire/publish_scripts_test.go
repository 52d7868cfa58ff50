package wire

import (
	"strings"
	"testing"
	"time"
)

// A release is published to clients that wait for its key, and only then.
func TestReleaseIsPublishedToWaiters(t *testing.T) {
	forEachServer(t, func(s *server) {
		watcher := s.another()
		watcher.send(AppendCommand(nil, "SUBSCRIBE", ReleasedPrefix, ReleasedPrefix+"lock:a", ReleasedPrefix+"lock:b"))
		var r Reply
		for range 3 {
			watcher.receive(&r)
		}
		hears := func(want string) {
			t.Helper()
			watcher.receive(&r)
			s.want("told", text(&r), want)
		}
		release := func(key, secret string) *Op {
			o := op(Release, key, secret)
			o.Publish = true
			return o
		}
		s.run(acquire("lock:a", mine), release("lock:a", theirs), op(Release, "lock:a", mine), acquire("lock:a", theirs),
			acquire("lock:other", mine), release("lock:other", mine), release("lock:a", theirs), release("lock:a", theirs))
		hears("[message " + ReleasedPrefix + "lock:a " + ReleaseID(theirs) + "]")
		s.run(acquire("lock:a", mine), acquire("lock:b", mine), release("lock:b", mine), release("lock:a", mine),
			acquire("lock:a", theirs), op(Free, "lock:a", ""), op(Free, "lock:b", ""))
		hears("[message " + ReleasedPrefix + "lock:b " + ReleaseID(mine) + "]")
		hears("[message " + ReleasedPrefix + "lock:a " + ReleaseID(mine) + "]")
		hears("[message " + ReleasedPrefix + "lock:a " + ReleaseID(theirs) + "]")
		s.must("SET", "lock:b", "x")
		s.run(op(Free, "lock:b", ""))
		hears("[message " + ReleasedPrefix + "lock:b " + ReleaseID("x") + "]")
	})
}

// KEEP is published too, for a lock of any kind: its place may open sooner now.
func TestPublishKeep(t *testing.T) {
	forEachServer(t, func(s *server) {
		const channel = ReleasedPrefix + "lock:a"
		watcher := s.another()
		watcher.do("SUBSCRIBE", ReleasedPrefix)
		watcher.do("SUBSCRIBE", channel)
		for _, first := range []*Op{acquire("lock:a", mine), shared("lock:a", mine, time.Minute),
			limited("lock:a", mine, 2, 1, 0)} {
			s.run(op(Free, "lock:a", ""), first)
			s.must("PUBLISH", channel, "begin")
			var r Reply
			for r.Elems == nil || r.Elems[2].Text != "begin" {
				watcher.receive(&r)
			}
			s.run(keep("lock:a", mine, time.Second))
			s.must("PUBLISH", channel, "end")
			watcher.receive(&r)
			s.want("told", text(&r), "[message "+channel+" "+ReleaseID(mine)+"]")
		}
	})
}

// A client must subscribe to the channel for all keys as well. Otherwise it gets no messages.
func TestPublishWhereSomebodyListens(t *testing.T) {
	forEachServer(t, func(s *server) {
		const released, changed = ReleasedPrefix + "lock:a", ChangedPrefix + "lock:a"
		for _, c := range []struct{ general, want string }{
			{"", ""}, {ReleasedPrefix, released}, {Changed, changed}, {ReleasedPrefix + " " + Changed,
				changed + " " + released},
		} {
			s.sub("subscribed to "+c.general, func() {
				watcher := s.another()
				channels := append(strings.Fields(c.general), released, changed)
				for _, channel := range channels {
					watcher.do("SUBSCRIBE", channel)
				}
				told := op(Release, "lock:a", mine)
				told.Publish = true
				s.run(acquire("lock:a", mine))
				s.want("release", s.run(told), "1")
				s.must("PUBLISH", released, "end")
				var heard []string
				for {
					var r Reply
					watcher.receive(&r)
					if r.Elems[2].Text == "end" {
						break
					}
					heard = append(heard, r.Elems[1].Text)
				}
				s.want("heard", strings.Join(heard, " "), c.want)
				for _, channel := range channels {
					watcher.do("UNSUBSCRIBE", channel)
				}
			})
		}
	})
}
