package queue

import "slices"

// maxReleases is how many releases of a key a queue remembers.
const maxReleases = 8

// release is one release of a key. Each master that held the token sends a message as soon as it
// has released it. After the first message a majority may still hold the key. After messages of a
// majority, or a release through this proxy, no majority holds it with this token.
type release struct {
	id       string
	messages int
	here     bool // through this proxy
	granted  bool // the lock has been granted exclusively since
}

// masters returns how many masters are known to have released.
func (r release) masters(majority int) int {
	if r.here {
		return max(r.messages, majority)
	}
	return r.messages
}

// releases are the last releases of a key, the oldest first.
type releases []release

// note records one more message about the release id, or, if here, that this proxy has finished
// it. all is how many masters there are. It reports whether an attempt that failed before may
// succeed now: at the first message, and when a majority has released.
func (rs *releases) note(id string, here bool, all int) (news bool) {
	at := slices.IndexFunc(*rs, func(r release) bool { return r.id == id })
	if at < 0 {
		if len(*rs) == maxReleases {
			*rs = slices.Delete(*rs, 0, 1)
		}
		at = len(*rs)
		*rs = append(*rs, release{id: id})
	}
	r, majority := &(*rs)[at], all/2+1
	if here && r.here || !here && r.messages == all {
		// The earlier messages said that the holder shares the lock. Now it releases its share.
		*r = release{id: id, granted: r.granted}
	}
	before := r.masters(majority)
	if here {
		r.here = true
	} else {
		r.messages++
	}
	return !r.granted && (before == 0 || before < majority && r.masters(majority) >= majority)
}

// finished reports whether a majority of all masters has released the key since the last exclusive
// grant.
func (rs releases) finished(all int) bool {
	majority := all/2 + 1
	return slices.ContainsFunc(rs, func(r release) bool { return !r.granted && r.masters(majority) >= majority })
}

// granted records an exclusive grant: later messages about these releases are old.
func (rs releases) granted() {
	for i := range rs {
		rs[i].granted = true
	}
}
