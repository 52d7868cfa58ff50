package master

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// The lane takes an operation if its kind may go to a master in this state and there is room.
func TestStatusRefusal(t *testing.T) {
	down := errors.New("is down")
	for _, c := range []struct {
		name    string
		status  status
		kind    wire.OpKind
		waiting int
		want    error
	}{
		{"a lane without a connection takes no release", status{reason: down}, wire.Release, 0, down},
		{"a master that does not vote gets no acquire", status{up: true, reason: down, room: 10},
			wire.Acquire, 0, down},
		{"a master that does not vote gets releases", status{up: true, reason: down}, wire.Release, 0, nil},
		{"a voter gets acquires", status{up: true, voting: true, room: 10}, wire.Acquire, 9, nil},
		{"a lane without room takes no acquire", status{up: true, voting: true, room: 10}, wire.Acquire, 10, ErrFull},
		{"a lane without room extends", status{up: true, voting: true, room: 10}, wire.Extend, 10, nil},
		{"a busy lane tops up", status{up: true, voting: true}, wire.TopUp, maxUnanswered - 1, nil},
		{"a crowded lane does not top up", status{up: true, voting: true}, wire.TopUp, maxUnanswered, ErrFull},
		{"a full lane does not extend", status{up: true, voting: true}, wire.Extend, maxHolders, ErrFull},
		{"a full lane does not release", status{up: true, voting: true}, wire.Release, maxHolders, ErrFull},
		{"a closing lane does not acquire", status{up: true, voting: true, closing: true, room: 1},
			wire.Acquire, 0, ErrClosing},
		{"a closing lane releases", status{up: true, voting: true, closing: true}, wire.Release, 0, nil},
		{"a closing lane fades", status{up: true, voting: true, closing: true}, wire.Fade, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.status.refusal(c.kind, c.waiting); err != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// Each change of a connection shows in the state, the reason and the counters.
func TestStatusChanges(t *testing.T) {
	refused, broken := refusedError{errPassword}, errors.New("closed the connection")
	type want struct {
		up, votes bool
		state     stat.State
		reason    error
		lost      uint64
	}
	s := newStatus()
	for _, c := range []struct {
		name   string
		change func()
		want   want
	}{
		{"new", func() {}, want{false, false, stat.StateDown, errConnecting, 0}},
		{"met", func() { s.met("run-1", true) }, want{true, false, stat.StateDown, errProbing, 0}},
		{"admitted", s.admit, want{true, true, stat.StateVoting, nil, 0}},
		{"excluded", func() { s.exclude(stat.StateQuarantined, errStepped) },
			want{true, false, stat.StateQuarantined, errStepped, 0}},
		{"lost", func() { s.lost(broken) }, want{false, false, stat.StateDown, broken, 1}},
		{"lost before the handshake", func() { s.lost(broken) }, want{false, false, stat.StateDown, broken, 1}},
		{"refused", func() { s.set(stat.StateRefused, refused) }, want{false, false, stat.StateRefused, refused, 1}},
		{"met again keeps a refusal", func() { s.met("run-1", true) },
			want{true, false, stat.StateRefused, refused, 1}},
		{"lost again keeps the state of a refusal", func() { s.lost(broken) },
			want{false, false, stat.StateRefused, broken, 2}},
		{"the connection ended during the handshake", func() { s.met("run-1", false) },
			want{false, false, stat.StateRefused, broken, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change()
			if got := (want{s.up, s.voting, s.shown.State, s.reason, s.shown.Lost}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// Operations travel in packets, commands by themselves, and the first packet brings the script.
func TestPacketsEncode(t *testing.T) {
	command := func(q *queue) { q.add().call = &plainCommand{request: []byte("*1\r\n$4\r\nPING\r\n")} }
	operation := func(q *queue) { q.push(op(wire.Acquire, tokenAt("k", q.n)), nil) }
	alone := func(q *queue) { q.push(op(wire.Acquire, tokenAt("k", q.n)), nil).alone = true }
	all := func(queued ...func(*queue)) []func(*queue) { return queued }
	for _, c := range []struct {
		name    string
		packets packets
		queued  []func(*queue)
		runs    []int // how many entries each written request holds
		unsent  int
	}{
		{"operations travel together", packets{loaded: true}, all(operation, operation, operation), []int{3}, 0},
		{"a command travels by itself", packets{loaded: true},
			all(operation, command, operation, operation), []int{1, 1, 2}, 0},
		{"a packet with the script goes first", packets{}, all(operation, operation, command, operation), []int{2}, 2},
		{"commands go before the script", packets{}, all(command, operation, command), []int{1, 1}, 1},
		{"an operation that was forbidden goes alone", packets{loaded: true},
			all(operation, alone, operation, operation), []int{1, 1, 2}, 0},
		{"for a while each goes alone", packets{loaded: true, alone: time.Second},
			all(operation, operation), []int{1, 1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q queue
			for _, add := range c.queued {
				add(&q)
			}
			b := c.packets.encode(nil, &q, &wire.Encoder{StateKey: "s"}, "", time.Millisecond)
			var runs []int
			for i := 0; i < q.sent(); i += q.at(i).run {
				runs = append(runs, q.at(i).run)
			}
			if !slices.Equal(runs, c.runs) || q.unsent != c.unsent || c.packets.written != time.Millisecond {
				t.Errorf("runs %v, %d unsent, want %v, %d", runs, q.unsent, c.runs, c.unsent)
			}
			if strings.Contains(string(b), wire.Packet.Body) == c.packets.loaded && slices.Contains(c.runs, 2) {
				t.Errorf("brings the script although loaded is %v", c.packets.loaded)
			}
		})
	}
}

// Operations wait for earlier answers if enough are on their way, but not for long.
func TestPacketsWait(t *testing.T) {
	for _, c := range []struct {
		name         string
		sent, unsent int
		loaded       bool
		now, wait    time.Duration
		idle         bool
	}{
		{"nothing queued", 5, 0, true, 0, 0, true},
		{"nothing on its way", 0, 1, true, 0, 0, false},
		{"few on their way", gatherFrom - 1, 1, true, 0, 0, false},
		{"many on their way", gatherFrom, 1, true, 0, gather, false},
		{"half of the time has passed", gatherFrom, 1, true, gather / 2, gather / 2, false},
		{"all of the time has passed", gatherFrom, 1, true, gather, 0, false},
		{"a packet is full", gatherFrom, wire.MaxOps, true, 0, 0, false},
		{"the script is on its way", 1, 1, false, 0, 0, true},
		{"the script is missing", 0, 1, false, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q queue
			for range c.sent + c.unsent {
				q.add()
			}
			q.unsent = c.unsent
			p := packets{loaded: c.loaded}
			if wait, idle := p.wait(&q, c.now), p.idle(&q); wait != c.wait || idle != c.idle {
				t.Errorf("wait %v, idle %v, want %v, %v", wait, idle, c.wait, c.idle)
			}
		})
	}
}

// A step of the clock and a role as a replica are remembered until they are forgiven.
func TestServerEvidence(t *testing.T) {
	s := newServer()
	first, second := admission.ServerInfo{RunID: "run-1", Role: "master"},
		admission.ServerInfo{RunID: "run-2", Role: "slave"}
	clock := func(ahead time.Duration) { s.noteClock(time.Second, time.Second, time.Second+ahead) }
	type want struct {
		stepped bool
		demoted string
	}
	for _, c := range []struct {
		name  string
		event func()
		want  want
	}{
		{"met", func() { s.meet(&first) }, want{}},
		{"the first answer with a time", func() { clock(0) }, want{}},
		{"the same again", func() { clock(0) }, want{}},
		{"the clock is set", func() { clock(time.Hour) }, want{stepped: true}},
		{"the clock is set back", func() { clock(0) }, want{stepped: true}},
		{"a master", func() { s.noteRole(&first) }, want{stepped: true}},
		{"a replica", func() { s.noteRole(&second) }, want{true, "run-2"}},
		{"met again", func() { s.meet(&first) }, want{true, "run-2"}},
		{"forgiven", s.forgive, want{}},
		{"the clock that was forgiven", func() { clock(time.Hour) }, want{}},
		{"set once more", func() { clock(2 * time.Hour) }, want{stepped: true}},
		{"another run", func() { s.meet(&second) }, want{}},
		{"another run with the same clock", func() { clock(3 * time.Hour) }, want{stepped: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.event()
			if got := (want{s.stepped, s.demoted}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// The count of packets belongs to one record, and one probe is wanted at a time.
func TestServerAdmit(t *testing.T) {
	s, start := newServer(), time.Now()
	s.admit("a", start, start.Add(time.Second))
	if s.writes = 7; s.until != time.Second {
		t.Errorf("until %v, want 1s", s.until)
	}
	if s.admit("a", start, start.Add(2*time.Second)); s.writes != 7 || s.until != 2*time.Second {
		t.Errorf("the same record: %d packets until %v, want 7 until 2s", s.writes, s.until)
	}
	if s.admit("b", start, time.Time{}); s.writes != 0 || s.until < 1<<62 {
		t.Errorf("another record: %d packets until %v, want 0 for ever", s.writes, s.until)
	}
	s.writes = 5
	if n := s.takeWrites(); n != 5 || s.writes != 0 {
		t.Errorf("took %d, left %d", n, s.writes)
	}
	s.wantProbe()
	s.wantProbe()
	if !s.probing || len(s.wanted) != 1 {
		t.Errorf("probing %v, %d wanted", s.probing, len(s.wanted))
	}
}

// A master is slow if a tenth of its votes are late, or one PING, and for a while after that.
func TestPaceLate(t *testing.T) {
	var p pace
	for range 2*slowShare + 1 {
		p.vote(0)
	}
	for _, c := range []struct {
		name         string
		vote         bool
		at           time.Duration
		began, ended bool
	}{
		{"one late vote of many", true, 0, false, false},
		{"two late votes of many", true, 0, false, false},
		{"three late votes", true, 0, true, false},
		{"a late PING of a slow master", false, time.Second, false, false},
		{"a late PING much later", false, time.Second + slowFor, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, ended := p.endSlow(c.at)
			if ended != c.ended {
				t.Errorf("ended %v, want %v", ended, c.ended)
			}
			if began := p.noteLate(time.Second, c.vote, c.at); began != (c.began || ended) {
				t.Errorf("began %v, want %v", began, c.began || ended)
			}
		})
	}
}
