package wire

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// userRights are the rights of the user of lockproxy in docs/reference/settings.md.
const userRights = "on nopass ~lock:* ~lockproxy:* resetchannels &lockproxy:released:* &lockproxy:changed* -@all " +
	"+eval +evalsha +script|load +set +getrange +del +pttl +pexpire +pexpireat +get +type +zadd +zscore +zrem " +
	"+zrevrange +zrangebyscore +zcount +publish +pubsub|numsub +subscribe +unsubscribe +scan +setrange " +
	"+hget +hmget +hset +hdel +hlen +hgetall +time +info +config|get +ping +client|id +client|kill +client|setname"

// The script answers random packets as the model does, and leaves the state that the model has.
// WIRE_FUZZ_OPS is the number of operations, WIRE_FUZZ_SEED the first seed.
func TestScriptAsModel(t *testing.T) {
	r := newRig(t)
	var sum counts
	for seed := number("WIRE_FUZZ_SEED", 1); sum.ops < number("WIRE_FUZZ_OPS", 10_000); seed++ {
		if faults := r.fuzz(uint64(seed), &sum); faults != "" {
			t.Fatalf("seed %d: %s", seed, faults)
		}
	}
	t.Logf("%+v", sum)
}

// number returns a number of the environment.
func number(variable string, otherwise int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return n
}

// counts sum up runs.
type counts struct {
	ops, packets, granted, errors, pending int
	full, denied                           int // packets without memory, and without a right
	late                                   int // keys that outlived their holders after an operation failed
	// packets that were not compared: a lock may have ended before or after them
	unsure int
}

// rig is a master with three connections: one with all rights, that of lockproxy, and one that
// subscribes to all that is published.
type rig struct{ admin, user, watcher *server }

func newRig(t testing.TB) *rig {
	s := startRedis(t)
	r := &rig{s, s.another(), s.another()}
	for _, key := range append([]string{""}, fuzzKeys...) {
		r.watcher.must("SUBSCRIBE", ReleasedPrefix+key)
		r.watcher.must("SUBSCRIBE", cmp.Or(strings.TrimSuffix(ChangedPrefix+key, ":"), Changed))
	}
	return r
}

// grant gives the user all rights that it has in production.
func (r *rig) grant() {
	args := []any{"ACL", "SETUSER", "lockproxy"}
	for rule := range strings.FieldsSeq(userRights) {
		args = append(args, rule)
	}
	r.admin.must(args...)
}

// heard returns the messages since the last call.
func (r *rig) heard() (all []string) {
	r.watcher.send(AppendCommand(nil, "PING"))
	for {
		var message Reply
		if r.watcher.receive(&message); message.Elems[0].Text == "pong" {
			return all
		}
		all = append(all, message.Elems[1].Text+" "+message.Elems[2].Text)
	}
}

// fuzz runs random packets on an empty master, and returns what went wrong.
func (r *rig) fuzz(seed uint64, sum *counts) string {
	dice := rand.New(rand.NewPCG(seed, 29))
	f := &fuzz{rig: r, dealer: newDealer(dice), counts: sum, fences: map[string]fences{}}
	f.enc = Encoder{StateKey: testState, Fencing: dice.IntN(5) > 0}
	r.admin.must("CONFIG", "SET", "maxmemory", "0")
	r.admin.must("FLUSHALL")
	r.admin.must("SCRIPT", "LOAD", Packet.Body)
	r.grant()
	r.user.must("AUTH", "lockproxy", "any")
	r.admin.must("HSET", testState, "record", "A run f 1-0-x")
	f.look()
	if f.chance(1, 6) {
		for _, b := range f.crowd() {
			f.packet(b)
		}
	}
	for range 40 {
		switch f.change(); f.dice.IntN(12) {
		case 0:
			f.withoutMemory()
		case 1, 2:
			f.withoutRights()
		default:
			f.packet(f.batch(f.model))
		}
	}
	f.end()
	if f.faults == nil {
		return ""
	}
	return strings.Join(append(f.faults, f.story...), "\n")
}

// fuzz is a run. It stops at the first packet with a fault.
type fuzz struct {
	*rig
	*dealer
	*counts
	enc     Encoder
	model   *model
	last    stored            // the state that model has
	full    bool              // the master has no memory for writes
	lost    []string          // rights that the user lacks
	pending []*Op             // what failed operations leave to do
	fences  map[string]fences // by key
	story   []string          // the last packets
	faults  []string
}

func (f *fuzz) fail(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

func (f *fuzz) tell(format string, args ...any) {
	f.story = append(f.story[max(0, len(f.story)-150):], "  "+fmt.Sprintf(format, args...))
}

// look reads the state into the model. It may have no faults.
func (f *fuzz) look() {
	for _, bad := range f.read() {
		f.fail("%s: %s", bad.key, bad.text)
	}
}

// read reads the state into the model, and returns its faults.
func (f *fuzz) read() (faults []fault) {
	f.last = f.admin.readAll()
	f.model, faults = f.last.model(f.enc.Fencing)
	return faults
}

// wait waits for the keys that end soon, so that none ends just when the packet comes.
func (f *fuzz) wait() {
	for slices.ContainsFunc(slices.Collect(maps.Values(f.last.keys)), func(v value) bool {
		return v.expire >= 0 && v.expire <= f.last.now+40
	}) {
		f.read()
	}
}

// packet runs a packet on the master and in the model, and compares answers, state and messages.
func (f *fuzz) packet(b *Batch) {
	if f.faults != nil {
		return
	}
	f.wait()
	m, before, blank := f.model, f.last.now, len(f.last.keys[testState].content) == 0
	record := one(f.dealer, "", m.record, m.record, m.record, m.record, "B another")
	f.stamp(b)
	p, ops := f.send(b, record)
	now := p.Clock.Milliseconds()
	unsure := m.endsIn(now, now+1)
	for _, v := range f.last.keys {
		unsure = unsure || before < v.expire && v.expire <= now+1
	}
	m.begin(now, record)
	m.look(ops, p.Clock)
	if f.full && p.Writes > 0 {
		m.writes = p.Writes
	}
	f.order(ops, p)
	faults := f.compare(m, ops, p)
	if p.Admitted != m.admitted || record != "" && m.admitted && p.Writes != m.writes {
		faults = append(faults, fmt.Sprintf("admitted %v, %d writes; want %v, %d",
			p.Admitted, p.Writes, m.admitted, m.writes))
	}
	if f.look(); !p.Admitted && blank && len(f.last.keys[testState].content) > 0 {
		faults = append(faults, "a master that is not admitted has a state")
	}
	heard := f.heard()
	if unsure || f.last.now-now >= short-1 || m.endsIn(now, f.last.now+1) {
		f.unsure++
		return
	}
	slices.Sort(heard)
	slices.Sort(m.news)
	if !slices.Equal(heard, m.news) {
		f.fail("published %q, want %q", heard, m.news)
	}
	m.at(f.last.now)
	f.faults = append(append(f.faults, faults...), differences(m, f.model)...)
}

// stamp makes some operations of some packets as old as their ttl, and some older.
func (f *fuzz) stamp(b *Batch) {
	now, aged := time.Duration(time.Now().UnixNano()), f.chance(1, 6)
	for _, op := range b.ops[:b.n] {
		if op.Begun = 0; f.chance(1, 2) {
			op.Begun = now
		}
		if op.Within = op.TTL / 2; aged && f.chance(1, 4) {
			op.Begun = now - time.Duration(f.dice.Int64N(2*int64(op.TTL)+1))
		}
	}
}

// compare runs the operations in the model and returns which answers differ.
func (f *fuzz) compare(m *model, ops []*Op, p PacketReply) (faults []string) {
	for i, op := range ops {
		r := &p.Results[i]
		got, slot := hear(op, r, p.Clock.Milliseconds()), -1
		f.tell("%s: %v", describe(op), got)
		if f.full && r.Code() == "OOM" {
			f.errors++
			continue
		}
		if _, granted, ok := Granted(r); ok {
			slot = granted
		}
		if longer, _, ok := Refreshed(r); op.Kind == Refresh && ok && longer != 0 {
			slot = 1
		}
		if want := m.run(op, slot); !alike(want, got) {
			faults = append(faults, fmt.Sprintf("%s: %v, want %v", describe(op), got, want))
		}
	}
	return faults
}

// endsIn reports whether a holder ends in some milliseconds.
func (m *model) endsIn(from, to int64) bool {
	for _, l := range m.locks {
		for _, h := range l.holders {
			if from <= h.end && h.end <= to {
				return true
			}
		}
	}
	return false
}

// send sends a packet and returns its operations in the order in which the script runs them.
func (f *fuzz) send(b *Batch, record string) (PacketReply, []*Op) {
	f.user.send(f.enc.AppendPacket(nil, b, record, false))
	var r Reply
	f.user.receive(&r)
	p, ok := ParsePacket(&r, b.Len())
	f.tell("packet %q at %d, no memory %v, without %v", record, p.Clock.Milliseconds(), f.full, f.lost)
	all := b.arrange()
	if !ok {
		f.fail("the packet was answered %s", text(&r))
		return p, nil
	}
	f.packets++
	f.ops += b.Len()
	return p, all[:b.Len()]
}

// fences are the largest fences that were granted at a key.
type fences struct{ any, exclusive uint64 }

// order checks that of two tokens of a key, unless both are shared, the later has the greater
// fence.
func (f *fuzz) order(ops []*Op, p PacketReply) {
	for i, op := range ops {
		r := &p.Results[i]
		fence, _, granted := Granted(r)
		shared := op.Mode() == Shared
		switch {
		case op.Kind == Acquire && granted:
			f.granted++
		case op.Kind == Raise && r.Is(1), op.Kind == TopUp && r.Is(1):
			fence, shared = op.Fence, true // of a lock that may be older
		default:
			continue
		}
		for _, key := range keys(op) {
			f.noteFence(op, key, fence, shared)
		}
	}
}

// noteFence notes the fence of an operation at a key. An acquire must have a greater one than
// before.
func (f *fuzz) noteFence(op *Op, key string, fence uint64, shared bool) {
	had := f.fences[key]
	if op.Kind != Acquire && fence < had.any {
		had = fences{} // no quorum gives a fence that one of its masters has passed
	}
	earlier := had.any
	if shared {
		earlier = had.exclusive
	}
	if op.Kind == Acquire && f.enc.Fencing && earlier > 0 && fence <= earlier {
		f.fail("%s has the fence %d after %+v", describe(op), fence, had)
	}
	if had.any = max(had.any, fence); !shared {
		had.exclusive = max(had.exclusive, fence)
	}
	f.fences[key] = had
}

// withoutMemory runs packets while the master has no memory for writes.
func (f *fuzz) withoutMemory() {
	f.full, f.waits = true, false // there is no room for intents
	f.admin.must("CONFIG", "SET", "maxmemory", "1")
	for range 1 + f.dice.IntN(3) {
		f.counts.full++
		f.packet(f.batch(f.model))
	}
	f.admin.must("CONFIG", "SET", "maxmemory", "0")
	f.full, f.waits = false, true
}

// change does to the master what time, operators and other programs do.
func (f *fuzz) change() {
	key := f.key()
	if f.faults != nil {
		return
	}
	switch f.dice.IntN(24) {
	case 0, 1:
		f.foreign(key)
	case 2, 3, 4:
		if l := f.model.locks[key]; l != nil && l.mode == foreign {
			f.admin.must("DEL", key)
		}
	case 5:
		limit := FenceLimit(time.Now())
		f.admin.must("HSET", testState, f.dice.IntN(3), one(f.dealer, "7", "70", fmt.Sprint(limit-7200_000<<11),
			fmt.Sprint(limit+7200_000<<11), "x", "1.5", "-1", "9007199254740991"))
	case 6:
		f.admin.must("HDEL", testState, f.dice.IntN(3))
	case 7:
		record := one(f.dealer, "A run f 1-0-x", "A run f 2-0-y")
		f.admin.must("HSET", testState, "record", record, "writes", f.dice.IntN(2)*70)
	case 8: // a master that forgot
		f.admin.must("DEL", testState)
	case 9, 10, 11, 12:
		f.age(key)
	default:
		return
	}
	clear(f.fences) // counters may be lower
	f.look()
}

// foreign puts something that is no lock at a key, such as a lock of an older layout.
func (f *fuzz) foreign(key string) {
	token, end := f.token(), time.Now().Add(time.Minute).UnixMilli()
	f.admin.must("DEL", key)
	f.admin.must(one(f.dealer, [][]any{
		{"SET", key, "short"}, {"RPUSH", key, token}, {"SADD", key, token}, {"XADD", key, "*", "a", "b"},
		{"HSET", key, token, "S0000000000000000001"},
		{"ZADD", key, "1", "a"},
		{"ZADD", key, end, token},
		{"ZADD", key, "0", "lockproxy", end, token, -end, token + "0000000000000007me"},
		{"ZADD", key, "0", "lockproxy", end, token, -1, token + "S0000000000000000007me", -2, "x"},
		{"HSET", key, "lockproxy", "limit", "last", end, "0", fmt.Sprint(end, " ", token, "0000000000000007me"),
			"s" + token, "0"},
	}...)...)
	if f.chance(1, 2) {
		f.admin.must("PEXPIRE", key, 100_000)
	}
	f.tell("foreign at %s", key)
}

// age ends some holders of a key beside others, like time that passes.
func (f *fuzz) age(key string) {
	l := f.model.locks[key]
	if l == nil || len(l.holders) < 2 {
		return
	}
	secrets, last := slices.Sorted(maps.Keys(l.holders)), int64(0)
	some := 1 + f.dice.IntN(len(secrets)-1)
	f.dice.Shuffle(len(secrets), func(i, j int) { secrets[i], secrets[j] = secrets[j], secrets[i] })
	for i, secret := range secrets {
		if i < some {
			place := int64(999)
			if l.mode == Limited {
				place = int64(l.holders[secret].slot)
			}
			f.admin.must("ZADD", key, "XX", (f.last.now-1-int64(f.dice.IntN(3)))*1000+place, "="+secret)
		} else {
			last = max(last, l.holders[secret].end)
		}
	}
	for _, again := range secrets[:min(some, 3)] { // may be asked for again
		if !strings.HasPrefix(again, "kept") && !slices.Contains(f.closed, again) {
			f.tokens[f.dice.IntN(len(f.tokens))] = ofMode(again, Exclusive)
		}
	}
	f.admin.must("PEXPIREAT", key, last)
	f.tell("%s: %d of %d have ended", key, some, len(secrets))
}

// end lets all holders go. Then no lock may be left.
func (f *fuzz) end() {
	if f.faults != nil {
		return
	}
	b := f.releases()
	if f.packet(b); b.Len() == MaxOps && f.faults == nil {
		f.end() // there may be more
		return
	}
	b.Reset()
	for _, key := range fuzzKeys {
		if l := f.model.locks[key]; l != nil && l.mode == foreign {
			f.admin.must("DEL", key)
		}
		b.Add(&Op{Kind: Free, TokenAt: TokenAt{Key: key}})
	}
	f.look()
	f.packet(b)
	for key, v := range f.last.keys {
		if f.faults == nil && key != testState && !strings.HasPrefix(key, IntentPrefix) {
			f.fail("%s is left: %+v", key, v)
		}
	}
}

// releases returns releases of all holders, up to a full packet.
func (f *fuzz) releases() *Batch {
	b := new(Batch)
	for _, key := range slices.Sorted(maps.Keys(f.model.locks)) {
		for _, secret := range slices.Sorted(maps.Keys(f.model.locks[key].holders)) {
			if strings.HasPrefix(secret, "kept") {
				continue
			}
			mode := f.model.locks[key].mode
			release := &Op{Kind: Release, TokenAt: TokenAt{key, secret}, Publish: f.chance(1, 2), Terms: &Terms{Mode: mode}}
			if !b.Add(release) {
				break
			}
		}
	}
	return b
}
