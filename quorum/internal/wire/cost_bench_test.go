package wire

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkHolders reports the processor time of a master for a packet of one operation on a lock
// that many hold: 5,000 readers of one key that all end in the same millisecond, and 128 slots. An
// exclusive lock is there for comparison.
//
// redis-us comes from INFO cpu and includes reading the request and writing the reply. script-us
// comes from INFO commandstats and is the script alone.
func BenchmarkHolders(b *testing.B) {
	type step = func(c *crowd, at *TokenAt)
	acquire, release := (*crowd).acquire, (*crowd).release
	for _, c := range []struct {
		name                   string
		fill                   func(*crowd)
		before, measure, after step // for each holder in turn; nil to skip
		spends                 bool // no step undoes the measured one: fill again once all holders are used
	}{
		{"exclusive/acquire", exclusives, release, acquire, nil, false},
		{"exclusive/release", exclusives, nil, release, acquire, false},
		{"exclusive/extend", exclusives, nil, (*crowd).extend, nil, true},
		{"exclusive/keep", exclusives, nil, (*crowd).keep, nil, true},
		{"exclusive/refused", exclusives, nil, (*crowd).refused, nil, false},
		{"readers=5000/acquire", readers, release, acquire, nil, false},
		{"readers=5000/release", readers, nil, release, acquire, false},
		{"readers=5000/extend", readers, nil, (*crowd).extend, nil, true},
		{"readers=5000/keep", readers, nil, (*crowd).keep, nil, true},
		{"readers=5000/check", readers, nil, (*crowd).check, nil, false},
		{"readers=5000/refused", readers, nil, (*crowd).refused, nil, false},
		{"slots=128/acquire-last", slots, release, acquire, nil, false},
		{"slots=128/release", slots, nil, release, acquire, false},
		{"slots=128/extend", slots, nil, (*crowd).extend, nil, true},
		{"slots=128/keep", slots, nil, (*crowd).keep, nil, true},
		{"slots=128/check", slots, nil, (*crowd).check, nil, false},
		{"slots=128/refused", slots, nil, (*crowd).refused, nil, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			crowd := &crowd{server: startRedis(b), b: b, dice: rand.New(rand.NewPCG(1, 1))}
			crowd.must("SCRIPT", "LOAD", Packet.Body)
			c.fill(crowd)
			var sum cost
			for at := 0; b.Loop(); at += crowd.turn {
				if at+crowd.turn > len(crowd.held)/2 {
					if at = 0; c.spends {
						c.fill(crowd)
					}
				}
				some := crowd.held[at : at+crowd.turn]
				crowd.each(some, c.before)
				before := crowd.used()
				crowd.each(some, c.measure)
				sum = sum.plus(crowd.used(), before)
				crowd.each(some, c.after)
			}
			n := float64(b.N * crowd.turn)
			b.ReportMetric(sum.cpu/n, "redis-us")
			b.ReportMetric(sum.script/n, "script-us")
			b.ReportMetric(0, "ns/op") // contains steps that are not measured
		})
	}
}

// crowd is a master with many holders of one mode.
type crowd struct {
	*server
	b    *testing.B
	dice *rand.Rand
	mode Mode
	turn int       // how many operations are measured between two readings of the counters
	held []TokenAt // the keys in turn
	end  time.Time // of all
}

func exclusives(c *crowd) { c.fill(Exclusive, 4096, 1) }
func readers(c *crowd)    { c.fill(Shared, 1, 5000) }
func slots(c *crowd)      { c.fill(Limited, 64, MaxLimit) }

const benchRecord = "A 0123456789abcdef0123456789abcdef01234567 0123456789abcdef 12-0-0123456789abcdef"

// fill makes locks that end in the same millisecond.
func (c *crowd) fill(mode Mode, keys, size int) {
	c.must("FLUSHALL")
	c.must("HSET", testState, "record", benchRecord)
	for i := range Counters {
		c.must("HSET", testState, i, 3671294823219200)
	}
	c.mode, c.turn, c.held = mode, 64, nil
	c.end = time.Now().Add(10 * time.Minute).Truncate(time.Millisecond)
	for len(c.held) < keys*size {
		ops := make([]*Op, min(MaxOps, keys*size-len(c.held)))
		for i := range ops {
			ops[i] = c.grant(TokenAt{fmt.Sprint("lock:job-", (len(c.held)+i)%keys), c.secret()})
		}
		p := c.once(ops...)
		if p.Clock.Milliseconds()+ops[0].TTL.Milliseconds() != c.end.UnixMilli() && mode != Exclusive {
			for i, o := range ops { // the clock went on in between
				ops[i] = c.leave(o.TokenAt)
			}
			c.once(ops...)
			continue
		}
		for _, o := range ops {
			c.held = append(c.held, o.TokenAt)
		}
	}
}

func (c *crowd) secret() string {
	return fmt.Sprintf("%016x%024x", c.dice.Uint64(), c.dice.Uint64())
}

func (c *crowd) grant(at TokenAt) *Op {
	ttl := time.Duration(c.end.UnixMilli()-time.Now().UnixMilli()) * time.Millisecond
	o := &Op{Kind: Acquire, TokenAt: at, Counter: CounterOf(at.Key), TTL: ttl, Owner: "127.0.0.1:54321"}
	switch c.mode {
	case Shared:
		o.Terms = &Terms{Mode: Shared}
	case Limited:
		o.Terms = &Terms{Mode: Limited, Limit: MaxLimit, Try: [2]int{c.dice.IntN(MaxLimit), c.dice.IntN(MaxLimit)}}
	}
	return o
}

func (c *crowd) leave(at TokenAt) *Op {
	return &Op{Kind: Release, TokenAt: at, Publish: true, Terms: &Terms{Mode: c.mode}}
}

// ask sends a packet and returns the reply.
func (c *crowd) ask(ops ...*Op) PacketReply {
	c.send(fenced.AppendPacket(nil, batch(c.b, ops...), benchRecord, false))
	var r Reply
	c.receive(&r)
	p, ok := ParsePacket(&r, len(ops))
	if !ok {
		c.b.Fatal(text(&r))
	}
	return p
}

// once is ask for what may not fail.
func (c *crowd) once(ops ...*Op) PacketReply {
	c.b.Helper()
	p := c.ask(ops...)
	for i := range p.Results {
		if r := &p.Results[i]; r.IsError() || r.Kind == ':' && r.Int < 1 {
			c.b.Fatalf("kind %d at %s: %s", ops[i].Kind, ops[i].Key, text(r))
		}
	}
	return p
}

func (c *crowd) each(some []TokenAt, step func(*crowd, *TokenAt)) {
	for i := range some {
		if step != nil {
			step(c, &some[i])
		}
	}
}

func (c *crowd) acquire(at *TokenAt) {
	at.Secret = c.secret()
	c.once(c.grant(*at))
}

func (c *crowd) release(at *TokenAt) { c.once(c.leave(*at)) }
func (c *crowd) extend(at *TokenAt)  { c.once(lasting(Extend, at.Key, at.Secret, 20*time.Minute)) }
func (c *crowd) keep(at *TokenAt)    { c.once(keep(at.Key, at.Secret, 5*time.Minute)) }
func (c *crowd) check(at *TokenAt)   { c.once(op(Check, at.Key, at.Secret)) }

// refused asks for a lock that is held: for a slot if all are taken, otherwise for all of it.
func (c *crowd) refused(at *TokenAt) {
	o := c.grant(TokenAt{at.Key, c.secret()})
	if c.mode == Shared {
		o.Terms = nil
	}
	if _, refused := Refused(&c.ask(o).Results[0]); !refused {
		c.b.Fatal("granted")
	}
}

// cost is processor time in microseconds.
type cost struct{ cpu, script float64 }

func (c cost) plus(end, begin cost) cost {
	return cost{c.cpu + end.cpu - begin.cpu, c.script + end.script - begin.script}
}

// used is the cost so far.
func (c *crowd) used() (sum cost) {
	sum.cpu = float64(c.processorTime().Microseconds())
	_, rest, _ := strings.Cut(c.must("INFO", "commandstats"), "cmdstat_evalsha:")
	_, usec, _ := strings.Cut(rest, ",usec=")
	usec, _, _ = strings.Cut(usec, ",")
	sum.script, _ = strconv.ParseFloat(usec, 64)
	return sum
}
