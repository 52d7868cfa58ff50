package tool

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockproxy/conf"
	"lockproxy/plain"
)

// keeper keeps the lock of a job: it extends it, over one proxy after the other, and knows how
// long it is held for sure. One goroutine uses it.
//
// The proxy renews a SESSION lock as well, but its end ends that. EXTEND works through any proxy,
// for each kind of lock, and its answer is about this token and no other.
type keeper struct {
	*job
	asked     time.Time // when the open EXTEND was sent; zero: none is open
	confirmed time.Time // when the last one that was confirmed was sent; zero: none was
	deadline  time.Time // the end of the validity; before the first confirmation, of the ttl
	lost      bool
	down      bool   // link is broken, or gives no answer
	trouble   string // why the last proxy was given up

	moving   <-chan move // nil while no search for another proxy runs
	stopMove context.CancelFunc

	// Connections that were given up. They stay open: a proxy that only hung would take the end of
	// its connection for the end of the holder, and release the lock.
	mu   sync.Mutex
	left []io.Closer
}

// move is the end of a search for a proxy that extends the lock.
type move struct {
	link            *link // nil: none was found, or the lock is lost
	at              int   // of its address
	asked, deadline time.Time
	lost            bool
}

// checkEvery is how often the lock is extended.
func (j *job) checkEvery() time.Duration {
	return min(max(j.ttl.Duration/6, 20*time.Millisecond), 2*time.Second)
}

// reserve is how long before the end of the validity the command gets TERM.
func (k *keeper) reserve() time.Duration { return min(k.grace.Duration, k.ttl.Duration/3) }

func (j *job) extendArgs() []string {
	args := []string{"EXTEND", j.key(), j.token, plain.Duration(j.ttl.Duration)}
	return append(append(args, j.furtherKeys()...), "FULL")
}

// beat runs every checkEvery: it extends the lock, or looks for another proxy.
func (k *keeper) beat() {
	switch {
	case k.lost || k.moving != nil:
	case !k.asked.IsZero() && time.Since(k.asked) > k.checkEvery()/2: // asked one beat ago
		k.move(errNoAnswer.Error())
	case !k.asked.IsZero():
	case len(k.addresses) > 1 && !k.confirmed.IsZero() &&
		time.Since(k.confirmed) > 2*k.checkEvery():
		k.move("it cannot extend the lock")
	default:
		k.ask()
	}
}

// ask sends EXTEND.
func (k *keeper) ask() {
	k.asked = time.Now()
	k.link.SetWriteDeadline(k.asked.Add(k.checkEvery()))
	if err := k.link.send(k.extendArgs()...); err != nil {
		k.move(plain.Error(err).Error())
	}
}

// receive handles a frame from the proxy, and reports whether the lock turned out to be lost.
func (k *keeper) receive(f frame) (lost bool) {
	switch {
	case f.err != nil:
		k.move(f.err.Error())
		return false
	case f.Kind == '>':
		// it says so when it drains, too: others can still extend the lock
		told := len(f.Elems) == 4 && f.Elems[1].Scalar() == "lost" && f.Elems[3].Scalar() == k.token
		if told && k.asked.IsZero() && k.moving == nil {
			k.ask()
		}
		return false
	}
	asked := k.asked
	k.asked, k.down = time.Time{}, false
	held, validity, known := readExtended(f.proxyReply)
	switch {
	case asked.IsZero() || !known: // the proxy does not know now, and is asked again
		return false
	case !held:
		return true
	}
	k.confirm(asked, asked.Add(validity))
	return false
}

// confirm notes that the lock is held up to deadline.
func (k *keeper) confirm(asked, deadline time.Time) {
	if k.confirmed.IsZero() || deadline.After(k.deadline) {
		k.deadline = deadline
	}
	k.confirmed = asked
}

// readExtended reads the reply to EXTEND ... FULL. known is false if it leaves open whether the
// lock is held.
func readExtended(r proxyReply) (held bool, validity time.Duration, known bool) {
	if len(r.Elems) != 2 {
		return false, 0, false
	}
	millis, err := strconv.Atoi(r.Elems[1].Scalar())
	return r.Elems[0].Scalar() == "1", time.Duration(millis) * time.Millisecond, err == nil
}

// move looks for a proxy that extends the lock, while there is time. It begins with the next one
// of --addr; the last one is that which is given up, which may be back.
func (k *keeper) move(why string) {
	if k.moving != nil || k.lost {
		return
	}
	k.down = true
	k.leave(k.link)
	ctx, cancel := context.WithDeadline(context.Background(), k.deadline.Add(-k.reserve()))
	moving := make(chan move, 1)
	k.moving, k.stopMove = moving, cancel
	k.trouble = k.link.name + ": " + why
	from := k.at + 1
	go func() { moving <- k.seek(ctx, from) }()
}

// seek asks the proxies in turn, beginning with the one at from, until one knows whether the lock
// is held.
func (k *keeper) seek(ctx context.Context, from int) (m move) {
	for at := from; ctx.Err() == nil; at++ {
		if c, err := k.dial(ctx, k.addresses[at%len(k.addresses)]); err == nil {
			if m = k.extendOver(ctx, c); m.link != nil || m.lost {
				m.at = at % len(k.addresses)
				return m
			}
		}
		if (at-from+1)%len(k.addresses) > 0 {
			continue
		}
		select {
		case <-time.After(min(lockRetry, k.checkEvery())):
		case <-ctx.Done():
		}
	}
	return move{}
}

// shortest is the least time that a new proxy has for an answer.
const shortest = 100 * time.Millisecond

// dial connects to a proxy. A dead one must leave time for the others.
func (k *keeper) dial(ctx context.Context, address conf.Address) (*client, error) {
	ctx, cancel := context.WithTimeout(ctx, max(k.checkEvery(), shortest))
	defer cancel()
	return k.target.dial(ctx, address, true)
}

// extendOver extends the lock over a new connection. The proxy takes the lock over, so that it
// ends with that connection; one that does not know this extends it all the same.
func (k *keeper) extendOver(ctx context.Context, c *client) move {
	ctx, cancel := context.WithTimeout(ctx, max(k.checkEvery(), shortest))
	defer cancel()
	m := move{asked: time.Now()}
	r, err := c.ask(ctx, append(k.extendArgs(), "SESSION")...)
	if err == nil && strings.HasPrefix(r.Text, "ERR syntax error") {
		m.asked = time.Now()
		r, err = c.ask(ctx, k.extendArgs()...)
	}
	if err != nil {
		k.leave(c) // the proxy may have taken the lock over
		return m
	}
	held, validity, known := readExtended(r)
	switch {
	case !known:
		c.Close()
	case !held:
		c.Close()
		m.lost = true
	default:
		m.link, m.deadline = newLink(c), m.asked.Add(validity)
	}
	return m
}

// moved takes the end of a search, and reports whether it says that the lock is lost.
func (k *keeper) moved(m move) (lost bool) {
	k.moving = nil
	k.stopMove()
	switch {
	case m.lost:
		return true
	case m.link == nil: // the deadline decides
		return false
	}
	if !k.quiet {
		k.say("lock %s is kept over %s now (%s)", k.allKeys(), m.link.name, k.trouble)
	}
	k.use(m.link, m.at)
	k.confirm(m.asked, m.deadline)
	return false
}

// use makes l the connection in use.
func (k *keeper) use(l *link, at int) {
	k.link, k.at, k.asked, k.down = l, at, time.Time{}, false
}

// stopMoving ends a search for another proxy, and waits for its end.
func (k *keeper) stopMoving() {
	if k.moving == nil {
		return
	}
	k.stopMove()
	if m := <-k.moving; m.link != nil {
		k.use(m.link, m.at)
	}
	k.moving = nil
}

// leave keeps a connection that is given up.
func (k *keeper) leave(c io.Closer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = append(k.left, c)
}

// close closes all connections.
func (k *keeper) close() {
	k.stopMoving()
	k.link.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.left {
		c.Close()
	}
}
