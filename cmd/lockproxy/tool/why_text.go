package tool

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"lockproxy/plain"
	"lockproxy/stat"
)

// text returns the report for people.
func (r *whyReport) text(now time.Time) string {
	var b strings.Builder
	b.WriteString(r.headline() + "\n")
	rows := [][]string{}
	row := func(name, format string, args ...any) {
		rows = append(rows, []string{"  " + name, plain.Escape(fmt.Sprintf(format, args...))})
	}
	if r.Error != "" {
		row("no quorum", "%s", strings.TrimPrefix(r.Error, "NOQUORUM "))
	}
	if r.Mode != "" {
		r.holderRows(row, now)
	}
	for _, m := range r.Voters {
		row("master", "%s %s", m.Master, masterText(&m))
	}
	if len(rows) > 0 {
		b.WriteString(strings.Join(columns(rows), "\n") + "\n")
	}
	r.writeWaiters(&b)
	r.writeLast(&b)
	if len(r.Advice) > 0 {
		b.WriteString("\nwhat to do\n")
	}
	for _, line := range r.Advice {
		b.WriteString("  " + plain.Escape(line) + "\n")
	}
	for _, a := range r.Proxies {
		switch {
		case a.Error != "":
			fmt.Fprintf(&b, "\nproxy %s does not answer: %s\n", a.Proxy, a.Error)
		case a.Limited != "":
			fmt.Fprintf(&b, "\nproxy %s tells only who holds the lock: %s\n", a.Proxy, a.Limited)
		}
	}
	return b.String()
}

// headline says in one line who holds the lock.
func (r *whyReport) headline() string {
	key, seen := plain.Escape(r.Key), ""
	if !r.Quorum && r.Masters > 0 {
		seen = fmt.Sprintf(", seen on %d of %d masters", r.Held, r.Masters)
	}
	switch {
	case r.Mode == "foreign":
		return fmt.Sprintf("%s is not a lock: a key of type %s is in the way%s", key, cmp.Or(plain.Escape(r.Type),
			"?"), seen)
	case r.Mode == "kept":
		return fmt.Sprintf("%s is kept closed%s", key, seen)
	case r.Mode != "" && r.Holders > 1:
		return fmt.Sprintf("%s is held by %d clients, the latest %s%s", key, r.Holders, r.holder(), seen)
	case r.Mode != "":
		return fmt.Sprintf("%s is held by %s%s", key, r.holder(), seen)
	case !r.Quorum:
		return fmt.Sprintf("%s: not known whether it is held, %d of %d masters answer", key, r.Seen, r.Masters)
	case r.Blocked():
		return fmt.Sprintf("%s is not held, but %d of %d masters have other keys of this name", key, r.Others(), r.Masters)
	}
	return key + " is free"
}

// holder names the latest holder.
func (r *whyReport) holder() string {
	name := cmp.Or(plain.Escape(r.Owner), "a client without a label")
	if r.Client != "" && r.Client != r.Owner {
		name += " at " + plain.Escape(r.Client)
	}
	return name
}

// holderRows adds what is known about the holder.
func (r *whyReport) holderRows(row func(name, format string, args ...any), now time.Time) {
	if r.Mode != "foreign" {
		row("kind", "%s", r.Mode)
		row("fence", "%d", r.Fence)
	}
	if r.Mode == "kept" {
		row("held before by", "%s", cmp.Or(r.Owner, "?"))
	}
	switch since := time.UnixMilli(r.Since); {
	case r.Since != 0:
		row("since", "%s, for %s", since.Format(time.DateTime), shortTime(max(now.Sub(since).Milliseconds(), 0)))
		row("granted by", "proxy %s", r.Proxy)
	case r.Mode != "foreign" && r.Mode != "kept":
		row("since", "not known to the proxies that were asked")
		row("granted by", "not known; --proxies asks others")
	}
	left := shortTime(r.TTL)
	if r.Granted > 0 {
		left += ", of a ttl of " + shortTime(r.Granted)
	}
	row("left", "%s", left)
	for _, s := range r.Slots {
		row("slot", "%d: %s, fence %d, left %s", s.Slot, s.Owner, s.Fence, shortTime(s.TTL))
	}
	row("on", "%d of %d masters", r.Held, r.Masters)
}

func masterText(m *stat.WhyMaster) string {
	switch {
	case !m.Answered:
		return "did not answer: " + m.Error
	case m.Holds:
		return "has it, left " + shortTime(m.TTL)
	case m.Other != "":
		return fmt.Sprintf("has something else (%s), left %s", m.Other, shortTime(m.TTL))
	}
	return "does not have it"
}

func (r *whyReport) writeWaiters(b *strings.Builder) {
	if r.Waiting == 0 {
		b.WriteString("\nno client waits at the proxies that were asked\n")
		return
	}
	fmt.Fprintf(b, "\n%d waiting, the longest first\n", r.Waiting)
	rows := [][]string{{"  PLACE", "LABEL", "ADDRESS", "KIND", "FOR", "PROXY"}}
	for _, w := range r.Waiters {
		rows = append(rows, []string{fmt.Sprint("  ", w.Place), plain.Escape(w.Label), plain.Escape(w.Address),
			plain.Escape(w.Mode), shortTime(w.Age), plain.Escape(w.Proxy)})
	}
	if len(r.Waiters) > 0 {
		b.WriteString(strings.Join(columns(rows), "\n") + "\n")
	}
	if more := r.Waiting - len(r.Waiters); more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}

func (r *whyReport) writeLast(b *strings.Builder) {
	if len(r.Last) == 0 {
		return
	}
	b.WriteString("\nheld before, the latest first\n")
	rows := [][]string{{"  FROM", "UNTIL", "OWNER", "ADDRESS", "FENCE", "PROXY"}}
	for _, h := range r.Last {
		until := "not known"
		if h.Until != 0 {
			until = time.UnixMilli(h.Until).Format(time.DateTime)
		}
		rows = append(rows, []string{"  " + time.UnixMilli(h.Since).Format(time.DateTime), until,
			plain.Escape(h.Owner),
			plain.Escape(h.Client), fmt.Sprint(h.Fence), plain.Escape(h.Proxy)})
	}
	b.WriteString(strings.Join(columns(rows), "\n") + "\n")
}
