package resp

import (
	"bytes"
	"slices"
)

// frame is called for every error of the upstream, and for every top-level frame while watching is set: its type, its first bytes and
// the last integer in it. reset: it is the answer to a RESET that was accepted; told must follow.
func (s *state) frame(first byte, head []byte, last int64) (reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.watchLocked()
	seq := s.received.Load()
	if first == '>' || s.subscribe.passed(seq) && !s.resp3 && s.pubSubLocked(head, last) {
		s.answerSubscribeLocked()
		return false
	}
	if s.monitor.passed(seq) && len(head) > 1 && head[0] == '+' && '0' <= head[1] && head[1] <= '9' {
		return false // a line of MONITOR
	}
	if bytes.HasPrefix(head, []byte("-ERR Protocol error")) {
		s.lapseLocked() // it is about to close; or it is not, and a script said so: then it answers a marker
	}
	if len(s.waiting) > 0 && s.waiting[0].kind == kSubscribe && s.waiting[0].seq <= seq {
		shard := s.waiting[0].shard
		s.answerSubscribeLocked()
		if first == '-' {
			return false
		}
		if bytes.HasPrefix(head, []byte("+QUEUED")) {
			s.queued.subscribe, s.queued.subscribeLast, s.queued.shard = true, true, s.queued.shard || shard
			return false
		}
	}
	s.received.Store(seq + 1)
	if bytes.HasPrefix(head, []byte("+QUEUED")) {
		s.queued.subscribeLast = false
	}
	if bytes.HasPrefix(head, []byte("+RESET\r")) && s.resetLocked(seq) {
		s.telling = true
		return true
	}
	for len(s.waiting) > 0 && s.waiting[0].seq <= seq {
		p := s.waiting[0]
		s.popLocked()
		if p.kind == kSubscribe {
			continue
		}
		if p.seq == seq && !p.skipped {
			s.answerLocked(p, first, head, last)
			break
		}
		s.assumeLocked(p) // there was no reply
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
	switch s.waiting[0].kind {
	case kMulti:
		s.multis--
	case kReset:
		if !s.waiting[0].skipped {
			s.resets--
		}
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

// answerLocked applies the reply of p; last is the last integer in it.
func (s *state) answerLocked(p pending, first byte, head []byte, last int64) {
	ok := bytes.HasPrefix(head, []byte("+OK\r"))
	queued := bytes.HasPrefix(head, []byte("+QUEUED\r"))
	sure := p.sure && p.lapse == s.lapse // the number tells whose reply this is, whatever was sent behind it
	accepted := p.kind == kAuth && ok || p.kind == kHello && (first == '%' || first == '*')
	switch {
	case p.login && !sure:
		s.user = ""
	case p.login && accepted:
		s.user = p.user
	}
	switch p.kind {
	case kAuth:
		s.authed = s.authed || ok && sure
		s.queued.auth = s.queued.auth || queued
	case kHello:
		switch {
		case accepted:
			s.resp3 = first == '%'
			s.authed = s.authed || p.auth && sure
		case queued:
			s.queued.auth = s.queued.auth || p.login
			s.queued.two = p.two
		}
	case kReset:
		if first == '-' && sure {
			s.authed = s.wasAuthed
		} else { // whose reply this is cannot be told
			s.authed, s.user = false, ""
		}
	case kMulti:
		if ok {
			s.inTx = true
			s.clearQueuedLocked()
		}
	case kExec, kDiscard:
		s.endTxLocked(p.kind == kExec, first, head, last)
	}
}

// endTxLocked applies the reply of EXEC or DISCARD. What was queued has run only if EXEC returned an array; then it is not known who
// is logged in, and whether replies are on.
func (s *state) endTxLocked(exec bool, first byte, head []byte, last int64) {
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
			s.authed, s.user = false, ""
		}
		if s.queued.two { // one that asks for 3 may have failed; the null of RESP2 is understood by both
			s.resp3 = false
		}
		switch {
		case s.queued.subscribeLast && !s.queued.shard: // its answer ends with how many subscriptions are left
			s.subs[0] = int(last)
		case s.queued.subscribe:
			s.subs[0] = max(s.subs[0], 1)
		}
	}
	s.clearQueuedLocked()
}

func (s *state) clearQueuedLocked() {
	q := &s.queued
	q.auth, q.reply, q.subscribe, q.subscribeLast, q.shard, q.two = false, false, false, false, false, false
}

// resetLocked applies +RESET, the reply number seq, if it can be that of a RESET which is pending, and not one that a script has made: the connection
// is as new, but for what was sent behind it.
func (s *state) resetLocked(seq uint64) bool {
	for i, p := range s.waiting {
		if p.kind != kReset || p.skipped {
			continue
		}
		certain := p.sure && p.lapse == s.lapse
		if certain && p.seq != seq {
			return false
		}
		s.doubt = s.doubt || !certain
		s.received.Store(p.seq + 1)
		for range i + 1 {
			s.popLocked()
		}
		switch later := slices.ContainsFunc(s.waiting, func(p pending) bool { return p.kind == kReset && !p.skipped }); {
		case p.epoch == s.epoch:
			s.irregular, s.subscribe, s.monitor = false, onset{}, onset{}
			s.mode = replyOn
		case later: // that one tells
		case !s.since.reply:
			s.mode = replyOn
		case s.since.mode != replyOn: // what CLIENT REPLY did behind it was not followed from the right mode
			s.mode, s.onSent = replyUnknown, false
		}
		s.resp3, s.authed, s.user, s.inTx, s.subs = false, false, defaultUser, s.since.assumed, [2]int{}
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
