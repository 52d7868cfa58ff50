package quorum

import (
	"bytes"
	"strconv"
	"time"
)

// simMaster is a fakeMaster on the simulated network, with a clock of its own and troubles.
type simMaster struct {
	*fakeMaster
	index  int
	starts int // of the process; makes the run_id

	// Its clock, guarded by the fakeMaster's mu; the fakeMaster's ahead is by how much it was ahead at began, and by the steps since.
	began time.Time
	rate  float64

	unnoticed string // the record that it had when its clock stepped last

	// Guarded by the network's mu.
	paused  bool
	trouble string  // an error reply that some commands get instead of being carried out
	share   float64 // of those commands
	hash    uint64

	durable bool    // AOF on, fsync always: it forgets nothing
	saved   *memory // what an old RDB holds
}

func newSimMaster(index int, seed uint64, ahead time.Duration, rate float64) *simMaster {
	m := &simMaster{
		fakeMaster: newFakeMaster(""), index: index, hash: mix(seed, 'm', uint64(index)),
		began: time.Now(), rate: rate,
	}
	m.ahead = ahead
	m.clock = m.tells
	m.renameLocked()
	m.hook = m.refuses
	m.saved = m.copyLocked()
	return m
}

// tells is the master's clock.
func (m *simMaster) tells() time.Time {
	past := time.Since(m.began)
	return m.began.Round(0).Add(m.ahead + past + time.Duration(float64(past)*(m.rate-1)))
}

// renameLocked gives the process a run_id.
func (m *simMaster) renameLocked() {
	m.starts++
	m.runID = "run-" + strconv.Itoa(m.index) + "-" + strconv.Itoa(m.starts)
}

// refuses is the fakeMaster's hook.
func (m *simMaster) refuses(cmd string) (time.Duration, string) {
	if m.trouble != "" && unit(mix(m.hash, uint64(time.Now().UnixNano()), uint64(len(cmd)))) < m.share {
		return 0, m.trouble
	}
	return 0, ""
}

// accepted makes the master accept the wire; false if it is down. A paused one does too: its kernel is alive.
func (wr *wire) accepted(m *simMaster) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return false
	}
	m.nextID++
	wr.fake = &fakeConn{id: m.nextID, authed: true, closed: func() {
		// Told from within a command, with the network's mu.
		wr.net.post.putLocked(letter{due: time.Now().Add(time.Nanosecond), do: wr.goneLocked})
	}}
	m.conns[m.nextID] = wr.fake
	return true
}

// reachMasterLocked is a message's arrival.
func (wr *wire) reachMasterLocked(m *message) {
	if wr.gone {
		wr.sendLocked(down, nil, rst)
		return
	}
	if wr.hungUp {
		return // behind the end of the connection
	}
	if m.end == rst && wr.hash%2 == 0 {
		wr.inbox = nil // else what the kernel has taken is carried out all the same
	}
	wr.inbox = append(wr.inbox, m.data...)
	wr.hungUp = wr.hungUp || m.end != noEnd
	wr.workLocked()
}

// workLocked makes the master carry out what has arrived.
func (wr *wire) workLocked() {
	m := wr.net.masters[wr.path.master]
	if m.paused || wr.gone {
		return
	}
	var out []byte
	for {
		args, rest := cutCommand(wr.inbox)
		if args == nil {
			break
		}
		wr.inbox = rest
		answer, ok := m.run(wr.fake, args)
		if !ok {
			wr.goneLocked()
			return
		}
		wr.net.trace.ran(wr, args, answer)
		out = append(out, answer...)
	}
	if len(out) > 0 && !wr.closed {
		wr.sendLocked(down, out, noEnd)
	}
	if wr.hungUp {
		m.set(func() { delete(m.conns, wr.fake.id); wr.fake.killed = true })
		wr.goneLocked()
	}
}

// goneLocked is the master's end being closed.
func (wr *wire) goneLocked() {
	if wr.gone {
		return
	}
	wr.gone, wr.inbox = true, nil
	if !wr.closed {
		wr.sendLocked(down, nil, fin)
	}
}

// pauseMaster stops a master as SIGSTOP does.
func (n *network) pauseMaster(m *simMaster) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.paused = true
}

// resumeMaster lets it go on with what has arrived, connection by connection, in an order of its own.
func (n *network) resumeMaster(m *simMaster) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.paused = false
	now := time.Now()
	n.each(-1, m.index, func(p *path) {
		for i, wr := range p.wires {
			if len(wr.inbox) > 0 || wr.hungUp {
				wait := mix(wr.hash, uint64(now.UnixNano()), uint64(i)) % uint64(time.Millisecond)
				n.post.putLocked(letter{due: now.Add(time.Duration(wait)), do: wr.workLocked})
			}
		}
	})
}

// stopMaster ends the process. Whether its connections are told depends on what becomes of the machine.
func (n *network) stopMaster(m *simMaster, silently bool) {
	m.set(func() {
		m.down = true
		for _, c := range m.conns {
			c.killed = true
		}
		clear(m.conns)
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	m.paused = false
	n.each(-1, m.index, func(p *path) {
		for _, wr := range p.wires {
			if silently {
				wr.gone, wr.inbox = true, nil
			} else {
				wr.goneLocked()
			}
		}
	})
}

// cutCommand takes a command off the front of b; nil if there is none that is complete.
func cutCommand(b []byte) (args []string, rest []byte) {
	n, rest, ok := cutNumber(b)
	if !ok {
		return nil, b
	}
	args = make([]string, n)
	for i := range args {
		var size int
		if size, rest, ok = cutNumber(rest); !ok || len(rest) < size+2 {
			return nil, b
		}
		args[i], rest = string(rest[:size]), rest[size+2:]
	}
	return args, rest
}

// cutNumber reads "*3\r\n" or "$3\r\n".
func cutNumber(b []byte) (n int, rest []byte, ok bool) {
	end := bytes.IndexByte(b, '\n')
	if end < 3 {
		return 0, b, false
	}
	for _, c := range b[1 : end-1] {
		n = 10*n + int(c-'0')
	}
	return n, b[end+1:], true
}
