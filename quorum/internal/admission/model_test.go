package admission

import (
	"fmt"
	"hash/maphash"
	"os"
	"strconv"
	"testing"
)

// A model of admission: three masters, the address of the first of which may lead to either of two
// servers; two proxies with connections of their own; marks, records and what servers have heard
// of each other. Everything that a server does in one script is one step. A history is wrong if a
// second lock can be granted while the first is held: if a majority votes of which no master has
// its key.

const (
	mN       = 3
	mServers = mN + 1 // the last one is the other server at the address of the first master
	mProxies = 2
	mForget  = 2 // steps of time after which a lock has run out
	mMaxNum  = 7
)

// mRules are the parts of the judgement.
type mRules struct {
	evidence bool // a majority must know of exactly the admission on a master; else all that is not contradicted votes
	later    bool // a master of which a later admission is known does not vote
	wait     bool // the wait begins when enough others have learned; else with the mark
	enough   bool // N - majority + 1 others must have learned; otherwise only the reachable ones
	maxAge   bool // a vote counts only soon after an observation
}

// mOurs are the rules of Guard.
var mOurs = mRules{true, true, true, true, true}

// mAdm is an admission: its number, and one of several with this number. 0: none.
type mAdm uint8

func (a mAdm) num() uint8 { return uint8(a) >> 3 }

type mKind uint8

const (
	mBlank mKind = iota
	mMark
	mVoter
)

type mServer struct {
	kind  mKind
	adm   mAdm
	known [mN]mAdm
	lock  bool
}

// mView is the knowledge of a proxy about a master.
type mView struct {
	conn       uint8 // 1 + server; 0: none
	seen       bool  // it was ever observed
	kind       mKind
	adm        mAdm
	known      [mN]mAdm
	stale      bool // not observed since time has passed
	markAge    uint8
	learnedAge uint8 // 1 + steps since enough have learned; 0: not yet
	pend       bool
	pkind      mKind
	padm       mAdm
	pknown     [mN]mAdm
	cut        bool
}

type mState struct {
	servers                     [mServers]mServer
	views                       [mProxies][mN]mView
	route                       uint8 // the server of master 0: 0 or mN
	lock                        uint8 // 0: none yet; 1 + age; mForget+1: gone
	moves, kills, cuts, flushes uint8
}

type mRun struct {
	mRules
	swap  bool // moves are those of SWAPDB: every connection follows
	swift int  // of how many proxies, from the first, everything is carried out at once
	seeds [2]maphash.Seed
}

func (s *mState) server(a int) uint8 {
	if a == 0 {
		return s.route
	}
	return uint8(a)
}

// at is the server that p's connection to master a leads to.
func (s *mState) at(p, a int) *mServer {
	c := s.views[p][a].conn
	if c == 0 {
		return nil
	}
	return &s.servers[c-1]
}

// others calls f for each other master that p is connected to.
func (s *mState) others(p, a int, f func(b int, v *mView)) {
	for b := range mN {
		if v := &s.views[p][b]; b != a && v.conn != 0 {
			f(b, v)
		}
	}
}

// top is the newest admission of a that p knows of; clash says that there are two with its number.
func (r *mRun) top(s *mState, p, a int) (top mAdm, clash bool) {
	take := func(k mAdm) {
		switch {
		case k.num() > top.num() || top == 0 && k != 0:
			top, clash = k, false
		case k != 0 && k.num() == top.num() && k != top:
			clash = true
		}
	}
	s.others(p, a, func(b int, v *mView) {
		if r.witness(s, p, b) {
			take(v.known[a])
		}
	})
	return top, clash
}

// superseded reports whether p knows of a later admission of master a than it carries.
func (r *mRun) superseded(s *mState, p, a int) bool {
	top, clash := r.top(s, p, a)
	adm := s.views[p][a].adm
	return r.later && top != 0 && (top != adm || clash) && top.num() >= adm.num()
}

// witness reports whether the knowledge of master b counts for p: it has kept its memory.
func (r *mRun) witness(s *mState, p, b int) bool {
	v := &s.views[p][b]
	return v.conn != 0 && v.kind == mVoter
}

// confirmed reports whether a majority knows of exactly the admission on master a.
func (r *mRun) confirmed(s *mState, p, a int) bool {
	n := 1
	s.others(p, a, func(b int, o *mView) {
		if r.witness(s, p, b) && o.known[a] == s.views[p][a].adm && !(r.maxAge && o.stale) {
			n++
		}
	})
	return !r.evidence || n >= mN/2+1
}

// votes reports whether p may count the vote of master a.
func (r *mRun) votes(s *mState, p, a int) bool {
	v := &s.views[p][a]
	at := s.at(p, a)
	return at != nil && v.kind == mVoter && at.kind == mVoter && at.adm == v.adm && !(r.maxAge && v.stale) &&
		!r.superseded(s, p, a) && r.confirmed(s, p, a)
}

// learned returns how many others know of the mark of a.
func (r *mRun) learned(s *mState, p, a int) (n int) {
	s.others(p, a, func(b int, o *mView) {
		if r.witness(s, p, b) && o.known[a] == s.views[p][a].adm {
			n++
		}
	})
	return n
}

// few reports whether p finds so many others without their memory that not enough can learn of a.
func (r *mRun) few(s *mState, p, a int) bool {
	lost := 0
	s.others(p, a, func(_ int, o *mView) {
		if o.seen && o.kind != mVoter {
			lost++
		}
	})
	return mN-1-lost < mEnough
}

// mEnough is N - majority + 1.
const mEnough = mN - mN/2

// fresh is an admission of a that is newer than all that p knows of.
func (r *mRun) fresh(s *mState, p, a int) mAdm {
	top, _ := r.top(s, p, a)
	n := max(s.views[p][a].adm.num(), top.num())
	var used [8]bool
	each := func(k mAdm) {
		if k.num() == n+1 {
			used[k&7] = true
		}
	}
	for i := range s.servers {
		each(s.servers[i].adm)
		each(s.servers[i].known[a])
	}
	for q := range s.views {
		v := &s.views[q][a]
		each(v.padm)
		each(v.adm)
		for b := range mN {
			each(s.views[q][b].known[a])
			each(s.views[q][b].pknown[a])
		}
	}
	tag := 1
	for used[tag] {
		tag++
	}
	return mAdm((n+1)<<3 | uint8(tag))
}

// evaluate makes p judge every master, and fills in the pending changes.
func (r *mRun) evaluate(s *mState, p int) {
	for a := range mN {
		v := &s.views[p][a]
		if v.conn == 0 || v.pend || v.stale {
			continue
		}
		switch v.kind {
		case mBlank:
			r.mark(s, p, a)
		case mVoter:
			if r.superseded(s, p, a) {
				r.mark(s, p, a)
			}
		case mMark:
			switch {
			case r.superseded(s, p, a):
				r.mark(s, p, a)
			case r.over(s, p, a):
				r.admit(s, p, a)
			}
		}
	}
}

func (r *mRun) mark(s *mState, p, a int) {
	v := &s.views[p][a]
	v.pend, v.pkind, v.padm, v.pknown = true, mMark, r.fresh(s, p, a), [mN]mAdm{}
}

// over reports whether the quarantine of a has ended, and notes when enough others have learned.
func (r *mRun) over(s *mState, p, a int) bool {
	v := &s.views[p][a]
	enough := r.learned(s, p, a) >= mEnough || !r.enough
	if v.learnedAge == 0 && enough {
		v.learnedAge = 1
	}
	switch {
	case v.markAge < mForget:
		return false
	case r.few(s, p, a):
		return true
	case !r.wait:
		return enough
	}
	return v.learnedAge > mForget && enough
}

// admit ends the quarantine of a.
func (r *mRun) admit(s *mState, p, a int) {
	v := &s.views[p][a]
	v.pend, v.pkind, v.padm, v.pknown = true, mVoter, v.adm, [mN]mAdm{}
	for b := range mN {
		top, clash := r.top(s, p, b)
		if o := &s.views[p][b]; o.conn != 0 && o.adm.num() > top.num() && !clash {
			top = o.adm
		}
		if b != a {
			v.pknown[b] = top
		}
	}
	v.pknown[a] = v.adm
}

func newer(have, other mAdm) mAdm {
	if other.num() > have.num() || have == 0 {
		return other
	}
	return have
}

// teach makes the server of b learn of an admission of a, by p, if it still carries the record
// that p has seen.
func (s *mState) teach(p, b, a int, adm mAdm) {
	at, v := s.at(p, b), &s.views[p][b]
	if at.kind == v.kind && at.adm == v.adm {
		at.known[a] = newer(at.known[a], adm)
		v.known[a] = at.known[a]
	}
}

func (r *mRun) observe(s *mState, p, a int) {
	r.observe1(s, p, a)
	if p < r.swift {
		r.carryOut(s, p)
	}
}

func (r *mRun) observe1(s *mState, p, a int) {
	v := &s.views[p][a]
	if v.conn == 0 {
		v.conn = 1 + s.server(a)
		v.pend = false
	}
	at := s.at(p, a)
	if v.kind != at.kind || v.adm != at.adm {
		v.markAge, v.learnedAge = 0, 0
	}
	v.seen, v.stale = true, false
	v.kind, v.adm, v.known = at.kind, at.adm, at.known
	r.evaluate(s, p)
}

// carryOut does all that p has to do.
func (r *mRun) carryOut(s *mState, p int) {
	for more := true; more; {
		more = false
		for a := range mN {
			if v := &s.views[p][a]; v.conn != 0 && v.pend {
				s.write(p, a)
				r.observe1(s, p, a)
				more = true
			}
			r.lessons(s, p, a, func(b int, adm mAdm) {
				s.teach(p, a, b, adm)
				more = true
			})
			r.evaluate(s, p)
		}
		if s.tooFar() {
			return
		}
	}
}

func (s *mState) tooFar() bool {
	for i := range s.servers {
		if s.servers[i].adm.num() > mMaxNum {
			return true
		}
	}
	return false
}

// lessons calls f for each admission that master a has to learn from p.
func (r *mRun) lessons(s *mState, p, a int, f func(b int, adm mAdm)) {
	v := &s.views[p][a]
	if at := s.at(p, a); !r.witness(s, p, a) || at.kind != v.kind || at.adm != v.adm {
		return
	}
	for b := range mN {
		o := &s.views[p][b]
		if b == a || o.conn == 0 || o.stale || o.kind == mBlank || o.adm.num() <= v.known[b].num() && v.known[b] != 0 {
			continue
		}
		if o.kind == mVoter && r.superseded(s, p, b) {
			continue
		}
		f(b, o.adm)
	}
}

func (s *mState) write(p, a int) {
	v := &s.views[p][a]
	at := s.at(p, a)
	if at.kind == v.kind && at.adm == v.adm {
		at.kind, at.adm = v.pkind, v.padm
		if v.pkind == mMark {
			at.known = [mN]mAdm{}
		}
		for b, k := range v.pknown {
			at.known[b] = newer(at.known[b], k)
		}
	}
	v.pend, v.pkind, v.padm, v.pknown = false, 0, 0, [mN]mAdm{}
}

func (s *mState) drop(p, a int) {
	v := &s.views[p][a]
	*v = mView{seen: v.seen, kind: v.kind, adm: v.adm, cut: v.cut, markAge: v.markAge, learnedAge: v.learnedAge}
}

// steps calls f for everything that may follow.
func (r *mRun) steps(s *mState, f func(next mState, what string)) {
	for p := range mProxies {
		for a := range mN {
			r.laneSteps(s, p, a, f)
		}
		s.killStep(p, f)
		if s.lock == 0 {
			r.grants(s, p, f)
		}
	}
	r.serverSteps(s, f)
	next := *s
	next.pass()
	f(next, "time")
}

// laneSteps are those of a proxy and one master.
func (r *mRun) laneSteps(s *mState, p, a int, f func(next mState, what string)) {
	v := &s.views[p][a]
	if v.conn != 0 || !v.cut {
		next := *s
		r.observe(&next, p, a)
		if next != *s {
			f(next, fmt.Sprintf("observe(%d,%d)", p, a))
		}
	}
	if v.pend && v.conn != 0 {
		next := *s
		next.write(p, a)
		f(next, fmt.Sprintf("write(%d,%d:%d)", p, a, v.padm))
	}
	if v.conn != 0 && a == 0 && v.conn != 1+s.route {
		next := *s
		next.drop(p, a)
		f(next, fmt.Sprintf("break(%d,%d)", p, a))
	}
	if s.cuts > 0 && !v.cut {
		next := *s
		next.cuts--
		next.drop(p, a)
		next.views[p][a].cut = true
		f(next, fmt.Sprintf("cut(%d,%d)", p, a))
	}
	if v.cut {
		next := *s
		next.views[p][a].cut = false
		f(next, fmt.Sprintf("heal(%d,%d)", p, a))
	}
	r.lessons(s, p, a, func(b int, adm mAdm) {
		next := *s
		next.teach(p, a, b, adm)
		r.evaluate(&next, p)
		f(next, fmt.Sprintf("teach(%d,%d:%d=%d)", p, a, b, adm))
	})
}

// killStep ends a proxy, which forgets all but its cuts.
func (s *mState) killStep(p int, f func(next mState, what string)) {
	if s.kills > 0 {
		next := *s
		next.kills--
		cuts := [mN]bool{}
		for a := range mN {
			cuts[a] = next.views[p][a].cut
		}
		next.views[p] = [mN]mView{}
		for a := range mN {
			next.views[p][a].cut = cuts[a]
		}
		f(next, fmt.Sprintf("kill(%d)", p))
	}
}

// serverSteps are those of addresses and servers.
func (r *mRun) serverSteps(s *mState, f func(next mState, what string)) {
	if s.moves > 0 {
		next := *s
		next.moves--
		next.route = mN - next.route
		if r.swap {
			for p := range mProxies {
				if v := &next.views[p][0]; v.conn != 0 {
					v.conn = 1 + next.route
				}
			}
		}
		f(next, "move")
	}
	if s.flushes > 0 {
		for i := range mServers {
			next := *s
			next.flushes--
			next.servers[i] = mServer{}
			f(next, fmt.Sprintf("flush(%d)", i))
		}
	}
}

func (r *mRun) grants(s *mState, p int, f func(next mState, what string)) {
	for a := range mN {
		for b := a + 1; b < mN; b++ {
			if r.votes(s, p, a) && r.votes(s, p, b) {
				next := *s
				next.lock = 1
				next.at(p, a).lock, next.at(p, b).lock = true, true
				f(next, fmt.Sprintf("grant(%d:%d,%d)", p, a, b))
			}
		}
	}
}

func (s *mState) pass() {
	if s.lock > 0 && s.lock <= mForget {
		if s.lock++; s.lock > mForget {
			for i := range s.servers {
				s.servers[i].lock = false
			}
		}
	}
	for p := range s.views {
		for a := range s.views[p] {
			v := &s.views[p][a]
			v.stale, v.pend = true, false
			v.pkind, v.padm, v.pknown = 0, 0, [mN]mAdm{}
			v.markAge = min(v.markAge+1, mForget)
			if v.learnedAge > 0 {
				v.learnedAge = min(v.learnedAge+1, mForget+1)
			}
		}
	}
}

// wrong reports whether a second lock can be granted while the first is held.
func (r *mRun) wrong(s *mState) bool {
	if s.lock == 0 || s.lock > mForget {
		return false
	}
	for p := range mProxies {
		n := 0
		for a := range mN {
			if r.votes(s, p, a) && !s.at(p, a).lock {
				n++
			}
		}
		if n >= (mN/2 + 1) {
			return true
		}
	}
	return false
}

// mStart is a deployment that all vote in, and know of each other.
func mStart() (s mState) {
	for a := range mN {
		s.servers[a] = mServer{kind: mVoter, adm: 1<<3 | 1, known: [mN]mAdm{9, 9, 9}}
	}
	return s
}

// key is the same for states that differ only in which of the masters 1 and 2 is which, and which
// proxy.
func (r *mRun) key(s *mState) (least [2]uint64) {
	for i := range 4 {
		o := *s
		if i&1 != 0 {
			o.swapServers()
		}
		if i&2 != 0 {
			if r.swift == 1 {
				break
			}
			o.views[0], o.views[1] = o.views[1], o.views[0]
		}
		key := [2]uint64{maphash.Comparable(r.seeds[0], o), maphash.Comparable(r.seeds[1], o)}
		if i == 0 || key[0] < least[0] {
			least = key
		}
	}
	return least
}

// swapServers exchanges the last two servers.
func (s *mState) swapServers() {
	s.servers[1], s.servers[2] = s.servers[2], s.servers[1]
	for j := range s.servers {
		k := &s.servers[j].known
		k[1], k[2] = k[2], k[1]
	}
	for p := range s.views {
		s.views[p][1], s.views[p][2] = s.views[p][2], s.views[p][1]
		for a := range s.views[p] {
			v := &s.views[p][a]
			v.known[1], v.known[2] = v.known[2], v.known[1]
			v.pknown[1], v.pknown[2] = v.pknown[2], v.pknown[1]
			if a > 0 && v.conn != 0 {
				v.conn = uint8(1 + a)
			}
		}
	}
}

// search goes through all histories from s, the short ones first, until limit states have been
// seen.
func (r *mRun) search(s mState, limit int) (found string, states int) {
	r.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	type node struct {
		parent int32
		what   string
	}
	seen := map[[2]uint64]struct{}{r.key(&s): {}}
	queue, nodes, first := []mState{s}, []node{{-1, ""}}, 0
	for at := 0; at < len(nodes) && len(nodes) < limit && found == ""; at++ {
		cur := queue[at-first]
		if at-first > 100000 {
			queue, first = append([]mState(nil), queue[at-first:]...), at
		}
		r.steps(&cur, func(next mState, what string) {
			if found != "" || next.tooFar() || next.lock > mForget {
				return
			}
			next.forget()
			key := r.key(&next)
			if _, ok := seen[key]; ok {
				return
			}
			seen[key] = struct{}{}
			queue, nodes = append(queue, next), append(nodes, node{int32(at), what})
			if r.wrong(&next) {
				for i := int32(len(nodes) - 1); i > 0; i = nodes[i].parent {
					found = nodes[i].what + " " + found
				}
			}
		})
	}
	return found, len(nodes)
}

// forget leaves out what makes no difference.
func (s *mState) forget() {
	for p := range s.views {
		for a := range s.views[p] {
			v := &s.views[p][a]
			if v.kind != mMark {
				v.markAge, v.learnedAge = 0, 0
			}
		}
	}
}

// start is a deployment in which all masters vote, and the first has so many disasters ahead of
// it.
func (r *mRun) start(moves, kills, cuts, flushes uint8) (s mState) {
	s = mStart()
	s.moves, s.kills, s.cuts, s.flushes = moves, kills, cuts, flushes
	return s
}

// TestModel searches all short histories. MODEL_STATES sets how many states it visits at most, for
// each kind of disaster.
func TestModel(t *testing.T) {
	limit := 20_000
	if n, err := strconv.Atoi(os.Getenv("MODEL_STATES")); err == nil {
		limit = n
	}
	for _, d := range [][4]uint8{{1, 0, 0, 0}, {2, 0, 0, 0}, {2, 1, 1, 0}, {3, 0, 1, 0}, {0, 1, 1, 1}} {
		for _, r := range []mRun{{mRules: mOurs, swift: 2}, {mRules: mOurs, swift: 1},
			{mRules: mOurs, swap: true, swift: 2}} {
			if found, n := r.search(r.start(d[0], d[1], d[2], d[3]), limit); found != "" {
				t.Errorf("%v, swap %v, %d states: %s", d, r.swap, n, found)
			}
		}
	}
}

// TestModelOfLess: with less than our rules a second lock is granted.
func TestModelOfLess(t *testing.T) {
	for name, c := range map[string]struct {
		less func(r *mRules)
		from [4]uint8
	}{
		"no evidence": {func(r *mRules) { r.evidence, r.later = false, false }, [4]uint8{1, 0, 0, 0}},
		"evidence only by contradiction": {func(r *mRules) { r.evidence, r.enough = false, false },
			[4]uint8{1, 0, 0, 0}},
		"the wait begins with the mark":      {func(r *mRules) { r.wait = false }, [4]uint8{1, 0, 1, 0}},
		"learned by the reachable ones only": {func(r *mRules) { r.enough = false }, [4]uint8{1, 0, 0, 0}},
		"evidence of any age":                {func(r *mRules) { r.maxAge = false }, [4]uint8{1, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &mRun{mRules: mOurs, swift: 2}
			c.less(&r.mRules)
			found, n := r.search(r.start(c.from[0], c.from[1], c.from[2], c.from[3]), 3_000_000)
			if found == "" {
				t.Errorf("nothing goes wrong in %d states", n)
			}
			t.Logf("%d states: %s", n, found)
		})
	}
}
