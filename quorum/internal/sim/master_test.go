package sim

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/quorum/internal/fake"
)

// simMaster is a server on the simulated network, with a clock of its own and troubles.
type simMaster struct {
	*fake.Master
	index  int // of the server; those under the number of masters begin at that address
	starts int // of the process; makes the run_id

	// Its clock, guarded by the fake's mu; Ahead is by how much it was ahead at began, and by the
	// steps since.
	began time.Time
	rate  float64

	unnoticed string    // the record that it had when its clock stepped last
	admitted  time.Time // when it was admitted last
	lost      time.Time // when it lost its memory last, or went back to an older state

	// Guarded by the network's mu.
	paused    bool
	trouble   string         // an error reply that some commands get instead of being carried out
	share     float64        // of those commands
	rights    map[string]int // rights that faults have removed, counted in negative numbers; guarded by the fake's mu
	hash      uint64
	disturbed time.Time // when a fault touched it last
	load      load

	away     bool // it is away now and then, and may get everything twice
	second   int64
	inSecond int // commands in that second

	cost  time.Duration // of an operation, one at a time; 0: it takes no time
	busy  bool
	turns []*simLink // with commands to be carried out, in order of arrival

	durable bool         // AOF on, fsync always: it keeps everything
	saved   *fake.Memory // what an old RDB holds
}

// load counts the packets and operations that a master has carried out.
type load struct {
	packets, scripts int // scripts: of the restart guard
	ops              map[string]int
}

func newSimMaster(index int, seed uint64, ahead time.Duration, rate float64) *simMaster {
	m := &simMaster{
		Master: fake.New(""), index: index, hash: mix(seed, 'm', uint64(index)),
		began: time.Now(), rate: rate, load: load{ops: make(map[string]int)}, disturbed: time.Now(),
		rights: make(map[string]int),
	}
	m.Quiet = true
	m.Ahead = ahead
	m.Clock = m.clock
	m.renameLocked()
	m.Hook = m.refuses
	m.Fault = m.fails
	m.saved = m.SaveLocked()
	return m
}

// clock returns the master's time.
func (m *simMaster) clock() time.Time {
	past := time.Since(m.began)
	return m.began.Round(0).Add(m.Ahead + past + time.Duration(float64(past)*(m.rate-1)))
}

// renameLocked gives the process a run_id.
func (m *simMaster) renameLocked() {
	m.starts++
	m.RebornLocked("run-"+strconv.Itoa(m.index)+"-"+strconv.Itoa(m.starts), true)
}

// refuses is the fake's Hook: a whole command is answered with the trouble.
func (m *simMaster) refuses(c *fake.Command) (time.Duration, string) {
	if m.trouble == "" {
		return 0, ""
	}
	share := m.share
	if c.Name == "packet" && share < 1 {
		share /= 2 // the other half of the trouble is that of single operations
	}
	if unit(mix(m.hash, uint64(time.Now().UnixNano()), uint64(len(c.Name)))) < share {
		return 0, m.trouble
	}
	return 0, ""
}

// fails is the fake's Fault: a single command of a packet that writes is answered with the
// trouble. All PEXPIREATs of a packet fail or none, because rights do not change while a script
// runs.
func (m *simMaster) fails(c fake.Call) string {
	key := c.Key()
	if strings.EqualFold(c.Args[0], "PEXPIREAT") {
		key = ""
	}
	if m.trouble == "" || m.share >= 1 || !c.Write || c.By.Name != "packet" ||
		unit(mix(m.hash, 'o', uint64(time.Now().UnixNano()), hashOf(c.Args[0]), hashOf(key))) >= m.share/2 {
		return ""
	}
	return strings.Trim(m.trouble, "-\r\n")
}

// setTrouble makes a master answer a share of its commands and operations with an error.
func (n *network) setTrouble(m *simMaster, text string, share float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.trouble, m.share, m.disturbed = text, share, time.Now()
}

// deny makes everything that writes fail, until denied is empty.
func (n *network) deny(m *simMaster, denied string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.disturbed = time.Now()
	m.Set(func() { m.Denied = denied })
}

// accepted makes the master accept the link; false if it is down. A paused one does too: its
// kernel is alive.
func (li *simLink) accepted(m *simMaster) bool {
	li.server = m
	li.peer = m.Connect(func() {
		// Told from within a command, with the network's mu.
		li.net.post.putLocked(letter{due: time.Now().Add(time.Nanosecond), do: li.goneLocked})
	})
	return li.peer != nil
}

// reachMasterLocked is a message's arrival.
func (li *simLink) reachMasterLocked(m *message) {
	if li.gone {
		li.sendLocked(down, nil, rst)
		return
	}
	if li.hungUp {
		return // after the end of the connection
	}
	if m.end == rst && li.hash%2 == 0 {
		li.inbox = nil // else it carries out the bytes that the kernel has taken
	}
	if len(li.inbox) == 0 {
		li.arrived = m.written
	}
	li.inbox = append(li.inbox, m.data...)
	li.hungUp = li.hungUp || m.end != noEnd
	li.workLocked()
}

// workLocked makes the master carry out the commands that have arrived.
func (li *simLink) workLocked() {
	if m := li.server; m.cost == 0 {
		li.runLocked(math.MaxInt)
	} else {
		if !slices.Contains(m.turns, li) {
			m.turns = append(m.turns, li)
		}
		m.serveLocked(li.net)
	}
}

// serveLocked makes a master that needs time for operations begin with the next command.
func (m *simMaster) serveLocked(n *network) {
	if m.busy || m.paused || len(m.turns) == 0 {
		return
	}
	li := m.turns[0]
	m.turns, m.busy = m.turns[1:], true
	n.post.putLocked(letter{due: time.Now().Add(time.Duration(li.operations()) * m.cost), do: func() {
		m.busy = false
		li.runLocked(1)
		if li.operations() > 0 {
			m.turns = append(m.turns, li)
		}
		m.serveLocked(n)
	}})
}

// operations counts those of the next command that has arrived; 0: none has.
func (li *simLink) operations() int {
	args, _ := fake.CutCommand(li.inbox)
	if args == nil {
		return 0
	}
	cmd, _ := fake.Parse(args)
	return max(1, len(cmd.Ops))
}

// runLocked carries out commands that have arrived, at most so many.
func (li *simLink) runLocked(most int) {
	m := li.server
	if m.paused || li.gone {
		return
	}
	var out []byte
	hasTime := false // an answer in out contains the time
	for ; most > 0; most-- {
		args, rest := fake.CutCommand(li.inbox)
		if args == nil {
			break
		}
		li.inbox = rest
		answer, ok := m.Run(li.peer, args)
		if m.storms(args) {
			li.net.storm(m)
		}
		if !ok {
			li.goneLocked()
			return
		}
		hasTime = li.net.trace.ran(li, args, answer) || hasTime
		out = append(out, answer...)
	}
	if len(out) > 0 && !li.closed {
		msg := li.sendLocked(down, out, noEnd)
		if hasTime && !li.arrived.IsZero() {
			msg.asked = li.arrived
			m.Set(func() { msg.record = m.State("record") })
		}
	}
	if li.hungUp && li.operations() == 0 {
		m.Disconnect(li.peer)
		li.goneLocked()
	}
}

// mostInSecond is the greatest load of a master in a second of a run, in packets. A script of the
// restart guard costs a hundred times as much.
const mostInSecond = 20000

// storms counts the commands to a master in a second, and reports whether they are too many.
func (m *simMaster) storms(args []string) bool {
	if second := time.Now().Unix(); second != m.second {
		m.second, m.inSecond = second, 0
	}
	before := m.inSecond
	m.inSecond++
	if cmd, known := fake.Parse(args); known && (cmd.Name == "counters" || cmd.Name == "admit") {
		m.inSecond += 100
	}
	return before < mostInSecond && m.inSecond >= mostInSecond
}

// goneLocked is the master's end being closed.
func (li *simLink) goneLocked() {
	if li.gone {
		return
	}
	li.gone, li.inbox = true, nil
	if !li.closed {
		li.sendLocked(down, nil, fin)
	}
}

// eachLinkLocked calls f for every link to a server.
func (n *network) eachLinkLocked(m *simMaster, f func(li *simLink)) {
	for _, paths := range n.paths {
		for _, p := range paths {
			for _, li := range p.links {
				if li.server == m {
					f(li)
				}
			}
		}
	}
}

// pauseMaster stops a master as SIGSTOP does.
func (n *network) pauseMaster(m *simMaster) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.paused, m.disturbed = true, time.Now()
}

// resumeMaster lets it go on with the commands that have arrived, connection by connection, in an
// order of its own.
func (n *network) resumeMaster(m *simMaster) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	m.paused, m.disturbed = false, now
	i := uint64(0)
	n.eachLinkLocked(m, func(li *simLink) {
		if i++; len(li.inbox) > 0 || li.hungUp {
			wait := mix(li.hash, uint64(now.UnixNano()), i) % uint64(time.Millisecond)
			n.post.putLocked(letter{due: now.Add(time.Duration(wait)), do: li.workLocked})
		}
	})
}

// stopMaster ends the process. If the machine dies too, silently, its connections do not learn of
// it.
func (n *network) stopMaster(m *simMaster, silently bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.paused, m.disturbed = false, time.Now()
	n.eachLinkLocked(m, func(li *simLink) {
		if silently {
			li.gone, li.inbox = true, nil
		}
	})
	m.Stop()
	n.eachLinkLocked(m, (*simLink).goneLocked)
}

// startMaster starts it again.
func (n *network) startMaster(m *simMaster) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.disturbed = time.Now()
	m.Start()
}

// hashOf makes a number of a text.
func hashOf(text string) uint64 {
	h := uint64(len(text))
	for _, c := range []byte(text) {
		h = h*31 + uint64(c)
	}
	return h
}
