package fake

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/wire"
)

const (
	mine   = "1111111111111111111111111111111111111111"
	theirs = "2222222222222222222222222222222222222222"
)

// ask runs operations in order, each as a packet of its own, and returns the answers.
func ask(t *testing.T, m *Master, record string, ops ...*wire.Op) (all wire.PacketReply) {
	t.Helper()
	for _, op := range ops {
		p := askPacket(t, m, record, op)
		all.Admitted, all.Clock = p.Admitted, p.Clock
		all.Results = append(all.Results, p.Results...)
	}
	return all
}

// askPacket runs operations as one packet on a connection of its own. The results are in the order
// of the packet.
func askPacket(t *testing.T, m *Master, record string, ops ...*wire.Op) wire.PacketReply {
	t.Helper()
	var b wire.Batch
	for _, op := range ops {
		op.Counter = wire.CounterOf(op.Key)
		if !b.Add(op) {
			t.Fatalf("an operation on %s does not belong to the packet", op.Key)
		}
	}
	e := wire.Encoder{StateKey: "lockproxy:state:lock:", Fencing: true}
	args, _ := CutCommand(e.AppendPacket(nil, &b, record, true))
	answer, ok := m.Run(m.Connect(func() {}), args)
	if !ok {
		t.Fatal("the connection is closed")
	}
	var r wire.Reply
	if n, err := wire.Parse(answer, &r); n != len(answer) || err != nil {
		t.Fatalf("%q: %d, %v", answer, n, err)
	}
	p, ok := wire.ParsePacket(&r, len(ops))
	if !ok {
		t.Fatalf("%q is no reply to a packet", answer)
	}
	return p
}

func at(key, secret string) wire.TokenAt { return wire.TokenAt{Key: key, Secret: secret} }

// results renders the answers of operations in one line.
func results(p wire.PacketReply) string {
	var b strings.Builder
	for i := range p.Results {
		switch r := &p.Results[i]; {
		case r.Kind == ':':
			fmt.Fprintf(&b, "%d ", r.Int)
		case r.Null:
			b.WriteString("null ")
		default:
			b.WriteString(strings.ReplaceAll(r.Text, " ", "_") + " ")
		}
	}
	return strings.TrimSpace(b.String())
}

func TestPacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New("run")
		p := ask(t, m, "",
			&wire.Op{Kind: wire.Acquire, TokenAt: at("lock:a", mine), TTL: time.Second, Owner: "me"},
			&wire.Op{Kind: wire.Acquire, TokenAt: at("lock:a", theirs), TTL: time.Second},
			&wire.Op{Kind: wire.Raise, TokenAt: at("lock:a", mine), Fence: 41},
			&wire.Op{Kind: wire.Extend, TokenAt: at("lock:a", mine), TTL: 2 * time.Second},
			&wire.Op{Kind: wire.Check, TokenAt: at("lock:a", theirs)},
			&wire.Op{Kind: wire.Inspect, TokenAt: at("lock:a", "")},
			&wire.Op{Kind: wire.Fade, TokenAt: at("lock:a", mine), TTL: 500 * time.Millisecond},
			&wire.Op{Kind: wire.Release, TokenAt: at("lock:a", theirs)},
			&wire.Op{Kind: wire.Release, TokenAt: at("lock:a", mine), Publish: true},
			&wire.Op{Kind: wire.TopUp, TokenAt: at("lock:a", theirs), TTL: time.Second, Fence: 50},
			&wire.Op{Kind: wire.Acquire, TokenAt: at("lock:a", mine), TTL: time.Second},
			&wire.Op{Kind: wire.Free, TokenAt: at("lock:a", "")},
			&wire.Op{Kind: wire.Acquire, TokenAt: at("lock:a", mine), TTL: time.Second},
			&wire.Op{Kind: wire.Inspect, TokenAt: at("lock:b", "")},
		)
		want := "1 -1002 1 0000000000000041me 0 2000_" + mine + "0000000000000041me 1 0 1 1 -1002 1 51 null"
		if got := results(p); got != want || !p.Admitted {
			t.Errorf("%s, want %s", got, want)
		}
		if n, ours := m.Holds("lock:a", mine); n != 1 || !ours {
			t.Errorf("%d keys, ours %v", n, ours)
		}
		if a, p := m.Ran("acquire lock:a"), m.Ran("packet"); a != 4 || p != 14 {
			t.Errorf("%d acquires in %d packets", a, p)
		}
		one := askPacket(t, m, "",
			&wire.Op{Kind: wire.Check, TokenAt: at("lock:none", mine)},
			&wire.Op{Kind: wire.Acquire, TokenAt: at("lock:b", mine), TTL: time.Second,
				Terms: &wire.Terms{Waits: time.Second}},
			&wire.Op{Kind: wire.Acquire, TokenAt: at("lock:c", mine), TTL: time.Second, Owner: "me"},
			&wire.Op{Kind: wire.Release, TokenAt: at("lock:a", theirs)},
			&wire.Op{Kind: wire.Release, TokenAt: at("lock:a", mine), Publish: true},
			&wire.Op{Kind: wire.Release, TokenAt: at("lock:c", mine)})
		if got := results(one); got != "1 0 1 1 0 1" || len(m.Names()) != 1 {
			t.Errorf("releases, acquires, others: %s, %d keys", got, len(m.Names()))
		}
	})
}

// A packet under another record carries out only operations that undo something.
func TestPacketOfOtherRecordOnlyReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New("run")
		m.SetLock("lock:a", mine, 7, "me", time.Now().Add(time.Second))
		p := ask(t, m, "A run f 1-0-x",
			&wire.Op{Kind: wire.Check, TokenAt: at("lock:a", mine)},
			&wire.Op{Kind: wire.Release, TokenAt: at("lock:a", mine)},
			&wire.Op{Kind: wire.Acquire, TokenAt: at("lock:a", mine), TTL: time.Second})
		code := func(i int) string { return p.Results[i].Code() }
		if p.Admitted || code(0) != wire.CodeNotAdmitted || !p.Results[1].Is(1) || code(2) != wire.CodeNotAdmitted {
			t.Errorf("%v %s", p.Admitted, results(p))
		}
		if len(m.Names()) != 0 {
			t.Errorf("%v %s, %d keys", p.Admitted, results(p), len(m.Names()))
		}
	})
}

// A master that is full still deletes, and grants after that, like Redis.
func TestFullMasterStillDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New("run")
		m.Denied = "OOM command not allowed when used memory > 'maxmemory'."
		m.SetLock("lock:a", mine, 7, "me", time.Now().Add(time.Second))
		grant := func() *wire.Op { return &wire.Op{Kind: wire.Acquire, TokenAt: at("lock:b", mine), TTL: time.Second} }
		before := ask(t, m, "", grant())
		p := askPacket(t, m, "", grant(), &wire.Op{Kind: wire.Release, TokenAt: at("lock:a", mine)})
		if before.Results[0].Code() != "OOM" || !p.Results[0].Is(1) || !p.Results[1].Is(1) {
			t.Error(results(before), results(p))
		}
	})
}

func TestDialAndPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New("run")
		c, err := m.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		m.Pause()
		begin := time.Now()
		time.AfterFunc(time.Second, m.Resume)
		if _, err := c.Write(wire.AppendCommand(nil, "PING")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		if n, err := c.Read(b); string(b[:n]) != "+PONG\r\n" || err != nil || time.Since(begin) != time.Second {
			t.Errorf("%q, %v after %v", b[:n], err, time.Since(begin))
		}
		m.Stop()
		if _, err := c.Read(b); err == nil {
			t.Error("the connection lives on")
		}
		if _, err := m.Dial(t.Context(), "", ""); err == nil {
			t.Error("a master that is down accepts")
		}
	})
}

func TestSwap(t *testing.T) {
	m := New("run")
	m.SetState("record", "A")
	m.SwapLocked(0, 1)
	if m.State("record") != "" {
		t.Error("the record is still there")
	}
	m.SetState("record", "B")
	m.SwapLocked(0, 1)
	if m.State("record") != "A" || m.DBs[1].State("record") != "B" {
		t.Errorf("%q, %q", m.State("record"), m.DBs[1].State("record"))
	}
}

func TestInfoBySection(t *testing.T) {
	m := New("run")
	for section, has := range map[string]string{
		"server": "run_id:run", "replication": "role:master", "memory": "maxmemory_policy",
		"stats": "evicted_keys:0", "persistence": "aof_enabled:0",
	} {
		t.Run(section, func(t *testing.T) {
			text := m.info(section)
			if !strings.Contains(text, has) {
				t.Errorf("%s: %q", section, text)
			}
			if section != "server" && strings.Contains(text, "run_id") {
				t.Errorf("%s: %q", section, text)
			}
		})
	}
}
