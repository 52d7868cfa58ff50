package resp

import (
	"bytes"
	"math"
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

// pending is a forwarded command whose reply changes what is known of the connection.
type pending struct {
	kind  kind
	seq   uint64 // how many replies come before its own
	arg   string // of HELLO: the protocol version asked for
	auth  bool   // of HELLO: AUTH was given
	sure  bool   // when it was sent every reply could be counted
	epoch int    // of the state then
}

// state is what the proxy knows of a connection's standing with the upstream. The pump notes what is sent, the copier what is
// answered; replies belong to requests by their number. Where that is not certain, irregular is set: from then on only a marker
// tells how far the upstream has got, and numbers start anew behind it.
//
// What it gets wrong may only ever refuse a lock command: a session is authenticated if the upstream's own answer said so.
type state struct {
	sent     atomic.Uint64 // replies to be expected for what was forwarded; written by the pump
	received atomic.Uint64 // replies counted; written by the copier, or by the pump while it is certain that none is on its way
	watching atomic.Bool   // every frame counts for the state, not only their number

	mu        sync.Mutex
	waiting   []pending // in the order sent
	multis    int       // of waiting: MULTI
	irregular bool
	epoch     int    // how often something was sent that makes counting uncertain
	synced    uint64 // sent, when a marker last came back, and epoch then
	syncEpoch int
	mode      replyMode
	onSent    bool   // CLIENT REPLY ON was sent in mode replyUnknown
	offSeq    uint64 // in mode replyOff, how many replies come before a refusal of CLIENT REPLY OFF
	resp3     bool
	authed    bool
	wasAuthed bool // before the RESET that is pending
	inTx      bool
	monitor   bool
	subscribe bool   // a command of the SUBSCRIBE family was sent
	subs      [2]int // RESP2 subscriptions: channels and patterns; shard channels
	queued    struct {
		auth, reply, subscribe bool
		hello                  string // protocol version
	} // what waits for EXEC
}

// regular tells whether everything that was sent is answered for certain and nothing stands between the connection and a reply.
func (s *state) regular() bool {
	if s.watching.Load() || s.sent.Load() != s.received.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.inTx && s.mode == replyOn && !s.irregular && len(s.waiting) == 0
}

// settled tells whether, as far as can be known, everything sent is answered and no transaction is open. Subscriptions do not matter.
func (s *state) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.Load() <= s.received.Load() && !s.inTx && len(s.waiting) == 0
}

// turningOn tells whether a CLIENT REPLY ON is on its way, whose +OK will show that the upstream answers again.
func (s *state) turningOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode == replyUnknown && s.onSent
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
		s.assumeLocked(p.kind)
	}
	s.waiting, s.multis = nil, 0
	s.watchLocked()
}

// lose notes that replies cannot be counted any more.
func (s *state) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.irregular, s.epoch = true, s.epoch+1
	s.watchLocked()
}

func (s *state) watchLocked() { s.watching.Store(s.irregular || len(s.waiting) > 0) }

// note is called for a request before it is forwarded, if it is a notable one or the one after CLIENT REPLY SKIP. argv has its first
// arguments, in front of which the name is left out or not. tunnel: nothing may be recognised behind it. single: the next request
// must be noted too.
func (s *state) note(k kind, argv [][]byte) (tunnel, single bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.watchLocked()
	arg := func(i int) string {
		if i < len(argv) {
			return strings.ToLower(string(argv[i][:min(len(argv[i]), keepNotableArg)]))
		}
		return ""
	}
	switch {
	case k == kSync, k == kScript && arg(1) == "debug" && arg(2) != "no":
		s.irregular, s.epoch = true, s.epoch+1
		return true, false
	case k == kClient && arg(1) == "reply":
		return false, s.noteReplyLocked(arg(2))
	case s.mode == replySkip:
		s.mode = replyOn
		s.subscribe = s.subscribe || k == kSubscribe
		s.monitor = s.monitor || k == kMonitor
		s.assumeLocked(k)
		return false, false
	}
	p := pending{kind: k, seq: s.sent.Load(), sure: !s.irregular || s.synced == s.sent.Load() && s.syncEpoch == s.epoch, epoch: s.epoch}
	if k == kSubscribe { // answered by any number of frames that are not counted, or by an error that is not counted either
		s.irregular, s.subscribe, s.epoch = true, true, s.epoch+1
		s.waiting = append(s.waiting, p)
		return false, false
	}
	s.sent.Add(1)
	switch k {
	case kMonitor:
		s.irregular, s.monitor, s.epoch = true, true, s.epoch+1
	case kDebug:
		s.irregular, s.epoch = true, s.epoch+1
	case kHello:
		p.arg, p.auth = arg(1), arg(2) == "auth" || arg(2) == "setname" && arg(4) == "auth"
	case kReset:
		s.wasAuthed, s.authed = s.authed, false
	}
	switch k {
	case kAuth, kHello:
		if s.mode == replyOff { // another user may not be allowed to switch replies on again
			s.mode = replyUnknown
		}
	case kExec:
		if s.queued.reply { // from here on replies may be off; the array that EXEC announces then never gets its elements
			s.mode, s.onSent = replyUnknown, false
			s.waiting = append(s.waiting, p)
			return false, false
		}
	case kMulti, kDiscard, kReset:
	default:
		return false, false
	}
	if s.mode == replyOn || k == kReset || len(s.waiting) > 0 { // behind one whose reply is coming, so that they count in their order
		if s.waiting = append(s.waiting, p); k == kMulti {
			s.multis++
		}
	} else {
		s.assumeLocked(k)
	}
	return false, false
}

// noteReplyLocked is note for CLIENT REPLY.
func (s *state) noteReplyLocked(what string) (single bool) {
	s.offSeq = s.sent.Load()
	if s.irregular {
		s.offSeq = math.MaxUint64 // a refusal could not be told from another error
	}
	s.irregular, s.epoch = true, s.epoch+1
	coming := s.multis > 0
	switch {
	case what == "on" && s.mode == replyUnknown:
		s.onSent = true
	case what == "on" && s.mode != replyOn: // believed when its +OK is seen: it may be refused, and that in silence
		s.mode, s.onSent = replyUnknown, true
	case what == "on":
	case what != "off" && what != "skip":
	case s.inTx && s.mode == replyOn:
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
func (s *state) assumeLocked(k kind) {
	switch k {
	case kMulti:
		s.inTx = true
	case kExec, kDiscard:
		s.inTx = false
	}
}

// frame is called for every error of the upstream, and for every top-level frame while watching is set: its type, its first bytes and
// the last integer in it. reset: it is the answer to a RESET that was accepted.
func (s *state) frame(first byte, head []byte, last int64) (reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.watchLocked()
	if first == '>' || s.subscribe && !s.resp3 && s.pubSubLocked(head, last) {
		s.answerSubscribeLocked()
		return false
	}
	if s.monitor && len(head) > 1 && head[0] == '+' && '0' <= head[1] && head[1] <= '9' {
		return false // a line of MONITOR
	}
	if bytes.HasPrefix(head, []byte("-ERR Protocol error")) { // it is about to close, and runs nothing of what follows
		s.irregular, s.epoch, s.mode, s.onSent = true, s.epoch+1, replyUnknown, false
	}
	seq := s.received.Load()
	if len(s.waiting) > 0 && s.waiting[0].kind == kSubscribe && s.waiting[0].seq <= seq {
		s.answerSubscribeLocked()
		if first == '-' {
			return false
		}
		if bytes.HasPrefix(head, []byte("+QUEUED")) {
			s.queued.subscribe = true
			return false
		}
	}
	s.received.Store(seq + 1)
	if bytes.HasPrefix(head, []byte("+RESET\r")) && s.resetLocked() {
		return true
	}
	for len(s.waiting) > 0 && s.waiting[0].seq <= seq {
		p := s.waiting[0]
		s.popLocked()
		if p.kind == kSubscribe {
			continue
		}
		if p.seq == seq {
			s.answerLocked(p, first, head)
			break
		}
		s.assumeLocked(p.kind) // there was no reply
	}
	switch {
	case s.mode == replyOff && first == '-' && seq >= s.offSeq: // CLIENT REPLY OFF was refused: nothing else would have been answered
		s.mode = replyOn
	case s.mode == replyUnknown && s.onSent && bytes.HasPrefix(head, []byte("+OK\r")):
		s.mode = replyOn
	}
	return false
}

// popLocked takes the first command out of the line.
func (s *state) popLocked() {
	if s.waiting[0].kind == kMulti {
		s.multis--
	}
	if s.waiting = s.waiting[1:]; len(s.waiting) == 0 {
		s.waiting = nil
	}
}

// answerSubscribeLocked takes the SUBSCRIBE command at the front of the line out of it.
func (s *state) answerSubscribeLocked() {
	if len(s.waiting) > 0 && s.waiting[0].kind == kSubscribe {
		s.popLocked()
	}
}

// answerLocked applies the reply of p.
func (s *state) answerLocked(p pending, first byte, head []byte) {
	ok := bytes.HasPrefix(head, []byte("+OK\r"))
	queued := bytes.HasPrefix(head, []byte("+QUEUED\r"))
	sure := p.sure && p.epoch == s.epoch // the number tells whose reply this is
	switch p.kind {
	case kAuth:
		s.authed = s.authed || ok && sure
		s.queued.auth = s.queued.auth || queued
	case kHello:
		switch {
		case first == '%' || first == '*':
			s.resp3 = first == '%'
			s.authed = s.authed || p.auth && sure
		case queued:
			s.queued.auth = s.queued.auth || p.auth
			s.queued.hello = p.arg
		}
	case kReset:
		if first == '-' && sure {
			s.authed = s.wasAuthed
		}
	case kMulti:
		if ok {
			s.inTx = true
			s.clearQueuedLocked()
		}
	case kExec, kDiscard:
		s.endTxLocked(p.kind == kExec, first, head)
	}
}

// endTxLocked applies the reply of EXEC or DISCARD. What was queued has run only if EXEC returned an array; then it is not known who
// is logged in, and whether replies are on.
func (s *state) endTxLocked(exec bool, first byte, head []byte) {
	if first == '-' && bytes.HasPrefix(head, []byte("-ERR")) && !bytes.Contains(head, []byte(" without MULTI")) || bytes.HasPrefix(head, []byte("-NO")) {
		return // still inside, as older servers are after EXEC with an argument; EXECABORT, MOVED, CLUSTERDOWN and the like end it
	}
	s.inTx = false
	ran := exec && first == '*' && !bytes.HasPrefix(head, []byte("*-1\r"))
	if exec && s.queued.reply && !ran {
		s.mode = replyOn
	}
	if ran {
		if s.queued.auth {
			s.authed = false
		}
		if s.queued.hello == "2" { // one that asks for 3 may have failed; the null of RESP2 is understood by both
			s.resp3 = false
		}
		if s.queued.subscribe {
			s.subs[0] = max(s.subs[0], 1)
		}
	}
	s.clearQueuedLocked()
}

func (s *state) clearQueuedLocked() {
	q := &s.queued
	q.auth, q.reply, q.subscribe, q.hello = false, false, false, ""
}

// resetLocked applies +RESET, if a RESET is pending: the connection is as new.
func (s *state) resetLocked() bool {
	for i, p := range s.waiting {
		if p.kind != kReset {
			continue
		}
		s.received.Store(p.seq + 1)
		for range i + 1 {
			s.popLocked()
		}
		s.irregular, s.mode, s.resp3, s.authed, s.inTx = false, replyOn, false, false, false
		s.monitor, s.subscribe, s.subs = false, false, [2]int{}
		s.clearQueuedLocked()
		return true
	}
	return false
}

// pubSubLocked tells whether the frame that begins with head is a pub/sub message of RESP2, and counts subscriptions.
func (s *state) pubSubLocked(head []byte, last int64) bool {
	if len(head) < 4 || head[0] != '*' || head[1] != '3' && head[1] != '4' {
		return false
	}
	name := head[4:]
	if at := bytes.IndexByte(name, '\n'); name[0] != '$' || at < 0 {
		return false
	} else if name = name[at+1:]; bytes.IndexByte(name, '\r') >= 0 {
		name = name[:bytes.IndexByte(name, '\r')]
	}
	switch string(name) {
	case "subscribe", "unsubscribe", "psubscribe", "punsubscribe":
		s.subs[0] = int(last)
	case "ssubscribe", "sunsubscribe":
		s.subs[1] = int(last)
	case "message", "pmessage", "smessage":
	default:
		return false
	}
	return true
}
