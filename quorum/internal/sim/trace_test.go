package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// event is one thing that happened in a simulated run. It is cheap to keep; text makes it
// readable.
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
var keepEvents uint64 = 1 << 14

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
	if t.count++; uint64(len(t.events)) < keepEvents {
		t.events = append(t.events, e)
	} else {
		t.events[t.count%keepEvents] = e
	}
	t.sum = mix(t.sum, uint64(e.at), uint64(len(e.what)), uint64(e.proxy), uint64(e.master), uint64(e.client))
}

// ran notes the operations and scripts of the restart guard that a master has carried out. It
// reports whether the answer has the master's clock. The network's mu is held.
func (t *trace) ran(li *simLink, args []string, answer []byte) (tellsClock bool) {
	m := li.server
	cmd, known := fake.Parse(args)
	if !known || len(answer) == 0 || answer[0] == '-' {
		return false
	}
	if cmd.Name != "packet" {
		m.load.scripts++
		li.net.ranLocked(li.path, cmd.Name)
		if cmd.Name == "admit" && string(answer) == ":1\r\n" {
			m.wasAdmitted()
		}
		t.add(event{what: cmd.Name, proxy: li.from.serial, master: m.index, client: -1, more: string(answer)})
		return cmd.Name == "probe"
	}
	m.load.packets++
	li.before = li.newest
	var r wire.Reply
	n, err := wire.Parse(answer, &r)
	p, ok := wire.ParsePacket(&r, len(cmd.Ops))
	if n == 0 || err != nil || !ok {
		panic("the answer to a packet cannot be read")
	}
	for i := range cmd.Ops {
		o := &cmd.Ops[i]
		m.load.ops[o.Name]++
		li.net.ranLocked(li.path, o.Name)
		switch {
		case o.Name == "acquire":
			li.net.sent(li, o.Key, o.Secret())
		case o.Name == "release" && p.Results[i].Is(1):
			li.net.struck(li, o.Key, o.Secret())
		}
		e := event{what: o.Name, proxy: li.from.serial, master: m.index, client: -1, key: o.Key, secret: o.Secret(),
			more: said(&p.Results[i])}
		if !p.Admitted {
			e.more += " (not admitted)"
		}
		t.add(e)
	}
	return true
}

// said is a result in a few words.
func said(r *wire.Reply) string {
	switch {
	case r.Null:
		return "null"
	case r.Kind == ':':
		return strconv.FormatInt(r.Int, 10)
	}
	return r.Text
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
	first := uint64(0)
	if uint64(len(t.events)) == keepEvents {
		first = t.count + 1 // the oldest comes next after the newest
	}
	for i := range uint64(len(t.events)) {
		e := t.events[(first+i)%keepEvents]
		lines = append(lines, e.text())
	}
	return strings.Join(lines, "\n")
}

// about is the story of a key: all about the token that matters, if there is one, and the last of
// everything else, faults included.
func (t *trace) about(key, secret string, last int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.events)
	slices.SortStableFunc(all, func(a, b event) int { return int(a.at - b.at) })
	all = slices.DeleteFunc(all, func(e event) bool {
		return key != "" && e.key != "" && !strings.HasSuffix(e.key, key)
	})
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
