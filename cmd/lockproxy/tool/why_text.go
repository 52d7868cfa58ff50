package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockproxy/plain"
	"lockproxy/stat"
)

// staleAfter is the age of an answer that is worth a word.
const staleAfter = 500 * time.Millisecond

// text returns the report for people.
func (r *whyReport) text(now time.Time) string {
	var b strings.Builder
	b.WriteString(r.headline() + "\n")
	for _, line := range r.Disagree {
		b.WriteString("but " + plain.Escape(line) + "\n")
	}
	rows := [][]string{}
	row := func(name, format string, args ...any) {
		rows = append(rows, []string{"  " + name, plain.Escape(fmt.Sprintf(format, args...))})
	}
	if r.Error != "" {
		name := map[bool]string{true: "uncertain", false: "no quorum"}[r.Quorum]
		row(name, "%s", strings.TrimPrefix(r.Error, "NOQUORUM "))
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
	for i := range r.Proxies {
		r.writeProxy(&b, &r.Proxies[i])
	}
	return b.String()
}

// writeProxy names the gaps in the answer of one proxy.
func (r *whyReport) writeProxy(b *strings.Builder, a *whyAnswer) {
	if a.Error != "" {
		fmt.Fprintf(b, "\nproxy %s: %s\n", a.Proxy, a.Error)
	}
	if a.NoQuorum != "" && r.Error == "" {
		fmt.Fprintf(b, "\nproxy %s: %s\n", a.Proxy, a.NoQuorum)
	}
	if a.Limited != "" {
		waiting := ""
		if a.why.Waiting > 0 && !r.limited {
			waiting = fmt.Sprintf(", and that %d wait there", a.why.Waiting)
		}
		fmt.Fprintf(b, "\nproxy %s says only who holds the lock%s: %s\n", a.Proxy, waiting, a.Limited)
	}
}

// headline says in one line who holds the lock.
func (r *whyReport) headline() string {
	key, is, seen := plain.Escape(r.Key), "is", ""
	if r.Error != "" {
		is, seen = "may be", fmt.Sprintf(", seen on %d of %d masters", r.Held, r.Masters)
	}
	switch {
	case r.Mode == "foreign":
		return fmt.Sprintf("%s is not a lock: a key of type %s is in the way%s", key, cmp.Or(plain.Escape(r.Type),
			"?"), seen)
	case r.Mode == "kept":
		return fmt.Sprintf("%s %s kept closed%s", key, is, seen)
	case r.Mode != "" && r.Holders > 1:
		return fmt.Sprintf("%s %s held by %d clients, the latest %s%s", key, is, r.Holders, r.holder(), seen)
	case r.Mode != "":
		return fmt.Sprintf("%s %s held by %s%s", key, is, r.holder(), seen)
	case !r.Quorum || r.Error != "":
		return fmt.Sprintf("%s: not known whether it is held, %d of %d masters answer", key, r.Seen, r.Masters)
	case r.Blocked:
		return fmt.Sprintf("%s is not held, but no majority of the masters is free for LOCK: %d of %d have other keys of "+
			"this name", key, r.Others(), r.Masters)
	case r.limited: // LOCKINFO does not say whether LOCK could have it
		return key + " is not held"
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

// holderRows adds the rows about the holder.
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
		row("since", "not known to the proxies that answered")
		row("granted by", "not known; --proxies asks others")
	}
	left := leftTime(r.TTL)
	if r.Granted > 0 {
		left += ", of a ttl of " + shortTime(r.Granted)
	}
	if r.TTL >= 0 && r.age >= staleAfter {
		left += ", if it was not extended in the last " + shortTime(r.age.Milliseconds())
	}
	row("left", "%s", left)
	for _, s := range r.Slots {
		row("slot", "%d: %s, fence %d, left %s", s.Slot, s.Owner, s.Fence, leftTime(s.TTL))
	}
	row("on", "%d of %d masters", r.Held, r.Masters)
}

func masterText(m *stat.WhyMaster) string {
	switch {
	case !m.Answered:
		return "did not answer: " + m.Error
	case m.Holds && m.Type != "":
		return fmt.Sprintf("has it (%s), left %s", m.Type, leftTime(m.TTL))
	case m.Holds:
		return "has it, left " + leftTime(m.TTL)
	case m.Other != "":
		return fmt.Sprintf("has something else (%s), left %s", strings.TrimSpace(m.Other+" "+m.Type), leftTime(m.TTL))
	}
	return "does not have it"
}

// leftTime is shortTime, to a tenth of a second under ten minutes.
func leftTime(millis int64) string {
	if millis < 0 || millis >= (10*time.Minute).Milliseconds() {
		return shortTime(millis)
	}
	return fmt.Sprintf("%.1fs", float64(millis)/1000)
}

func (r *whyReport) writeWaiters(b *strings.Builder) {
	if r.Waiting == 0 {
		full := ""
		if !r.limited && slices.ContainsFunc(r.Proxies, func(a whyAnswer) bool { return a.Limited != "" }) {
			full = " in full"
		}
		b.WriteString("\nno client waits at the proxies that answered" + full + "\n")
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
