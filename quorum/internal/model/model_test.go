package model

// Masters keep exclusive, shared and limited locks of two keys. Attempts of clients get, change
// and end them. A script on a master is one step. Messages of one attempt through one proxy keep
// their order; all others may overtake each other.
//
// Time passes in equal steps for all. A message may be lost, or arrive late. An answer counts when
// the message arrives; the client may act on it much later. A master refuses what sets keys once
// the ttl has passed since it was sent; the model drops such messages by then.
//
// Small cases are searched exhaustively, larger ones by random runs.

const (
	maxMasters  = 5
	maxAttempts = 4
	maxKeys     = 2
	maxSlots    = 3
	maxProxies  = 2
	laneLength  = 6 // messages under way from one attempt to one master

	ttl = 2 // of a lock, of KEEP and of the quarantine, in steps
)

// broken names rules to leave out. The zero value keeps all.
type broken struct {
	unfenced bool // no fences at all: a setting, and locks exclude all the same

	unraised   bool // the largest fence of a majority is not written back
	blind      bool // every master confirms a raise
	ofGranted  bool // a majority of the granting masters confirms
	unleveled  bool // each of several keys gets its own next number, not the largest
	raiseFirst bool // a raise changes only the first key's counter

	uncompared bool // a master runs messages sent under another record
	unmarked   bool // a master without a record votes at once
	hasty      bool // a proxy waits for less than a ttl
	countsOn   bool // another mark does not restart the wait
	forgets    bool // a master votes again without its counters
	early      bool // it reads those of others before its wait ends
	oneToken   bool // two attempts of one proxy have the same token

	neverCounts   bool // readers never increment a counter
	alwaysCounts  bool // readers always do: safe, and a second round more often
	fillsQuietly  bool // a fill by the first reader does not increment
	expiryStays   bool // a reader that leaves does not lower the key's expiry
	intentVotes   bool // a writer counts its intent as a grant
	sharesQuietly bool // the change to shared does not increment the counter
	sharesLate    bool // the holder is exclusive until the change is confirmed

	counters     bool // each master counts holders, without slots
	anySlot      bool // grants of different slots count together
	foundAnySlot bool // EXTEND and KEEP count a token in any slot

	keyByKey   bool // each of several keys has a message of its own
	grantsLate bool // masters do not see how old an acquire is
	fillsLate  bool // or a fill

	tokenLives bool // KEEP leaves the token in its place
	keptLong   bool // KEEP closes for longer than a master is in quarantine
}

type mode uint8

const (
	nothing mode = iota
	exclusive
	shared
	limited
)

// may lists commands of a holder besides UNLOCK.
type may uint8

const (
	mayExtend may = 1 << iota
	mayShare
	mayKeep
	mayElsewhere // through the other proxy too, on another lane
)

// role describes one attempt's request. It does not change.
type role struct {
	mode   mode
	keys   uint8 // one bit for each key
	limit  uint8
	first  uint8 // the slot to try first
	proxy  uint8 // of the attempt, 0 or 1
	waits  bool  // leaves an intent where readers refuse it
	turn   bool  // begins after the end of the previous attempt
	onLane bool  // and uses the same lanes
	back   bool  // with keyByKey: asks for the second key first
	may    may
}

// op is the operation of a message.
type op uint8

const (
	none op = iota
	acquire
	acquireSecond // with keyByKey: the second key
	raise
	extend
	fill
	share
	keep
	release
)

// older is added to an acquire or a fill on its way for each step of time since the attempt or the
// EXTEND began.
const older op = 16

func (o op) kind() op { return o % older }

// sets reports whether the operation sets keys.
func (o op) sets() bool { k := o.kind(); return k == acquire || k == acquireSecond || k == fill }

var opNames = [...]string{"", "acquire", "acquire second", "raise", "extend", "fill", "share", "keep", "release"}

// place is the entry of a token at a key.
type place struct {
	left, slot uint8
	dead       bool // closed by KEEP
}

// key is the value of one key on a master.
type key struct {
	mode   mode
	left   uint8 // until the key expires
	places [maxAttempts]place
}

const refused = 255

type raised uint8

const (
	unsent raised = iota
	sent
	confirmed
	denied
)

// link holds the messages from one attempt to one master, and the answers.
type link struct {
	lanes [maxProxies][laneLength]op // by proxy, the own one first
	got   uint8                      // the fence, refused, or 0 before the acquire arrives
	have  uint8                      // the keys granted
	slot  uint8
	raise raised
	done  bool // the holder's last command succeeded here
	again bool // its release ran, and may arrive once more
}

// master is the state of one master, and of the messages to it.
type master struct {
	counter [maxKeys]uint8
	intent  [maxKeys]uint8 // until a writer's intent ends
	keys    [maxKeys]key
	record  record
	seen    [maxProxies]sight
	read    bool // its admission has read the counters of others
	copied  [maxKeys]uint8
	to      [maxAttempts]link
}

type phase uint8

const (
	idle phase = iota
	asking
	raising
	holding
	keeping // waits for the answer to KEEP
	closed  // KEEP succeeded
	expired // its validity has ended, and it may still send EXTEND
	over
)

// attempt is the state of one attempt, and of its lock.
type attempt struct {
	phase       phase
	age         uint8 // since the command that the validity counts from
	fence, slot uint8
	shared      bool // changed from exclusive
	asked       op   // EXTEND, with or without SHARED, or KEEP
	askedAge    uint8
	lane        uint8 // of the command asked
	undead      bool  // an EXTEND succeeded after KEEP
	late        bool  // an EXTEND succeeded after a later token was given out
}

// events counts what may still happen.
type events struct{ extends, losses, drops, repeats uint8 }

const all = 255 // any number of drops

// state is comparable.
type state struct {
	masters  [maxMasters]master
	attempts [maxAttempts]attempt
	given    [limited + 1][maxKeys]uint8 // the largest fence given out, by kind
	slots    [maxSlots]uint8             // the same by slot
	events
}

// run holds the fixed part of a search. Timeless locks do not expire.
type run struct {
	broken
	n        int // masters
	proxies  int // that look at records
	roles    []role
	shares   bool // the keys share one counter
	timeless bool

	untidy bool           // search without reductions
	met    func(s *state) // called with each new state, if not nil
}

// majority is stated here once more, independent of the code.
func (r *run) majority() int { return r.n/2 + 1 }

func (r *run) counter(key int) int {
	if r.shares {
		return 0
	}
	return key
}

// token returns the index of a among the places of a key.
func (r *run) token(a int) int {
	if r.oneToken && r.roles[a].onLane {
		return a - 1
	}
	return a
}

// each calls f for the keys of a.
func (r *run) each(a int, f func(key int)) {
	for key := range maxKeys {
		if r.roles[a].keys>>key&1 == 1 {
			f(key)
		}
	}
}

// mode returns the current mode of the lock of a.
func (r *run) mode(s *state, a int) mode {
	if s.attempts[a].shared {
		return shared
	}
	return r.roles[a].mode
}

// counts reports whether a relies on its lock, or on KEEP.
func (s *state) counts(a int) bool {
	phase := s.attempts[a].phase
	return phase == holding || phase == closed
}

// lanes returns how many proxies a holder uses.
func (r *run) lanes(a int) int {
	if r.roles[a].may&mayElsewhere != 0 {
		return maxProxies
	}
	return 1
}

// send appends a message to a lane, and drops it if the lane is full. Only releases go to masters
// without a vote. A master that has another record refuses the rest, so they are not even sent.
func (r *run) send(s *state, a, m, lane int, o op) {
	at := &s.masters[m]
	seen := at.seen[(int(r.roles[a].proxy)+lane)%maxProxies]
	if o != release && (seen.record != votes || seen.stale && !r.uncompared) {
		return
	}
	q := &at.to[a].lanes[lane]
	for i := range q {
		if q[i] == none {
			q[i] = o
			return
		}
	}
}

// pop removes the first message of a lane.
func (l *link) pop(lane int) op {
	q := &l.lanes[lane]
	first := q[0]
	copy(q[:], q[1:])
	q[laneLength-1] = none
	return first
}

// wait returns how long a proxy waits after it saw a mark.
func (r *run) wait() uint8 {
	if r.hasty {
		return ttl - 1
	}
	return ttl
}

// kept returns how long KEEP closes a key.
func (r *run) kept() uint8 {
	if r.keptLong {
		return ttl + 1
	}
	return ttl
}
