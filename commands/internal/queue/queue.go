package queue

import (
	"time"

	"lockproxy/quorum"
)

// maxInvited bounds how many shared clients ask side by side. A lane to a master takes 4,096
// commands.
const maxInvited = 512

// waitQueue holds the waiters for one key, and when and how they should ask for it. It is guarded
// by Queues.mu.
type waitQueue struct {
	key     string
	waiters []*waiter // in order of arrival
	stop    func()    // ends the subscription; nil without one
	history
	availability
	backoff
}

// history outlives a queue and passes to the next one of its key. If two clients alternate, each
// grant ends the queue.
type history struct {
	released releases
	streak   streak
}

// grantedLocked records that w, which led, has the lock.
func (q *waitQueue) grantedLocked(w *waiter) {
	mode := w.want.Mode
	q.backoff.reset()
	q.availability.granted(mode, w.want.TTL, time.Now())
	q.streak.granted(mode, w.waited)
	if mode == quorum.Exclusive { // after another mode a release may leave room for more
		q.released.granted()
	}
}

// refusedLocked records that an attempt of the leader ended with err. freed says that a majority
// had released the key before; then another proxy was faster. Otherwise the holder still has the
// lock.
func (q *waitQueue) refusedLocked(err error, freed bool) {
	if freed {
		q.streak.refused()
	}
	q.availability.refused()
	q.backoff.refused(err, time.Now())
}

// inviteLocked lets the shared waiters at the front of q ask once, side by side, because the one
// before them got the lock in that mode. If there are more than maxInvited, the first of them
// invites the others when it gets the lock.
func (q *waitQueue) inviteLocked(mode quorum.Mode) {
	for i, w := range q.waiters {
		if mode != quorum.Shared || w.want.Mode != mode || i == maxInvited {
			return
		}
		w.invited = true
		w.wake()
	}
}
