package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"lockproxy/integration/lab"
)

// fidelityScript is the bytes of one connection, with notes for the comparison.
type fidelityScript struct {
	grammar
	state     connectionState
	resp3     bool
	password  string // of the servers; "" for none
	mutated   bool
	locking   bool
	handshake int // wait for a reply after so many bytes, as most clients do; 0: send all at once

	text     strings.Builder
	prelude  []entered
	left     bool     // the connection may have left its state
	reached  []string // commands sent in the state, by name
	groups   []string // their groups
	sent     []string // all commands, by name
	locks    []string // the wanted beginning of each lock command's reply; "" for any
	masks    []mask   // of the tagged replies
	requests int
	skipping bool // the last command was CLIENT REPLY SKIP
	replies  bool // CLIENT REPLY is among the commands
}

// newFidelityScript writes a script of 3 to 25 commands, most of them of the cell's group, and of
// these the given ones first. mutated: some of its bytes are changed. One in three has lock
// commands.
func newFidelityScript(g grammar, c fidelityCell, password string, first []described, mutated bool) *fidelityScript {
	state, resp3 := c.state, c.resp3
	s := &fidelityScript{grammar: g, state: state, resp3: resp3, password: password}
	s.mutated, s.locking = mutated && !state.silent, s.IntN(3) == 0
	s.prelude = state.prelude(resp3, password)
	for i, e := range s.prelude {
		s.text.WriteString(lab.Encode(e.args...))
		if i == 0 && (resp3 || password != "") && s.IntN(2) == 0 {
			s.handshake = s.text.Len()
		}
	}
	start := s.text.Len()
	for n := range 3 + s.IntN(23) {
		switch {
		case n > 0 && s.IntN(10) < 3:
			s.one(s.anyOf(s.grammar.groups[s.IntN(len(s.grammar.groups))]))
		case len(first) > 0:
			s.one(first[0])
			first = first[1:]
		default:
			s.one(s.anyOf(c.group))
		}
		if s.locking && s.IntN(4) == 0 {
			s.lock()
		}
	}
	switch {
	case state.name == "multi" && s.IntN(4) > 0:
		s.write([]string{"EXEC"})
	case state.silent && s.IntN(3) > 0:
		s.write([]string{"CLIENT", "REPLY", "ON"})
	}
	if s.mutated = s.mutated && s.text.Len() > start; s.mutated {
		body := []byte(s.text.String()[start:])
		for range 1 + s.IntN(3) {
			s.mutate(&body)
		}
		head := s.text.String()[:start]
		s.text.Reset()
		s.text.WriteString(head + string(body))
	}
	return s
}

// one writes a call of a command by the grammar or by hand. In scripts with changed bytes only
// commands with whole replies are used: a changed byte could separate a reply from the tags
// around it, or give SHUTDOWN other arguments.
func (s *fidelityScript) one(d described) {
	how, ok := specials[d.String()]
	if ok && s.mutated || s.unfit(d) {
		return
	}
	if len(how.calls) == 0 {
		args := s.call(d)
		if s.mutated && slices.ContainsFunc(args, standsAlone) {
			return
		}
		s.command(d, args, how.mask)
		return
	}
	for line := range strings.SplitSeq(s.pick(how.calls...), ";") {
		args := strings.Fields(line)
		for i := range args {
			if args[i] == "PASSWORD" {
				if args[i] = "wrong"; !s.state.noAuth {
					args[i] = s.password
				}
			}
		}
		s.command(d, args, how.mask)
	}
}

// unfit reports whether the effect of a command would depend on time. Redis closes an
// unauthenticated connection whose replies wait in a list, which some commands cause, so a RESET
// may end it. With replies off, QUIT closes only if older replies still wait.
func (s *fidelityScript) unfit(d described) bool {
	switch d.String() {
	case "reset":
		return s.password != "" && !s.state.noAuth
	case "quit":
		return s.state.silent || s.replies || s.IntN(3) > 0 // no command may follow it
	case "client|reply":
		s.replies = true
	case "command|count", "command|getkeys", "command|getkeysandflags", "command|help":
		return s.mutated // COMMAND alone, with an argument less
	}
	return false
}

// standsAlone reports whether an argument ends with the name of a command that must not run, or
// whose reply is not compared whole: a changed byte, or an inserted line end, could turn that
// into the start of a request.
func standsAlone(arg string) bool {
	for i := range len(arg) {
		if _, ok := specials[strings.ToLower(arg[i:])]; ok {
			return true
		}
	}
	return false
}

// command writes a command, with tags around it if its reply is not compared whole.
func (s *fidelityScript) command(d described, args []string, m mask) {
	s.sent = append(s.sent, d.String())
	if s.state.skips && !s.left && s.IntN(3) > 0 {
		s.write([]string{"CLIENT", "REPLY", "SKIP"})
		s.note(d)
		s.write(args)
		s.left = strings.EqualFold(args[0], "multi") // SKIP would be queued
		return
	}
	if !s.state.skips {
		s.note(d)
	}
	if m == maskNone {
		s.write(args)
	} else {
		if s.skipping { // SKIP would suppress the tag's reply
			s.write([]string{"PING"})
		}
		s.write(s.tag("("))
		s.write(args)
		s.write(s.tag(")"))
		s.masks = append(s.masks, m)
	}
	s.left = s.left || leaves(args)
}

func (s *fidelityScript) note(d described) {
	if !s.left && !s.mutated {
		s.reached, s.groups = append(s.reached, d.String()), append(s.groups, d.group)
	}
}

// tag returns a command whose reply marks the start or end of a reply that is compared in part.
func (s *fidelityScript) tag(which string) []string {
	name := fmt.Sprintf("mask-%d%s", len(s.masks), which)
	if s.state.pings {
		return []string{"PING", name}
	}
	return []string{name}
}

// lock writes a lock command on a key of the script's own.
func (s *fidelityScript) lock() {
	key := fmt.Sprintf("fid-%x", s.Uint64())
	token := fmt.Sprintf("%016d:%s", s.IntN(1000), strings.Repeat("0f", 20))
	args := [][]string{{"LOCK", key, "5s"}, {"lock", key, "5000"}, {"LOCK", key, "5s"},
		{"LOCK", key, "5s", "FULL", "OWNER", "me"}, {"LOCK", key},
		{"LOCK", key, "x"}, {"UNLOCK", key, token}, {"EXTEND", key, token, "5s"}, {"LockInfo", key}, {"LOCKINFO"},
		{"LOCKPROXY", "HELP"}}[s.IntN(11)]
	expect := ""
	if !s.left && !s.state.silent && len(args) > 1 {
		expect = s.lockExpected()
		switch {
		case strings.EqualFold(args[0], "lock") && len(args) == 3 && args[2][0] == '5':
		case args[0] == "LockInfo" && expect == "$57\r\n":
			if expect = lab.Null2; s.resp3 {
				expect = lab.Null3
			}
		default:
			expect = ""
		}
	}
	s.locks = append(s.locks, expect)
	s.write(args)
}

// lockExpected returns the beginning of the reply to a correct LOCK while the connection is in
// its state.
func (s *fidelityScript) lockExpected() string {
	if s.state.name == "subscribed" && s.resp3 || s.state.lock == "" {
		return "$57\r\n"
	}
	return s.state.lock
}

// write writes a command, sometimes inline, and sometimes an empty one after it. Not after SKIP,
// which the empty one would use up.
func (s *fidelityScript) write(args []string) {
	s.requests++
	s.skipping = args[len(args)-1] == "SKIP"
	if s.IntN(8) == 0 && !slices.ContainsFunc(args, func(a string) bool {
		return strings.Trim(a, printableBytes) != "" || len(a) > 100
	}) {
		s.text.WriteString(s.inline(args))
		return
	}
	s.text.WriteString(lab.Encode(args...))
	if s.IntN(40) == 0 && !s.skipping {
		s.text.WriteString(s.pick("\r\n", "*0\r\n", "*-1\r\n", "  \r\n", "\n"))
	}
}

var printableBytes = func() (all string) {
	for b := ' '; b <= '~'; b++ {
		all += string(b)
	}
	return all
}()

// seeded returns the random source of a script.
func seeded(seed, number uint64) script { return script{rand.New(rand.NewPCG(seed, number))} }
