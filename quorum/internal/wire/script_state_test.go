package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// readState returns all keys of a master at one time, in JSON: the time in ms, then for each key
// its name, its type, the time when it expires (-1 for never) and its content.
const readState = `
local now = redis.call('TIME')
local all = {string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))}
local read = {string = {'GET'}, zset = {'ZRANGE', '0', '-1', 'WITHSCORES'}, hash = {'HGETALL'},
  list = {'LRANGE', '0', '-1'}, set = {'SMEMBERS'}, stream = {'XLEN'}}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local content = redis.call(read[kind][1], key, unpack(read[kind], 2))
  content = type(content) == 'table' and content or {tostring(content)}
  all[#all + 1] = {key, kind, string.format('%.0f', redis.call('PEXPIRETIME', key)), unpack(content)}
end
return cjson.encode(all)`

// stored is the content of a master.
type stored struct {
	now  int64
	keys map[string]value
}

// value is one key of a master.
type value struct {
	kind    string
	expire  int64 // ms; -1 for never
	content []string
}

// pairs returns a hash, or a sorted set with its scores.
func (v value) pairs() map[string]string {
	all := map[string]string{}
	for i := 0; i+1 < len(v.content); i += 2 {
		all[v.content[i]] = v.content[i+1]
	}
	return all
}

// readAll reads all keys of a master.
func (s *server) readAll() stored {
	s.t.Helper()
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(s.must("EVAL", readState, "0")), &all); err != nil {
		s.t.Fatal(err)
	}
	st := stored{keys: map[string]value{}}
	var now string
	_ = json.Unmarshal(all[0], &now)
	st.now, _ = strconv.ParseInt(now, 10, 64)
	for _, raw := range all[1:] {
		var words []string
		if err := json.Unmarshal(raw, &words); err != nil {
			s.t.Fatal(err)
		}
		expire, _ := strconv.ParseInt(words[2], 10, 64)
		st.keys[words[0]] = value{words[1], expire, words[3:]}
	}
	return st
}

const (
	sharedMark = "lockproxy-shared"
	limitMark  = "lockproxy-limit"
)

// fault is a broken invariant of the state.
type fault struct {
	key, text string
	grade     grade
}

// grade is how bad a fault is.
type grade uint8

const (
	wrong grade = iota // never allowed
	waste              // allowed until the pending releases have followed a failed operation
	early              // the key expires before a holder ends, whose operation failed
	late               // the key expires after its last holder, since an operation failed
)

// model returns the state as a model, and its faults.
func (st stored) model(fencing bool) (m *model, faults []fault) {
	m = newModel(fencing)
	for _, key := range slices.Sorted(maps.Keys(st.keys)) {
		v := st.keys[key]
		of, isIntent := strings.CutPrefix(key, IntentPrefix)
		switch {
		case key == testState:
			m.counters = v.pairs()
			m.record = m.counters["record"]
			m.writes, _ = strconv.ParseUint(m.counters["writes"], 10, 64)
			delete(m.counters, "record")
			delete(m.counters, "writes")
		case isIntent:
			mode, known := map[string]Mode{"exclusive": Exclusive, "shared": Shared, "limit": Limited}[v.content[0]]
			if m.intents[of] = (intent{mode, v.expire}); !known || v.expire < 0 {
				faults = append(faults, fault{of, fmt.Sprintf("intent %q, expires %d", v.content, v.expire), wrong})
			}
		default:
			l, more := v.lock(key)
			m.locks[key], faults = l, append(faults, more...)
		}
	}
	m.at(st.now)
	return m, faults
}

// lock returns the lock of a key, and its faults.
func (v value) lock(key string) (l *lock, faults []fault) {
	add := func(g grade, format string, args ...any) {
		faults = append(faults, fault{key, fmt.Sprintf(format, args...), g})
	}
	members := v.pairs()
	l = &lock{holders: map[string]*holding{}}
	switch {
	case v.kind == "string" && len(v.content[0]) >= SecretLen+FenceLen:
		h := &holding{end: v.expire, exact: true}
		l.holders[v.content[0][:SecretLen]] = h
		var ok bool
		if h.fence, h.owner, ok = ParseFenceOwner(v.content[0][SecretLen:]); !ok || v.expire < 0 {
			add(wrong, "%q, expires %d", v.content[0], v.expire)
		}
		return l, faults
	case members[sharedMark] != "" && v.kind == "zset":
		l.mode = Shared
	case members[limitMark] != "" && v.kind == "zset":
		l.mode = Limited
	default:
		l.mode, l.end, l.content = foreign, max(v.expire, 0), strings.Join(append([]string{v.kind}, v.content...), " ")
		return l, faults
	}
	last := l.readHolders(members, v.content, add)
	switch {
	case v.expire < 0:
		add(wrong, "does not expire")
	case v.expire < last:
		add(early, "expires %d, the last holder ends %d", v.expire, last)
	case v.expire > last:
		add(late, "expires %d, the last holder ends %d", v.expire, last)
	}
	return l, faults
}

// readHolders reads the members of a lock with several holders, and returns the last end.
func (l *lock) readHolders(members map[string]string, content []string,
	add func(g grade, format string, args ...any)) int64 {
	last, places := int64(0), make(map[string]int64)
	for member, score := range members {
		if member, ok := strings.CutPrefix(member, "="); ok {
			n, err := strconv.ParseInt(score, 10, 64)
			if last = max(last, n/1000); err != nil || n < 1000 {
				add(wrong, "%q ends %s", member, score)
			}
			places[member] = n % 1000
			l.holders[member] = &holding{end: n / 1000, slot: -1}
		}
	}
	for i := 0; i < len(content); i += 2 { // in the order in which the script finds them
		if why := l.entry(content[i]); why != "" {
			add(waste, "%s: %s", why, content[i])
		}
	}
	for secret, h := range l.holders {
		if h.slot < 0 {
			add(waste, "no entry of %s", secret)
		} else if place := places[secret]; l.mode == Limited && int64(h.slot) != place || l.mode == Shared && place != 999 {
			add(waste, "%s has the place %d and the slot %d", secret, place, h.slot)
		}
	}
	return last
}

// entry reads a member with more about a holder, and returns the fault of the member, or "".
func (l *lock) entry(member string) string {
	switch {
	case member[:1] == "=" || member == sharedMark || member == limitMark:
		return ""
	case len(member) < SecretLen+4+FenceLen || l.holders[member[:SecretLen]] == nil:
		return "member of no holder"
	}
	h, text := l.holders[member[:SecretLen]], member[SecretLen:]
	if h.slot >= 0 {
		return "second entry"
	}
	n, err := strconv.Atoi(text[1:4])
	fence, owner, ok := ParseFenceOwner(text[4:])
	if err != nil || !ok || text[0] != "XSL"[l.mode] {
		return "no entry"
	}
	h.slot, h.fence, h.owner = n, fence, owner
	return ""
}

// differences returns in what two models of the same time differ.
func differences(want, got *model) (all []string) {
	differ := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if want.record != got.record || want.writes != got.writes || !equalCounters(want.counters, got.counters) {
		differ("state %s %d %v, want %s %d %v", got.record, got.writes, got.counters, want.record, want.writes,
			want.counters)
	}
	for key := range union(want.intents, got.intents) {
		if a, b := want.intents[key], got.intents[key]; a.mode != b.mode || !near(a.end, b.end) {
			differ("intent of %s: %+v, want %+v", key, b, a)
		}
	}
	for key := range union(want.locks, got.locks) {
		a, b := want.locks[key], got.locks[key]
		switch {
		case a == nil && b.mayHaveEnded(got.now) || b == nil && a.mayHaveEnded(got.now):
		case a == nil || b == nil || a.mode != b.mode || a.content != b.content || !near(a.end, b.end):
			differ("%s: %v, want %v", key, b, a)
		default:
			differentHolders(key, a, b, differ)
		}
	}
	return all
}

// differentHolders calls differ for each holder that differs.
func differentHolders(key string, a, b *lock, differ func(format string, args ...any)) {
	for secret := range union(a.holders, b.holders) {
		x, y := a.holders[secret], b.holders[secret]
		if x == nil || y == nil || x.slot != y.slot || x.fence != y.fence || x.owner != y.owner ||
			x.end != y.end && !(near(x.end, y.end) && (x.about || a.mode == Exclusive && !x.exact)) {
			differ("%s of %s: %+v, want %+v", key, secret, y, x)
		}
	}
}

// equalCounters compares counters. One that is missing is 0.
func equalCounters(a, b map[string]string) bool {
	for field := range union(a, b) {
		if cmp.Or(a[field], "0") != cmp.Or(b[field], "0") {
			return false
		}
	}
	return true
}

func union[V any](a, b map[string]V) map[string]bool {
	all := map[string]bool{}
	for key := range a {
		all[key] = true
	}
	for key := range b {
		all[key] = true
	}
	return all
}

// mayHaveEnded reports whether a lock may have ended by now: its end is not known to the
// millisecond.
func (l *lock) mayHaveEnded(now int64) bool {
	for _, h := range l.holders {
		if !h.about && (l.mode != Exclusive || h.exact) || !near(h.end, now) {
			return false
		}
	}
	return l.mode != foreign
}

func (l *lock) String() string {
	if l == nil {
		return "nothing"
	}
	var all []string
	for secret, h := range l.holders {
		all = append(all, fmt.Sprintf("%s %+v", secret, *h))
	}
	slices.Sort(all)
	return fmt.Sprintf("mode %d %s%s", l.mode, l.content, strings.Join(all, ", "))
}
