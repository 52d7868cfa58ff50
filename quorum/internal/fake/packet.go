package fake

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
)

// operation says how an operation stands in a packet and what it does.
type operation struct {
	name  string
	args  int // of one that has several keys: the argument that says how many, with one more for each
	votes bool
	do    func(p *packet, o *Op) string
}

// operations are all of them, by their letter.
var operations map[byte]operation

func init() {
	operations = map[byte]operation{
		'A': {"acquire", 4, true, (*packet).acquire},
		'W': {"acquire", 5, true, (*packet).acquire},
		'S': {"acquire", 5, true, (*packet).acquireShared},
		'L': {"acquire", 8, true, (*packet).acquireSlot},
		'M': {"acquire", 5, true, (*packet).acquireSeveral},
		'R': {"raise", 3, true, (*packet).raise},
		'N': {"raise", 3, true, (*packet).raiseSeveral},
		'K': {"release", 2, false, (*packet).keep},
		'H': {"share", 3, true, (*packet).share},
		'D': {"release", 1, false, (*packet).release},
		'P': {"release", 1, false, (*packet).release},
		'Q': {"release", 1, false, (*packet).release},
		'Z': {"release", 1, false, (*packet).release},
		'F': {"fade", 2, false, (*packet).fade},
		'T': {"topup", 6, true, (*packet).topUp},
		'E': {"extend", 2, true, (*packet).extend},
		'C': {"check", 1, true, (*packet).check},
		'I': {"inspect", 0, true, (*packet).inspect},
		'X': {"free", 0, false, (*packet).free},
	}
}

// packet is a packet that runs.
type packet struct {
	m     *Master
	db    *Memory
	now   time.Time
	dirty bool   // it has written already
	err   string // why the packet could not be counted: nothing in it votes
}

const notAdmitted = "NOTADMITTED the record of this master has changed"

// runPacket is packet.lua.
func runPacket(m *Master, db *Memory, cmd *Command) []byte {
	keys, _ := strconv.Atoi(cmd.Args[2])
	record := cmd.Args[3+keys]
	p := &packet{m: m, db: db, now: m.NowLocked()}
	admitted := record == "" || db.State["record"] == record
	b := make([]byte, 0, 64+16*len(cmd.Ops))
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(3+len(cmd.Ops)), 10)
	b = append(b, "\r\n"...)
	first := int64(0)
	if admitted {
		first = 1 + p.count(record)
	}
	b = append(b, integer(first)...)
	b = append(b, integer(p.now.Unix())...)
	b = append(b, integer(int64(p.now.Nanosecond()/1000))...)
	for i := range cmd.Ops {
		b = append(b, p.one(&cmd.Ops[i], admitted)...)
	}
	return b
}

// count counts a packet that names its record, if the master is durable.
func (p *packet) count(record string) int64 {
	n := number(p.db.State["writes"])
	if n == 0 || record == "" {
		return 0
	}
	if p.err = p.denied(true); p.err == "" {
		n++
		p.db.State["writes"] = strconv.FormatUint(n, 10)
	}
	return int64(n)
}

// one carries out one operation.
func (p *packet) one(o *Op, admitted bool) string {
	kind := operations[o.Letter]
	if kind.votes && !admitted {
		return failure(notAdmitted)
	}
	if kind.votes && p.err != "" {
		return failure(p.err)
	}
	if p.m.Fault != nil {
		if text := p.m.Fault(o); text != "" {
			return failure(text)
		}
	}
	return kind.do(p, o)
}

// denied is why a command that writes fails now; where it does not, the packet has written. takes
// says that it takes memory.
func (p *packet) denied(takes bool) string {
	err := p.m.deniesLocked(takes, p.dirty)
	p.dirty = p.dirty || err == ""
	return err
}

// ahead returns the error of an operation that raises counters to fence, if fence or the next number
// of a counter exceeds the limit. Otherwise it returns "".
func (p *packet) ahead(fence uint64, fields ...string) string {
	for _, field := range fields {
		if field != "" {
			fence = max(fence, p.db.Counters[field]+1)
		}
	}
	if fence > wire.FenceLimit(p.now) {
		return failure("ERR a fencing counter is more than a day ahead of the clock")
	}
	return ""
}

func (p *packet) acquire(o *Op) string {
	secret, ttl, field, owner, waits := o.Args[0], o.Args[1], o.Args[2], o.Args[3], ""
	if o.Letter == 'W' {
		waits = o.Args[4]
	}
	if err := p.ahead(0, field); err != "" {
		return err
	}
	if v, stands := p.db.get(o.Key, p.now); stands { // also where nothing can be written
		return p.refuse(o.Key, v, wire.Exclusive, waits)
	}
	if err := p.denied(true); err != "" {
		return failure(err)
	}
	fence := uint64(0)
	if field != "" {
		p.db.Counters[field]++
		fence = p.db.Counters[field]
	}
	p.db.Keys[o.Key] = LockValue(secret, fence, owner, p.now.Add(millis(ttl)))
	p.granted(o.Key, waits)
	return integer(int64(fence))
}

func (p *packet) raise(o *Op) string {
	fence := number(o.Args[1])
	if err := p.ahead(fence); err != "" {
		return err
	}
	v, ours := p.db.ours(o.Key, o.Args[0], p.now)
	if !ours {
		return integer(0)
	}
	if err := p.ahead(fence, o.Args[2]); err != "" {
		return err
	}
	if err := p.denied(true); err != "" {
		return failure(err)
	}
	p.db.raise(o.Args[2], fence)
	if at := v.holder(o.Args[0]); at >= 0 {
		h := v.Holders[at]
		h.Fence = fence
		p.db.Keys[o.Key] = v.with(at, h)
		return integer(1)
	}
	p.db.Keys[o.Key] = LockValue(v.Secret(), fence, v.Owner(), v.End)
	return integer(1)
}

func (p *packet) release(o *Op) string {
	if _, ours := p.db.ours(o.Key, o.Args[0], p.now); !ours {
		return integer(0)
	}
	return p.remove(o, o.Args[0], o.Letter != 'D')
}

func (p *packet) free(o *Op) string {
	v, stands := p.db.get(o.Key, p.now)
	if v.Other {
		return integer(0)
	}
	if err := p.denied(false); err != "" || !stands { // it deletes whatever is there
		return failureOr(err, 0)
	}
	return p.remove(o, v.Secret(), true)
}

// remove takes the lock away, or the one who holds it with that secret.
func (p *packet) remove(o *Op, secret string, publish bool) string {
	if err := p.denied(false); err != "" {
		return failure(err)
	}
	v, gone := p.db.Keys[o.Key], true
	if at := v.holder(secret); at >= 0 {
		gone = p.settle(o.Key, Value{Mode: v.Mode, Holders: slices.Delete(slices.Clone(v.Holders), at, at+1)})
	} else {
		delete(p.db.Keys, o.Key)
	}
	switch {
	case !publish:
	case v.Mode == wire.Shared && !gone:
		p.tell(wire.ChangedPrefix, o.Key, "")
	case v.Mode != wire.Exclusive && len(o.Args) == 0: // free
		p.tell(wire.ReleasedPrefix, o.Key, "")
	default:
		p.tell(wire.ReleasedPrefix, o.Key, secret)
		if v.Mode == wire.Limited {
			p.tell(wire.ChangedPrefix, o.Key, "")
		}
	}
	return integer(1)
}

// tell publishes the id of the secret; nothing of an empty one. Nobody is told who has not
// subscribed to the channel for all keys as well.
func (p *packet) tell(channel, key, secret string) {
	id := ""
	if secret != "" {
		id = wire.ReleaseID(secret)
	}
	first := channel
	if channel == wire.ChangedPrefix {
		first = wire.Changed
	}
	if len(p.m.subs[first]) > 0 {
		p.m.publishLocked(channel+key, id)
	}
}

func (p *packet) fade(o *Op) string {
	v, ours := p.db.ours(o.Key, o.Args[0], p.now)
	if !ours {
		return integer(0)
	}
	if at := v.holder(o.Args[0]); at >= 0 {
		return p.fadeHolder(o, v, at)
	}
	if end := p.now.Add(millis(o.Args[1])); v.End.IsZero() || end.Before(v.End) {
		if err := p.denied(false); err != "" {
			return failure(err)
		}
		v.End = end
		p.db.Keys[o.Key] = v
	}
	return integer(1)
}

func (p *packet) fadeHolder(o *Op, v Value, at int) string {
	h := v.Holders[at]
	if end := p.now.Add(millis(o.Args[1])); end.Before(h.End) {
		if err := p.denied(true); err != "" {
			return failure(err)
		}
		h.End = end
		p.settle(o.Key, v.with(at, h))
	}
	return integer(1)
}

// lengthen makes what the secret holds live at least ttl from now. It is never made shorter.
func (p *packet) lengthen(key, secret string, v Value, ttl string) string {
	if at := v.holder(secret); at >= 0 {
		h := v.Holders[at]
		if end := p.now.Add(millis(ttl)); end.After(h.End) {
			if err := p.denied(true); err != "" {
				return err
			}
			h.End = end
			p.db.Keys[key] = v.with(at, h)
		}
		return ""
	}
	if end := p.now.Add(millis(ttl)); !v.End.IsZero() && end.After(v.End) {
		if err := p.denied(false); err != "" {
			return err
		}
		v.End = end
		p.db.Keys[key] = v
	}
	return ""
}

func (p *packet) topUp(o *Op) string {
	secret, ttl, field, fence, owner := o.Args[0], o.Args[1], o.Args[2], number(o.Args[3]), o.Args[4]
	if err := p.ahead(fence, field); err != "" {
		return err
	}
	p.leaveOtherSlot(o.Key, secret, o.Args[5])
	v, ours := p.db.ours(o.Key, secret, p.now)
	if ours && o.Args[5] == "S" && v.Mode == wire.Exclusive {
		if said := p.share(o); said[0] == '-' {
			return said
		}
		return integer(2)
	}
	if ours {
		if err := p.lengthen(o.Key, secret, v, ttl); err != "" {
			return failure(err)
		}
		return integer(2)
	}
	if mode := o.Args[5]; mode != "" {
		return p.topUpAs(o, mode)
	}
	if _, stands := p.db.get(o.Key, p.now); stands {
		return integer(0)
	}
	if err := p.denied(true); err != "" {
		return failure(err)
	}
	p.db.raise(field, fence)
	p.db.Keys[o.Key] = LockValue(secret, fence, owner, p.now.Add(millis(ttl)))
	p.granted(o.Key, "")
	return integer(1)
}

func (p *packet) extend(o *Op) string {
	v, ours := p.db.ours(o.Key, o.Args[0], p.now)
	if !ours {
		return integer(0)
	}
	if err := p.lengthen(o.Key, o.Args[0], v, o.Args[1]); err != "" {
		return failure(err)
	}
	return p.tailOf(v, o.Args[0])
}

func (p *packet) check(o *Op) string {
	v, ours := p.db.ours(o.Key, o.Args[0], p.now)
	if at := v.holder(o.Args[0]); ours && at >= 0 {
		return integer(1 + int64(v.Holders[at].Slot))
	}
	if ours {
		return integer(1)
	}
	return integer(0)
}

func (p *packet) inspect(o *Op) string {
	v, stands := p.db.get(o.Key, p.now)
	switch {
	case !stands:
		return null
	case v.Other:
		return "+OTHER\r\n"
	case v.Mode != wire.Exclusive:
		return p.inspectHolders(v)
	}
	var b strings.Builder
	b.WriteString(strconv.FormatInt(v.left(p.now), 10) + " " + v.Text[:min(256, len(v.Text))])
	return bulk(b.String())
}
