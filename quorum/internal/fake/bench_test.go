package fake

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/quorum/internal/wire"
)

// BenchmarkPacket is what an operation costs a master in memory, from the bytes of its packet on.
func BenchmarkPacket(b *testing.B) {
	lock := func(kind wire.OpKind, terms *wire.Terms) *wire.Op {
		return &wire.Op{Kind: kind, TokenAt: at("lock:a", mine), TTL: time.Minute, Owner: "me", Fence: 7, Terms: terms}
	}
	shared, slot := &wire.Terms{Mode: wire.Shared}, &wire.Terms{Mode: wire.Limited, Limit: 4}
	release := &wire.Op{Kind: wire.Release, TokenAt: at("lock:a", mine), Publish: true}
	for name, ops := range map[string][]*wire.Op{
		"acquire and release":        {lock(wire.Acquire, nil), release},
		"acquire and release shared": {lock(wire.Acquire, shared), release},
		"acquire and release slot":   {lock(wire.Acquire, slot), release},
		"check":                      {lock(wire.Check, nil)},
	} {
		b.Run(name, func(b *testing.B) {
			m := New("run")
			m.Quiet = true
			m.SetState("record", "A run f 1-0-x")
			e := wire.Encoder{StateKey: StateKey, Fencing: true}
			c := m.Connect(func() {})
			m.Run(c, []string{"SCRIPT", "LOAD", wire.Packet.Body})
			var packets [][]byte
			for _, op := range ops {
				var batch wire.Batch
				batch.Add(op)
				packets = append(packets, e.AppendPacket(nil, &batch, "A run f 1-0-x", false))
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, packet := range packets {
					args, _ := CutCommand(packet)
					m.Run(c, args)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(packets)), "µs/packet")
			args, _ := CutCommand(packets[0])
			if reply, _ := m.Run(c, args); testing.Verbose() {
				fmt.Printf("%q\n", reply)
			}
		})
	}
}
