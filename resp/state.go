package resp

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// replyMode is what CLIENT REPLY has made of the connection.
type replyMode uint8

const (
	replyOn      replyMode = iota
	replySkip              // CLIENT REPLY SKIP was sent: the next command gets no reply
	replyOff               // CLIENT REPLY OFF was sent
	replyUnknown           // it may be off: until CLIENT REPLY ON or RESET is seen to work
)

// maxWaiting is how many of those a connection remembers at a time. A client may send any number before it reads the first reply, and the
// replies wait in the upstream; what is known of them waits here.
const maxWaiting = 1 << 14

// pending is a forwarded command whose reply changes what is known of the connection.
type pending struct {
	seq   uint64 // how many replies come before its own
	user  string // of AUTH and HELLO: who is logged in if it is accepted, and of RESET if skipped is set; empty: that cannot be told
	epoch uint32 // of the state when it was sent
	lapse uint32 // likewise
	kind  kind
	sure  bool // when it was sent every reply could be counted
	auth  bool // of HELLO: AUTH was given
	login bool // of AUTH and HELLO: it may change the user
	two   bool // of HELLO: it asks for RESP2
	shard bool // of SUBSCRIBE: it is SSUBSCRIBE or SUNSUBSCRIBE

	skipped bool // CLIENT REPLY SKIP stood before it: no reply is its own, and seq is that of the next command
}

// onset is from when on what a command brings, beside its reply, may stand among the replies. What comes before is a reply, whatever it
// looks like: else one that looks otherwise could move the number of every reply behind it. The zero value: it was not sent.
type onset struct {
	sent bool
	seq  uint64 // how many replies come before; 0 where that is not certain
}

// begin notes that p was sent. The first counts.
func (o *onset) begin(p pending) {
	if o.sent {
		return
	}
	if o.sent = true; p.sure {
		o.seq = p.seq
	}
}

// passed tells whether it may have begun when so many replies have come.
func (o onset) passed(received uint64) bool { return o.sent && received >= o.seq }

// state is what the proxy knows of a connection's standing with the upstream. The pump notes what is sent, the copier what is
// answered; replies belong to requests by their number. Where that is not certain, irregular is set: from then on only a marker
// tells how far the upstream has got, and numbers start anew behind it.
//
// What it gets wrong may only ever refuse a lock command: a session is authenticated if the upstream's own answer said so.
type state struct {
	sent     atomic.Uint64 // replies to be expected for what was forwarded; written by the pump
	received atomic.Uint64 // replies counted; written by the copier, or by the pump while it is certain that none is on its way
	watching atomic.Bool   // every frame counts for the state, not only their number
	renewing atomic.Bool   // a RESET is waiting for its answer

	mu        sync.Mutex
	waiting   []pending // in the order sent
	multis    int       // of waiting: MULTI
	resets    int       // of waiting: RESET
	telling   bool      // a RESET was answered, and the others are being told: what they keep for the connection is of before
	irregular bool
	doubt     bool   // what was taken for the answer to a RESET may have been another's, so numbers are not certain before the next marker
	epoch     uint32 // how often something was sent or came that makes counting uncertain
	lapse     uint32 // how often something came that makes it so, also for what was sent before
	synced    uint64 // sent, when a marker last came back, and epoch then
	syncEpoch uint32
	mode      replyMode
	onSent    bool   // CLIENT REPLY ON was sent in mode replyUnknown
	offSeq    uint64 // in mode replyOff, how many replies come before a refusal of CLIENT REPLY OFF
	resp3     bool
	authed    bool
	user      string // who is logged in; empty: not known for certain
	wasAuthed bool   // before the RESET that is pending
	inTx      bool
	since     struct { // what was sent behind the last RESET
		mode    replyMode // before it
		reply   bool      // CLIENT REPLY
		assumed bool      // MULTI, whose reply will not be seen
	}
	monitor   onset  // MONITOR was sent
	subscribe onset  // a command of the SUBSCRIBE family was sent
	subs      [2]int // RESP2 subscriptions: channels and patterns; shard channels
	queued    struct {
		auth, reply, subscribe bool
		subscribeLast          bool // nothing was queued behind the last of the SUBSCRIBE family
		shard                  bool // one of that was a shard's
		two                    bool // the last HELLO asks for RESP2
	} // what waits for EXEC
	lost struct { // what did not fit into waiting, since the last marker
		any, login, reset bool

		tx kind // kMulti or kExec: the last that begins or ends a transaction; plain: none
	}
}

// regular tells whether everything that was sent is answered for certain and nothing stands between the connection and a reply.
func (s *state) regular() bool {
	if s.watching.Load() || s.sent.Load() != s.received.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.inTx && s.mode == replyOn && !s.irregular && !s.doubt && len(s.waiting) == 0 && !s.telling
}

// countable tells whether the next command gets one reply of its own, and which one that is.
func (s *state) countable() bool {
	if s.watching.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.inTx && s.mode == replyOn && !s.irregular && !s.telling
}

// told ends telling.
func (s *state) told() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.telling = false
}

// settled tells whether, as far as can be known, everything sent is answered and no transaction is open. Subscriptions do not matter.
func (s *state) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.Load() <= s.received.Load() && !s.inTx && len(s.waiting) == 0 && !s.lost.any
}

// mayBeAuthed tells whether the connection is authenticated, or may be by a command whose answer is not there yet.
func (s *state) mayBeAuthed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.authed || s.lost.login || slices.ContainsFunc(s.waiting, func(p pending) bool { return p.login })
}

// turningOn tells whether a CLIENT REPLY ON is on its way, whose +OK will show that the upstream answers again.
func (s *state) turningOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode == replyUnknown && s.onSent
}

// resetInDoubt tells whether the answer to the RESET that was just sent cannot be told from another's for certain. A marker behind it can be
// waited for: it is answered whether or not the RESET is accepted.
func (s *state) resetInDoubt() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.waiting)
	return n > 0 && s.waiting[n-1].kind == kReset && !s.waiting[n-1].sure && s.mode == replyOn
}

// silent tells whether the upstream may not answer a marker, and so must be sent a lock command as it is.
func (s *state) silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode != replyOn
}

// resync notes that everything sent was answered: a marker came back.
func (s *state) resync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced, s.syncEpoch = s.sent.Load(), s.epoch
	s.received.Store(s.synced)
	for _, p := range s.waiting { // their replies were not found; AUTH stays unproven
		s.assumeLocked(p)
	}
	s.waiting, s.multis, s.resets, s.doubt = nil, 0, 0, false
	if s.lost.any {
		s.assumeLocked(pending{kind: s.lost.tx, login: s.lost.login})
		if s.lost.reset {
			s.assumeLocked(pending{kind: kReset})
		}
		s.lost.any, s.lost.login, s.lost.reset, s.lost.tx = false, false, false, plain
	}
	s.watchLocked()
}

// lose notes that replies cannot be counted any more.
func (s *state) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapseLocked()
	s.watchLocked()
}

// lapseLocked is called for a reply behind which replies may not be counted right, whatever they answer.
func (s *state) lapseLocked() { s.irregular, s.epoch, s.lapse = true, s.epoch+1, s.lapse+1 }

func (s *state) watchLocked() {
	s.watching.Store(s.irregular || len(s.waiting) > 0)
	s.renewing.Store(s.resets > 0)
}

// empty is called, where note would be, for a request without arguments. Redis ignores it, but lets it use up CLIENT REPLY SKIP.
func (s *state) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode == replySkip {
		s.mode = replyOn
	}
}

// note is called for a request before it is forwarded, if it is a notable one or the one after CLIENT REPLY SKIP. argv has its first
// arguments, in front of which the name is left out or not; count says how many there are. tunnel: nothing may be recognised behind it. single: the next request
// must be noted too.
func (s *state) note(k kind, argv [][]byte, count int) (tunnel, single bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.watchLocked()
	arg := func(i int) string {
		if i < len(argv) {
			text, _, _ := strings.Cut(string(argv[i][:min(len(argv[i]), keepNotableArg)]), "\x00") // Redis compares it as C does
			return strings.ToLower(text)
		}
		return ""
	}
	p := pending{kind: k, seq: s.sent.Load(), sure: !s.irregular && !s.doubt || s.synced == s.sent.Load() && s.syncEpoch == s.epoch, epoch: s.epoch, lapse: s.lapse}
	switch k {
	case kShard:
		k, p.kind, p.shard = kSubscribe, kSubscribe, true
	case kAuth, kHello:
		p.user, p.login = loginOf(k, argv, count)
	}
	switch {
	case k == kSync, k == kScript && arg(1) == "debug" && arg(2) != "no":
		s.irregular, s.epoch = true, s.epoch+1
		return true, false
	case k == kClient && arg(1) == "reply":
		return false, s.noteReplyLocked(arg(2))
	case s.mode == replySkip:
		s.mode = replyOn
		switch k {
		case kSubscribe:
			s.subscribe.begin(p)
		case kMonitor:
			s.monitor.begin(p)
		}
		if k == kReset && count == 1 { // else it is refused
			p.user = defaultUser
		}
		s.skippedLocked(p)
		return false, false
	}
	if k == kSubscribe { // answered by any number of frames that are not counted, or by an error that is not counted either
		s.irregular, s.epoch = true, s.epoch+1
		s.subscribe.begin(p)
		s.expectLocked(p)
		return false, false
	}
	s.sent.Add(1)
	switch k {
	case kMonitor:
		s.irregular, s.epoch = true, s.epoch+1
		s.monitor.begin(p)
	case kDebug:
		s.irregular, s.epoch = true, s.epoch+1
	case kHello:
		p.two, p.auth = arg(1) == "2", arg(2) == "auth" || arg(2) == "setname" && arg(4) == "auth"
	case kReset:
		s.wasAuthed, s.authed = s.authed, false
		s.since.mode, s.since.reply, s.since.assumed = s.mode, false, false
	}
	switch k {
	case kAuth, kHello:
		if s.mode == replyOff { // another user may not be allowed to switch replies on again
			s.mode, s.onSent = replyUnknown, false
		}
	case kExec:
		if s.queued.reply { // from here on replies may be off; the array that EXEC announces then never gets its elements
			s.mode, s.onSent = replyUnknown, false
			s.expectLocked(p)
			return false, false
		}
	case kMulti, kDiscard, kReset:
	default:
		return false, false
	}
	if s.mode == replyOn || k == kReset || len(s.waiting) > 0 { // behind one whose reply is coming, so that they count in their order
		s.expectLocked(p)
	} else {
		s.assumeLocked(p)
	}
	return false, false
}

// skippedLocked notes p, which has no reply. What was sent before it may not be answered yet, so who is logged in is settled once more
// behind that.
func (s *state) skippedLocked(p pending) {
	p.skipped = true
	s.assumeLocked(p)
	if p.login || p.kind == kReset {
		s.expectLocked(p)
	}
}

// expectLocked puts p into the line. Where there is no room what becomes of it is only known behind the next marker, and so nothing is
// certain until then: stopping to read the client instead would stop one for ever that writes everything before it reads.
func (s *state) expectLocked(p pending) {
	if !s.lost.any && len(s.waiting) < maxWaiting {
		s.waiting = append(s.waiting, p)
		switch p.kind {
		case kMulti:
			s.multis++
		case kReset:
			if !p.skipped {
				s.resets++
			}
		}
		return
	}
	s.irregular, s.epoch, s.lost.any = true, s.epoch+1, true
	s.lost.login = s.lost.login || p.login
	s.lost.reset = s.lost.reset || p.kind == kReset
	switch p.kind {
	case kMulti:
		s.lost.tx = kMulti
	case kExec, kDiscard, kReset:
		s.lost.tx = kExec
	}
}

// leavingTxLocked tells whether the transaction that is open, as far as is known, may be over when what is sent next arrives.
func (s *state) leavingTxLocked() bool {
	ends := func(p pending) bool { return p.kind == kExec || p.kind == kDiscard || p.kind == kReset }
	return s.since.assumed || slices.ContainsFunc(s.waiting, ends)
}

// noteReplyLocked is note for CLIENT REPLY.
func (s *state) noteReplyLocked(what string) (single bool) {
	s.offSeq, s.since.reply = s.sent.Load(), true
	if s.irregular {
		s.offSeq = math.MaxUint64 // a refusal could not be told from another error
	}
	s.irregular, s.epoch = true, s.epoch+1
	coming := s.multis > 0 || s.lost.any
	switch {
	case what == "on" && s.mode == replyUnknown:
		s.onSent = true
	case what == "on" && s.mode != replyOn: // believed when its +OK is seen: it may be refused, and that in silence
		s.mode, s.onSent = replyUnknown, true
	case what == "on":
	case what != "off" && what != "skip":
	case s.inTx && s.mode == replyOn && !s.leavingTxLocked():
		s.queued.reply = true
	case coming || s.inTx || s.mode == replyUnknown:
		s.mode, s.onSent = replyUnknown, false
	case what == "off":
		s.mode = replyOff
		return false
	case s.mode == replyOn:
		s.mode = replySkip
		return true
	}
	s.sent.Add(1)
	return false
}

// assumeLocked follows a command whose reply will not be seen, as if it had been accepted.
func (s *state) assumeLocked(p pending) {
	switch p.kind {
	case kMulti:
		s.inTx, s.since.assumed = true, true
	case kExec, kDiscard:
		s.inTx, s.since.assumed = false, false
		if p.kind == kExec && s.queued.auth {
			s.authed, s.user = false, ""
		}
	}
	switch {
	case p.login:
		s.user = ""
	case p.kind == kReset:
		s.authed, s.user = false, p.user
		s.resp3 = s.resp3 && !p.skipped
	}
}
