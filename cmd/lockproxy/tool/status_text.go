package tool

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"lockproxy/plain"
	"lockproxy/stat"
)

// Colours of the states, in the codes of terminals.
var stateColours = map[string]string{"voting": "32", "quarantined": "33", "refused": "33", "down": "31"}

// text returns the status for people.
func (s *statusResult) text(colour bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "proxy     %s, %s, up %s\n", s.Address, s.infoOf("lockproxy_version"),
		shortTime(integer(s.Info["uptime_in_seconds"])*1000))
	if s.Upstream.OK {
		fmt.Fprintf(&b, "upstream  answers in %.1f ms\n", float64(s.Upstream.RTTMicro)/1000)
	} else {
		fmt.Fprintf(&b, "upstream  %s\n", paint("does not answer: "+plain.Escape(s.Upstream.Error), "31", colour))
	}
	fmt.Fprintf(&b, "clients   %s connected, %s waiting for locks, %s session locks\n", s.infoOf("connected_clients"),
		s.infoOf("waiting"), s.infoOf("session_locks"))
	fmt.Fprintf(&b, "masters   %s\n", paint(s.votes.String(), s.votesColour(), colour))
	if !s.Majority {
		fmt.Fprintf(&b, "locks     %s\n", paint("NONE CAN BE HAD: less than a majority of the masters can vote", "31",
			colour))
	}
	if n := integer(s.Info["locks_unsent"]); n > 0 {
		fmt.Fprintf(&b, "locks     %s\n", paint(fmt.Sprintf("%d LOCKs wait until they can be sent to the masters", n), "33",
			colour))
	}
	if s.Lateness != "" {
		fmt.Fprintf(&b, "late      %s\n", paint(s.Lateness+": is its machine short of processor time?", "33", colour))
	}
	s.writeMasters(&b, colour)
	s.writeLocks(&b)
	return b.String()
}

// votesColour warns where masters are slow, or one that fails would cost the majority.
func (s *statusResult) votesColour() string {
	switch v := s.votes; {
	case !v.Majority():
		return "31"
	case v.Slow > 0, v.Spare() <= 0 && v.Masters > v.Needed():
		return "33"
	}
	return ""
}

func (s *statusResult) writeMasters(b *strings.Builder, colour bool) {
	rows := [][]string{{"MASTER", "STATE", "FOR", "ROUND TRIP", "GRANTS", "REFUSALS", "ERRORS", ""}}
	for _, m := range s.Masters {
		reason := plain.Escape(m.Reason)
		rows = append(rows, []string{plain.Escape(m.Address), m.State, shortTime(m.Since),
			fmt.Sprintf("%.1f ms", float64(m.RTT)/1000),
			fmt.Sprint(m.Grants), fmt.Sprint(m.Refusals), fmt.Sprint(m.Errors), reason})
	}
	lines := columns(rows)
	for i, m := range s.Masters { // afterwards: colours have no width
		code := stateColours[m.State]
		if m.IsSlow() {
			code = "33"
		}
		lines[i+1] = strings.Replace(lines[i+1], " "+m.State+" ", " "+paint(m.State, code, colour)+" ", 1)
	}
	b.WriteString("\n" + strings.Join(lines, "\n") + "\n")
}

func (s *statusResult) writeLocks(b *strings.Builder) {
	switch {
	case s.LocksErr != "":
		fmt.Fprintf(b, "\nlocks are not shown: %s\n", plain.Escape(s.LocksErr))
		if strings.HasPrefix(s.LocksErr, "NOQUORUM") {
			b.WriteString("what the other masters have: lockproxy why KEY, and the list of the page at admin-listen\n")
		}
		return
	case len(s.Locks) == 0 && s.MoreLock:
		b.WriteString("\nlocks are held; --locks shows them\n")
		return
	case len(s.Locks) == 0:
		b.WriteString("\nno locks are held\n")
		return
	}
	rows := [][]string{{"LOCK", "KIND", "HELD ON", "LEFT", "FENCE", "WAITING", "OWNER"}}
	for _, l := range s.Locks {
		on := fmt.Sprintf("%d of %d", l.Held, len(s.Masters))
		rows = append(rows, []string{plain.Escape(l.Key), lockKind(&l), on, shortTime(l.TTL), fmt.Sprint(l.Fence),
			fmt.Sprint(l.Waiting), plain.Escape(l.Owner)})
		for _, slot := range l.Slots {
			rows = append(rows, []string{"", fmt.Sprint("slot ", slot.Slot), "", shortTime(slot.TTL),
				fmt.Sprint(slot.Fence), "", plain.Escape(slot.Owner)})
		}
	}
	b.WriteString("\n" + strings.Join(columns(rows), "\n") + "\n")
	if s.MoreLock {
		b.WriteString("and more; --locks shows them\n")
	}
}

// lockKind returns the mode of a lock, with the number of holders if there may be several. An
// older proxy sends no mode.
func lockKind(l *stat.Lock) string {
	switch l.Mode {
	case "shared", "limit":
		return fmt.Sprintf("%s, %d", l.Mode, l.Holders)
	case "":
		return "-"
	}
	return l.Mode
}

// columns aligns rows.
func columns(rows [][]string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// paint colours s.
func paint(s, code string, colour bool) string {
	if !colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// shortTime returns milliseconds with one suitable unit.
func shortTime(millis int64) string {
	d := time.Duration(millis) * time.Millisecond
	switch {
	case d < 0:
		return "for ever"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 10*time.Minute:
		return plain.Duration(d.Truncate(time.Second))
	case d < 2*time.Hour:
		return plain.Duration(d.Truncate(time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
