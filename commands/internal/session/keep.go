package session

import (
	"slices"
	"time"

	"lockproxy/quorum"
	"lockproxy/resp"
)

// Keep renews lease of keys, which was just granted or extended, until the connection ends. The
// first renewal is due after a third of ttl. The lock belongs to this connection from then on,
// also if it was another one's.
func (ls *Locks) Keep(session Connection, keys []string, lease quorum.Lease, ttl time.Duration) {
	now := ls.now()
	l := &lock{conn: session, keys: keys, token: lease.Token, ttl: ttl, granted: now, kept: now,
		renewal: now.Add(ttl / 3), deadline: now.Add(lease.Validity - lossMargin(ttl))}
	ls.mu.Lock()
	if old := ls.bySecret[l.token.Secret]; old != nil {
		l.succeed(old)
		ls.dropLocked(old)
	}
	l.lapses = l.lapses || ls.draining
	set, known := ls.byConnection[session]
	if !known {
		set = make(map[*lock]struct{})
		ls.byConnection[session] = set
	}
	set[l] = struct{}{}
	ls.bySecret[l.token.Secret] = l
	l.timerAt = l.renewal
	l.timer = time.AfterFunc(untilTimer(l.timerAt.Sub(now)), func() { ls.renew(l) })
	ls.startCheckLocked()
	ls.mu.Unlock()
	if !known {
		session.OnEnd(func(how resp.End) { ls.connectionEnded(session, how) })
	}
}

// succeed makes l take the place of old, which has the same token. Keys of old that the client has
// not named stay with it.
func (l *lock) succeed(old *lock) {
	l.granted = old.granted
	var others []string
	for _, k := range old.keys {
		if !slices.Contains(l.keys, k) {
			others = append(others, k)
		}
	}
	if len(others) > 0 { // they were not extended
		l.keys, l.lapses = append(others, l.keys...), old.lapses
		l.renewal, l.deadline = old.renewal, old.deadline
	} else if old.deadline.After(l.deadline) {
		l.deadline = old.deadline
	}
}
