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
	for i := range all {
		r := all[i].Report(time.Now())
		c.writeFields(r.Fields(), 0)
	}
}

// masterNames name the masters as clients may see them: by address, or by their place.
type masterNames struct{ *sharedOptions }

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
