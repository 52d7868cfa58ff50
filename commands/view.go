package commands

import (
	"context"
	"errors"
	"slices"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// What operators see without commands. Options.ShowMasters says how masters are named.

// Gauges are the numbers of this moment.
type Gauges struct {
	Waiters      int // clients that wait for a lock
	Followers    int // clients that wait for a change of its holder
	WaitedKeys   int // keys that they wait for
	SessionLocks int
	LongestWait  time.Duration // of the client that has waited longest; 0: none waits
}

// Gauges returns the numbers of this moment.
func (o *operators) Counts() (c Gauges) {
	c.Waiters, c.WaitedKeys = o.queues.Total()
	c.LongestWait = o.queues.LongestWait()
	c.Followers = o.followers.count()
	c.SessionLocks = o.sessionLocks.Count()
	return c
}

// Waiting returns the keys with the longest waits and those with the most waiting clients, at most
// limit.
func (o *operators) Waiting(limit int) []stat.Waiting { return o.queues.Longest(limit) }

// Locks returns a page of locks: see Quorum.ScanSeen.
func (o *operators) Locks(ctx context.Context, cursor uint64, match string, count int) (stat.LockPage, error) {
	found, err := o.opts.Inspector.ScanSeen(ctx, cursor, match, count)
	page := stat.LockPage{Next: found.Next, Seen: found.Seen, Masters: len(o.opts.Inspector.Masters())}
	if found.Fault != nil {
		page.Fault = found.Fault
	}
	for _, info := range found.Locks {
		l := lockOf(&info, o.queues.Waiters(info.Key))
		// without a fence it could be the age of an earlier lock of the key
		if info.Fence != 0 && info.Mode == quorum.Exclusive {
			l.Age = o.grants.age(info.Key, info.Fence)
		}
		page.Locks = append(page.Locks, l)
	}
	return page, err
}

// lockOf returns a lock for operators and for clients that ask. waiting is how many clients wait
// for it.
func lockOf(info *quorum.Info, waiting int) stat.Lock {
	return stat.Lock{Key: info.Key, Held: int64(info.Held), Masters: int64(info.Masters), TTL: info.TTL.Milliseconds(),
		Fence: int64(info.Fence), Owner: info.Owner, Waiting: int64(waiting), Mode: info.Mode.String(),
		Holders: int64(info.Holders), Slots: info.Slots, Type: info.Type, Adopted: info.Adopted}
}

// Masters returns the status of all masters, with the names that clients see. The reason of a slow
// master says how slow it is.
func (n *masterNames) Masters() []stat.Master {
	all := n.opts.Inspector.Masters()
	shown := slices.Clone(all)
	for i := range shown {
		shown[i].Name, shown[i].Reason = n.shownName(all, i), plain.Line(n.shownText(all, all[i].Why()))
	}
	return shown
}

// Load returns how busy the masters and this process are.
func (o *operators) Load() stat.Load { return o.opts.Inspector.Load() }

// Explain returns the text of an error of Locks or ReleaseShown in the words of a reply to
// clients.
func (o *operators) Explain(err error) string {
	if errors.Is(err, ErrNotAllowed) || errors.Is(err, ErrNeedsToken) || errors.Is(err, ErrChanged) {
		return err.Error()
	}
	return failureText(err, o.now().ShowMasters)
}
