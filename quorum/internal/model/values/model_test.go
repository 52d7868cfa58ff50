package values

// Masters keep one key. Calls take it with a secret of their own, and refresh or release it by its
// value, which other takes may have too. Each call goes through a proxy of its own: messages of
// one call to one master keep their order, and all others may overtake each other.
//
// Time passes in equal steps for all. Every time here is relative to now. A message may be lost,
// or arrive late. An answer counts when the message arrives; the proxy may act on it much later.

const (
	maxMasters = 5
	maxCalls   = 6
	laneLength = 4 // messages under way from one call to one master

	soon    = 1 // how old messages become, for prompt runs
	answers = 1 // the time that the masters have to answer
	stamps  = 8 // ends differ by the number of their changes, up to this
)

// broken names rules to leave out. The zero value keeps all.
type broken struct {
	exact       bool // masters get the ttl that is promised
	unnamed     bool // a shortening replaces any end
	equalEnds   bool // a refresh need not change the end
	neighbours  bool // a refresh changes the end only if it would be the same
	longerIsYes bool // a lock that ends later counts as refreshed, without a second answer
	tooLate     bool // a shortening begins its second round after the reply
	hasty       bool // the second round begins before a majority has the lock
	anySeen     bool // a call acts on any secret that a master has shown
	winnerOnly  bool // a value without a majority is not held
	undoByValue bool // a failed take deletes every lock with its value
	revives     bool // a refresh sets a key that is free
	owed        bool // top-ups wait until a master is back
	oneDecides  bool // a check concludes from one master that the lock was released
	shortWait   bool // a master that forgot is out for the longest ttl, without the extra
}

type kind uint8

const (
	take kind = iota
	refresh
	release
	check // of a take: is the lock still held?
)

// role describes one call. It does not change.
type role struct {
	kind  kind
	value uint8
	ttl   uint8 // promised by a take or refresh
	after int8  // begins when that call has ended; -1: at any time
	knows int8  // the take whose secret the proxy remembers, and a check asks about; -1: none
}

type op uint8

const (
	none op = iota
	acquire
	undo
	inspect
	renew
	cut
	topUp
	free
	ask
	fade
)

var opNames = [...]string{"", "acquire", "undo", "inspect", "renew", "cut", "top-up", "free", "ask", "fade"}

// end is when a lock ends. Two equal times differ by the stamp.
type end struct{ left, stamp uint8 }

type message struct {
	op  op
	end end // cut: the one to replace; top-up: the time that is left
	age uint8
}

type said uint8

const (
	silent said = iota
	no
	yes
	lowered // yes, after it was longer
	longer
)

// link holds the messages from one call to one master, and the answers.
type link struct {
	lane [laneLength]message
	said said
	end  end   // of longer
	seen uint8 // by inspect: 1 + the secret; 0: no answer
	vote bool  // the grant of this master was counted
}

type master struct {
	secret uint8 // 1 + the take that has the key; 0: free
	end    end
	out    uint8 // how long it does not vote, because it forgot
	to     [maxCalls]link
}

type phase uint8

const (
	idle phase = iota
	finding
	asking
	won
	over // without success
)

// call is the state of one call. The second part says what can be relied on.
type call struct {
	phase  phase
	age    uint8
	secret uint8 // 1 + a take

	before uint8 // the calls that had ended when it began
	until  uint8 // how long its promise lasts
	void   bool  // another call may have ended the promise
	letGo  uint8 // after this time no majority has the lock
	clear  bool  // no other call has made it longer since
	acts   bool  // it has released or shortened the lock
	whole  bool  // take: a majority had the secret at one moment
	gone   bool  // take: and then no longer
	late   bool  // refresh: the lock was gone before
}

type state struct {
	masters [maxMasters]master
	calls   [maxCalls]call
	losses  uint8
	ticks   uint8 // that may still pass
}

// run holds the fixed part of a search.
type run struct {
	broken
	n      int
	roles  []role
	prompt bool // acquires and top-ups land soon or never
	loses  bool // masters may forget
}

func (r *run) majority() int { return r.n/2 + 1 }

// life returns how long masters keep a lock for which ttl is promised.
func (r *run) life(ttl uint8) uint8 {
	if r.exact {
		return ttl
	}
	return ttl + answers
}

// wait returns how long a master is out that forgot: longer than any key lives.
func (r *run) wait() (longest uint8) {
	for _, role := range r.roles {
		longest = max(longest, role.ttl)
	}
	if r.shortWait {
		return longest
	}
	return longest + answers
}

// send appends a message to a lane, and drops it if the lane is full or the master is out.
func (s *state) send(i, m int, msg message) {
	lane := &s.masters[m].to[i].lane
	if s.masters[m].out > 0 {
		return
	}
	for k := range lane {
		if lane[k].op == none {
			lane[k] = msg
			return
		}
	}
}

func (l *link) pop() message {
	first := l.lane[0]
	copy(l.lane[:], l.lane[1:])
	l.lane[laneLength-1] = message{}
	return first
}

func (s *state) holders(secret uint8) (n int) {
	for m := range s.masters {
		if s.masters[m].secret == secret {
			n++
		}
	}
	return n
}

// keep returns how many masters keep a lock for so long.
func (s *state) keep(secret, left uint8) (n int) {
	for m := range s.masters {
		if at := &s.masters[m]; at.secret == secret && at.end.left >= left {
			n++
		}
	}
	return n
}

func (s *state) count(i int, what ...said) (n int) {
	for m := range s.masters {
		for _, w := range what {
			if s.masters[m].to[i].said == w {
				n++
			}
		}
	}
	return n
}

// arrive runs the first message of a call on a master.
func (r *run) arrive(s *state, i, m int) {
	at, c := &s.masters[m], &s.calls[i]
	l, life := &at.to[i], r.life(r.roles[i].ttl)
	msg := l.pop()
	has := at.secret != 0 && at.secret == c.secret
	answer := no
	switch msg.op {
	case acquire:
		if at.secret == 0 {
			at.set(c.secret, r.changed(at.end, life))
			answer = yes
		}
	case undo:
		if has || r.undoByValue && at.secret != 0 && r.roles[at.secret-1].value == r.roles[i].value {
			at.free()
		}
		return
	case inspect:
		if c.phase == finding {
			l.seen = 1 + at.secret
		}
		return
	case renew, cut:
		answer = r.refresh(s, i, m, msg)
	case topUp:
		r.topUp(s, i, m, msg)
		return
	case free:
		if has {
			at.free()
			answer = yes
		}
	case ask:
		if has {
			answer = yes
		}
	case fade:
		if has {
			at.end.left = min(at.end.left, 1)
		}
		return
	}
	if c.phase == asking || r.tooLate {
		l.said = answer
	}
}

// topUp sets the lock of a call, or makes it longer.
func (r *run) topUp(s *state, i, m int, msg message) {
	at, secret := &s.masters[m], s.calls[i].secret
	if at.secret == 0 || at.secret == secret && msg.end.left > at.end.left {
		at.set(secret, r.changed(at.end, msg.end.left))
	}
	if msg.age <= soon { // it was on its way: a limit
		s.lengthened(i)
	}
}

func (at *master) set(secret uint8, till end) { at.secret, at.end = secret, till }

func (at *master) free() { at.secret, at.end.left = 0, 0 }

// refresh changes the end of the lock of a call, and returns the answer.
func (r *run) refresh(s *state, i, m int, msg message) said {
	at, c, left := &s.masters[m], &s.calls[i], r.life(r.roles[i].ttl)
	if at.secret != c.secret {
		if r.revives && at.secret == 0 {
			at.set(c.secret, r.changed(at.end, left))
			return yes
		}
		return no
	}
	later := left >= at.end.left
	if !later && !r.unnamed && (msg.op != cut || msg.end != at.end) {
		if msg.op == cut { // another refresh came between the rounds
			c.clear = false
			return lowered
		}
		at.to[i].end = at.end
		return longer
	}
	if later {
		s.lengthened(i)
	}
	at.end = r.changed(at.end, left)
	if msg.op == cut {
		return lowered
	}
	return yes
}

// lengthened notes that a call has made its lock longer, on purpose of the client.
func (s *state) lengthened(i int) {
	for j := range s.calls {
		if j != i && s.calls[j].secret == s.calls[i].secret {
			s.calls[j].clear = false
		}
	}
}

// changed returns the end that follows another one.
func (r *run) changed(was end, left uint8) end {
	switch {
	case r.equalEnds:
		return end{left: left}
	case r.neighbours && left != was.left:
		return end{left: left}
	}
	return end{left, (was.stamp + 1) % stamps}
}
