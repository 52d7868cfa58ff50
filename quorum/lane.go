package quorum

import (
	"bufio"
	"errors"
	"maps"
	"net"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	// maxUnanswered is how many commands may wait on a lane; with more its master counts as "no answer" at once.
	maxUnanswered = 4096
	// silence is how long a PING may go unanswered, and bytes unacknowledged, before the lane is dead.
	silence = 2 * time.Second
	// tickEvery is the time between two PINGs and between two tries of what is owed.
	tickEvery = time.Second
)

// laneHost is what a lane needs of its Quorum. All methods are safe for concurrent use and never block; they may be
// called with the lane's mu held.
type laneHost interface {
	// claim makes runID the lane's own; if a lane that is connected has it already, that one is returned.
	claim(runID string, lane int) (other int, ok bool)
	unclaim(lane int)
	// looked is told what a lane found on its master; lost, that its connection has ended.
	looked(lane int, v view)
	lost(lane int)
	// toppedUp is told that a top-up set the key, or found it set, or may have; until is when the ttl is over that the voters confirmed.
	toppedUp(k debtKey, v voters, until time.Time)
	// releasedLate is told that the lock was still on a master some time after it was unlocked.
	releasedLate(k debtKey)
	// settled is told when a closing lane may have nothing left to wait for.
	settled()
}

// lane is the one connection to a master and what is known about it. Commands are queued by send and release from any
// goroutine; a supervisor connects, and a writer and a reader live as long as each connection.
type lane struct {
	index  int
	opts   *MasterOptions
	names  []string // of all masters
	enc    *encoder
	maxTTL time.Duration
	host   laneHost
	log    *zap.Logger
	dice   *dice
	epoch  time.Time     // when the lane was made; the lane's clock is the time since
	first  chan struct{} // closed by once, when it is known what the master is good for, or that it cannot be reached
	once   sync.Once

	mu        sync.Mutex
	conn      *laneConn // nil unless the master has been greeted
	votes     bool      // it votes; never while conn is nil
	record    string    // under which it votes; empty for any
	state     State
	reason    error     // why it does not vote
	since     time.Time // of state
	closing   bool      // no new work but releases
	out       []byte    // commands not taken by the writer yet
	unwritten int       // how many commands out holds: the last ones of pending
	pending   ring
	known     [numScripts]bool // the master has the script, or will have it before it reads the next command
	owed      owed
	backlog   bool      // something in owed is idle although the lane votes: it was full
	pinged    time.Time // when the PING on the lane was queued; zero without one
	status    MasterStatus
	grumbled  time.Time // when dropped debts were last logged
	warned    string    // what was logged last about why the master does not vote
	confined  bool      // it has been in quarantine since it last voted

	facts         facts // of the server, as it said last
	looking       bool  // a look is on its way
	offset        clockGuard
	stepped       bool   // the clock has stepped; until forgive
	evictedBefore int64  // evictions of this run that are forgiven
	demoted       string // run_id of a server that has been a replica; until forgive

	// Of the connection that voted last, for the hand-over; used by the supervisor only.
	lastID    int64
	lastRunID string
	handovers uint64
}

// laneConn is one connection of a lane.
type laneConn struct {
	net.Conn
	raw    syscall.RawConn // of Conn, for writeNow; nil if that is not a plain socket
	in     *bufio.Reader
	wake   chan struct{} // holds a value when out has something for the writer
	broken chan struct{} // closed once, by fail
	once   sync.Once
}

// send queues c. It fails at once, with the reason, if the master does not vote or too much is unanswered; then c.to is
// not told.
func (l *lane) send(c command) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sendLocked(c)
}

func (l *lane) sendLocked(c command) error {
	switch {
	case l.conn == nil, !l.votes && c.op.votes():
		return l.reason
	case l.closing && c.op != opRelease:
		return errClosing
	case l.pending.n >= maxUnanswered:
		return errFull
	}
	l.pushLocked(c)
	return nil
}

// pushLocked queues c on a lane that votes, whatever waits there already. The body of the script goes along where the
// master may not have it; what is queued behind finds it there, as a lane keeps the order.
func (l *lane) pushLocked(c command) {
	body := c.again
	if c.op < numScripts && (body || !l.known[c.op]) {
		body, l.known[c.op] = true, true
	}
	c.sent = time.Since(l.epoch)
	record := l.record
	if c.op == opRelease && c.to == nil {
		record = "" // it is no vote
	}
	l.out = l.enc.append(l.out, &c, body, record)
	l.pending.push(c)
	l.unwritten++
	if l.unwritten > 1 || l.pending.n == 1 && l.writeNowLocked() {
		return
	}
	select {
	case l.conn.wake <- struct{}{}:
	default:
	}
}

// release makes the lane owe the release of a token, and queues it if the master is connected. landed says that the
// SET of the token has been answered, so that its key lives at most d.ttl from now; without it the SET may be on its way
// still. to is told the answer if the result is nil; the answer of a master that does not vote is none.
func (l *lane) release(d debt, landed bool, to receiver) error {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	d.kind = owesRelease
	// A lane that has been down for a whole max-ttl carries no SET of a token that is still good for anything.
	if landed || (l.conn == nil && now.Sub(l.since) >= l.maxTTL) {
		d.drop = now.Add(d.ttl)
	}
	stands := l.oweLocked(d, now)
	return l.sendReleaseLocked(stands, to)
}

func (l *lane) sendReleaseLocked(d *debt, to receiver) error {
	if !l.votes {
		to = nil
	}
	err := l.sendLocked(command{op: opRelease, to: to, key: d.key, secret: d.secret, publish: d.publish})
	switch {
	case err == nil:
		l.owed.mark(d, debtSent)
		if !l.votes {
			return l.reason
		}
	case l.conn != nil:
		l.backlog = true
	}
	return err
}

// topUp makes the lane owe a top-up until the ttl of the lock runs out. lost says that the SET of the lock was
// written and may still land. A token that is being released is left alone.
func (l *lane) topUp(d debt, lost bool) {
	now := time.Now()
	if rest := d.until.Sub(now); rest < minTopUp && !lost {
		return
	}
	d.kind = owesTopUp
	l.mu.Lock()
	defer l.mu.Unlock()
	// A lane that is connected again has handed over since: what was lost can land no more.
	if !lost || l.conn != nil {
		d.drop = d.until
	}
	l.oweLocked(d, now)
	// It goes out at the next tick or after the next hand-over: a master that has just failed to answer is left alone
	// until then.
}

// fill is topUp for a master that has just said that the token does not stand there: it goes out at once.
func (l *lane) fill(d debt) {
	now := time.Now()
	if d.until.Sub(now) < minTopUp {
		return
	}
	d.kind, d.drop = owesTopUp, d.until
	l.mu.Lock()
	defer l.mu.Unlock()
	if stands := l.oweLocked(d, now); stands.kind == owesTopUp && l.votes {
		l.sendTopUpLocked(stands, now)
	}
}

func (l *lane) oweLocked(d debt, now time.Time) *debt {
	stands, dropped := l.owed.put(d, now)
	if dropped > 0 && now.Sub(l.grumbled) >= time.Minute {
		l.grumbled = now
		l.log.Warn("too much is owed to a master, releases dropped", zap.String("master", l.names[l.index]), zap.Int("dropped", dropped))
	}
	return stands
}

// owesRelease reports whether the release of the token is on its way.
func (l *lane) owesRelease(k debtKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.owed.m[k]
	return d != nil && d.kind == owesRelease
}

// sendOwedLocked queues what is owed, as far as there is room; failed ones only where told to.
func (l *lane) sendOwedLocked(now time.Time, failed bool) {
	l.backlog = false
	for d := range l.owed.all {
		if d.state == debtSent || (d.state == debtFailed && !failed) {
			continue
		}
		if l.pending.n >= maxUnanswered {
			l.backlog = true
			return
		}
		if d.kind == owesRelease {
			_ = l.sendReleaseLocked(d, nil)
			continue
		}
		if l.votes {
			l.sendTopUpLocked(d, now)
		}
	}
}

func (l *lane) sendTopUpLocked(d *debt, now time.Time) {
	rest := d.until.Sub(now).Truncate(time.Millisecond)
	if rest < minTopUp {
		if !d.drop.IsZero() {
			l.owed.remove(d)
		}
		return
	}
	if l.sendLocked(command{op: opTopUp, key: d.key, secret: d.secret, fence: d.fence, owner: d.owner, voters: d.voters, ttl: rest}) == nil {
		l.owed.mark(d, debtSent)
		d.drop = time.Time{} // from here on it may land
	}
}

// beginClose refuses new work from now on, releases excepted.
func (l *lane) beginClose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
}

// unsettled is how many releases the master, which is connected, has not answered yet.
func (l *lane) unsettled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return 0
	}
	return l.owed.active
}

// masterStatus is how the master stands.
func (l *lane) masterStatus() MasterStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Name, s.State, s.Since, s.Owed, s.Unanswered = l.names[l.index], l.state, l.since, len(l.owed.m), l.pending.n
	if !l.votes {
		s.Reason = plain(l.reason.Error())
	}
	if q, ok := errors.AsType[*quarantine](l.reason); ok && !l.votes {
		s.VotesIn = max(time.Until(q.until), 0)
	}
	s.ByKind = maps.Clone(s.ByKind)
	return s
}
