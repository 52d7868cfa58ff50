package quorum

// A model of the kinds of locks: masters that keep exclusive, shared and limited locks of two
// keys, and attempts of clients to get, change and end them. It is wider than those of exclusion
// and of fences: it has time, losses of memory, and all that may follow a grant. So only small
// cases are searched through, and the others by random runs. What a master does in one script is
// one step. Messages of one attempt through one proxy keep their order, all others come in any.
//
// Time goes in steps for all alike. What is sent may be lost, or come when all is over. An answer
// counts when the message arrives; what the client makes of it may come much later.

const (
	kMasters  = 5
	kAttempts = 4
	kKeys     = 2
	kSlots    = 3
	kLane     = 6 // messages under way of one attempt to one master

	kTTL = 2 // steps of time, of a lock, of KEEP and of the quarantine
)

// kBroken names the rules that a search goes without. The zero value keeps all.
type kBroken struct {
	counters      bool // a limit is a counter on each master, without slots
	neverCounts   bool // readers never increment a counter
	alwaysCounts  bool // readers always do: safe, and a second round more often
	expiryStays   bool // a reader that leaves lets the key's expiry stand
	blind         bool // a raise is confirmed wherever it arrives
	ofGranted     bool // by a majority of those who granted
	intentVotes   bool // a writer's intent is taken for its grant
	keyByKey      bool // each of several keys is asked for by itself
	unleveled     bool // counters of several keys get their own next number, not the largest
	raiseFirst    bool // a raise is of the first key's counter
	tokenLives    bool // KEEP leaves the token in its place
	sharesQuietly bool // the change to shared leaves the counter alone
	sharesLate    bool // it holds exclusively until the change is confirmed
	fillsQuietly  bool // the first reader on a master, if a fill set it, increments nothing
	anySlot       bool // grants of different slots count together
	foundAnySlot  bool // EXTEND and KEEP count a token in any slot
	keptLong      bool // KEEP closes for longer than a master is in quarantine
	forgets       bool // a master comes back with its counters lost
}

type kMode uint8

const (
	kNothing kMode = iota
	kExclusive
	kShared
	kLimited
)

// kMay is what a holder may do, besides UNLOCK.
type kMay uint8

const (
	kMayExtend kMay = 1 << iota
	kMayShare
	kMayKeep
	kMayElsewhere // and through another proxy, whose messages overtake those of the first
)

// kRole is what one attempt asks for. It does not change.
type kRole struct {
	mode  kMode
	keys  uint8 // a bit a key
	limit uint8
	first uint8 // the slot to try first
	waits bool  // leaves an intent where readers refuse it
	turn  bool  // begins when the attempt before it has given up its lock
	back  bool  // asks for the second key first, if for each by itself
	may   kMay
}

// kOp is what a message asks for.
type kOp uint8

const (
	kNo kOp = iota
	kAcquire
	kAcquireSecond // the second key, where each is asked for by itself
	kRaise
	kExtend
	kFill
	kShare
	kKeep
	kRelease
)

// kPlace is what an attempt has at a key.
type kPlace struct {
	left, slot uint8
	dead       bool // no token opens it
}

// kKey is what stands at one key.
type kKey struct {
	mode   kMode
	left   uint8 // until the key expires, whoever is in it
	places [kAttempts]kPlace
}

// kLink is what is on its way to a master from one attempt, and what came back.
type kLink struct {
	lanes [2][kLane]kOp // the second is that of another proxy
	got   uint8         // the fence counted, refusedHere, or 0 as long as the acquire is not there
	have  uint8         // the keys granted
	slot  uint8
	raise uint8
	done  bool // what the holder asked for last is done here
}

// kMaster is one master. Masters are alike, so states are sorted by them.
type kMaster struct {
	counter [kKeys]uint8
	intent  [kKeys]uint8 // until a writer's intent is over
	keys    [kKeys]kKey
	out     uint8 // 1 + the time until the quarantine is over; 0: votes
	read    bool  // it has read the counters of others
	copied  [kKeys]uint8
	to      [kAttempts]kLink
}

type kPhase uint8

const (
	kIdle kPhase = iota
	kAsking
	kRaising
	kHolding
	kKeeping // asks to keep its keys closed
	kClosed  // and was told that they are
	kOver
)

// kAttempt is one attempt, and the lock that comes of it.
type kAttempt struct {
	phase       kPhase
	age         uint8 // since what the holder counts on was sent
	fence, slot uint8
	shared      bool // changed from exclusive
	asked       kOp  // EXTEND, with or without SHARED, or KEEP
	askedAge    uint8
	lane        uint8 // of the proxy that was asked
	undead      bool  // was extended when its keys were closed
}

// kState is one state. It is comparable.
type kState struct {
	masters                [kMasters]kMaster
	attempts               [kAttempts]kAttempt
	given                  [kLimited + 1][kKeys]uint8 // the greatest fence of a kind
	slots                  [kSlots]uint8              // the last of a slot
	extends, losses, drops uint8                      // that may still happen
}

// kRun is what does not change. Without time nothing expires.
type kRun struct {
	kBroken
	n        int
	roles    []kRole
	shares   bool // the keys share one counter
	timeless bool
}

func (r *kRun) counter(key int) int {
	if r.shares {
		return 0
	}
	return key
}

// each calls f for the keys of a.
func (r *kRun) each(a int, f func(key int)) {
	for key := range kKeys {
		if r.roles[a].keys>>key&1 == 1 {
			f(key)
		}
	}
}

// mode is that of the lock of a.
func (r *kRun) mode(s *kState, a int) kMode {
	if s.attempts[a].shared {
		return kShared
	}
	return r.roles[a].mode
}

// counts reports whether a counts on its lock, or on its keys to stay closed.
func (s *kState) counts(a int) bool {
	phase := s.attempts[a].phase
	return phase == kHolding || phase == kClosed
}

// send puts a message behind those on its way. It is lost if there are too many.
func (s *kState) send(a, m, lane int, op kOp) {
	q := &s.masters[m].to[a].lanes[lane]
	for i := range q {
		if q[i] == kNo {
			q[i] = op
			return
		}
	}
}

// proxies is through how many a holder may ask.
func (r *kRun) proxies(a int) int {
	if r.roles[a].may&kMayElsewhere != 0 {
		return 2
	}
	return 1
}

// kept is for how long KEEP closes a key.
func (r *kRun) kept() uint8 {
	if r.keptLong {
		return kTTL + 1
	}
	return kTTL
}
