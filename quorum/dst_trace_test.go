package quorum

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is one thing that happened in a simulated run. It is cheap to keep; text makes it readable.
type event struct {
	at     time.Duration
	what   string
	proxy  int // and those after it: -1 for none
	master int
	client int
	key    string
	secret string
	more   string
	d      time.Duration
}

// keepEvents is how many events of a run are kept.
const keepEvents = 1 << 14

// trace is the last events of a run. It is safe for concurrent use.
type trace struct {
	began time.Time

	mu     sync.Mutex
	events []event
	count  uint64
	sum    uint64 // of all events, to compare two runs of a seed
}

func newTrace() *trace { return &trace{began: time.Now()} }

func (t *trace) add(e event) {
	e.at = time.Since(t.began)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count++; len(t.events) < keepEvents {
		t.events = append(t.events, e)
	} else {
		t.events[t.count%keepEvents] = e
	}
	t.sum = mix(t.sum, uint64(e.at), uint64(len(e.what)), uint64(e.proxy), uint64(e.master), uint64(e.client))
}

// ran notes that a master has carried out a command about a lock, or one of the restart guard.
func (t *trace) ran(wr *wire, args []string, answer string) {
	if args[0] != "EVALSHA" && args[0] != "EVAL" {
		return
	}
	m := wr.net.masters[wr.path.master]
	sha := args[1]
	if args[0] == "EVAL" {
		sha = fakeSHA(args[1])
	}
	m.mu.Lock()
	op, ok := m.scripts[sha]
	m.mu.Unlock()
	if !ok {
		return
	}
	if answer[0] != '-' {
		wr.net.ranLocked(wr.path, op)
	}
	e := event{what: fakeOps[op], proxy: wr.from.serial, master: m.index, client: -1, key: args[3], more: answer}
	if op != opInfo && op != opFree && op < opInfo {
		e.secret = args[3+int(args[2][0]-'0')]
	}
	t.add(e)
}

// note is an event of the world.
func (t *trace) note(master int, format string, args ...any) {
	t.add(event{what: fmt.Sprintf(format, args...), proxy: -1, master: master, client: -1})
}

// all is everything that is kept, in the order in which it happened, with tokens as they are.
func (t *trace) all() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := make([]string, 0, len(t.events))
	for _, e := range t.events {
		lines = append(lines, e.text())
	}
	return strings.Join(lines, "\n")
}

// about is the story of a key: all about the token that matters, if there is one, and the last of everything else, faults
// included.
func (t *trace) about(key, secret string, last int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.events)
	slices.SortStableFunc(all, func(a, b event) int { return int(a.at - b.at) })
	all = slices.DeleteFunc(all, func(e event) bool { return key != "" && e.key != "" && !strings.HasSuffix(e.key, key) })
	var lines []string
	names := make(map[string]string)
	for i, e := range all {
		if i >= len(all)-last || secret != "" && e.secret == secret {
			if e.secret != "" && names[e.secret] == "" {
				names[e.secret] = fmt.Sprintf("T%d", len(names)+1)
			}
			e.secret = names[e.secret]
			lines = append(lines, e.text())
		}
	}
	return strings.Join(lines, "\n")
}

func (e event) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%12.6f ", e.at.Seconds())
	place := ""
	if e.client >= 0 {
		place += fmt.Sprintf(" client %d", e.client)
	}
	if e.proxy >= 0 {
		place += fmt.Sprintf(" proxy %d", e.proxy)
	}
	if e.master >= 0 {
		place += fmt.Sprintf(" master %d", e.master)
	}
	fmt.Fprintf(&b, "%-20s %-9s", place, e.what)
	for _, word := range []string{e.key, e.secret} {
		if word != "" {
			b.WriteString(" " + word)
		}
	}
	if e.d != 0 {
		fmt.Fprintf(&b, " %v", e.d)
	}
	if e.more != "" {
		b.WriteString("  " + strings.TrimSpace(strings.NewReplacer("\r\n", " ", "\n", " ").Replace(e.more)))
	}
	return b.String()
}
