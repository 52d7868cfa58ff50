package commands

import (
	"slices"
	"strings"
	"time"

	"lockproxy/stat"
)

// masters is LOCKPROXY MASTERS: an array of maps.
func (o *operators) masters(c *call) {
	all := o.Masters()
	c.writeArray(len(all))
	for _, m := range all {
		c.writeMap(12)
		c.writeText("address", m.Name)
		c.writeText("state", string(m.State))
		c.writeText("reason", m.Reason)
		// 0 means "not known"
		c.writeNumber("votes_in_ms", (m.VotesIn + time.Millisecond - 1).Milliseconds())
		c.writeNumber("since_ms", time.Since(m.Since).Milliseconds())
		c.writeText("run_id", m.RunID)
		c.writeNumber("rtt_us", m.RTT.Microseconds())
		c.writeNumber("grants", int64(m.Grants))
		c.writeNumber("refusals", int64(m.Refusals))
		c.writeNumber("errors", int64(m.Errors))
		c.writeNumber("late", int64(m.Late))
		c.writeNumber("slow_ms", m.SlowMillis())
	}
}

// masterNames name the masters as clients may see them: by address, or by their place.
type masterNames struct{ *settings }

// shownName returns the name of all[i] that clients may see.
func (n *masterNames) shownName(all []stat.Master, i int) string {
	if n.now().ShowMasters {
		return all[i].Name
	}
	return placeName(i)
}

// shownText replaces the names of masters in text by those that clients may see.
func (n *masterNames) shownText(all []stat.Master, text string) string {
	if n.now().ShowMasters {
		return text
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	// one name may begin with another
	slices.SortFunc(order, func(i, j int) int { return len(all[j].Name) - len(all[i].Name) })
	for _, i := range order {
		text = strings.ReplaceAll(text, all[i].Name, n.shownName(all, i))
	}
	return text
}
