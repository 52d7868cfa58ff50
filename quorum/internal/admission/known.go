package admission

import (
	"fmt"
	"strconv"
	"strings"
)

// admission names one admission of a master. Numbers rise from one to the next; id is random, and
// tells apart what two servers at one address may have come to at the same time. The zero value is
// none.
type admission struct {
	number uint64
	id     string
}

// maxNumber bounds what is read as a number.
const maxNumber = 1 << 52

// supersedes reports whether a master that has been admitted as a must not vote as b any more.
func (a admission) supersedes(b admission) bool {
	return a.id != "" && (a.number > b.number || a.number == b.number && a.id != b.id)
}

// later reports whether a takes the place of b in what masters know.
func (a admission) later(b admission) bool {
	return a.id != "" && (b.id == "" || a.number > b.number)
}

// nonce is what names an admission in a record: "<number>-<evicted>-<id>". Proxies of the last
// version wrote the id alone.
type nonce struct {
	admission
	evicted int64 // evicted_keys at admission; -1: not told
}

func (n nonce) String() string {
	if n.evicted < 0 {
		return n.id
	}
	return fmt.Sprintf("%d-%d-%s", n.number, n.evicted, n.id)
}

func parseNonce(text string) nonce {
	word := strings.Split(text, "-")
	if len(word) == 3 {
		number, err := strconv.ParseUint(word[0], 10, 64)
		evicted, err2 := strconv.ParseInt(word[1], 10, 64)
		if err == nil && err2 == nil && number < maxNumber && evicted >= 0 {
			return nonce{admission{number, word[2]}, evicted}
		}
	}
	return nonce{admission{0, text}, -1}
}

// idFor makes the id of an admission of a master out of random hex digits: it begins with the
// master's place, so that a server that stood in for one master is not believed as another.
func (g *Guard) idFor(i int, random string) string {
	return g.placeText(i) + random[min(2, len(random)):]
}

func (g *Guard) placeText(i int) string { return fmt.Sprintf("%02x", g.place[i]&0xff) }

// What a master has heard of the admissions of all is the field known of its state hash:
//
//	<fingerprint> <nonce of master 0> <nonce of master 1> ...
//
// in the order of their ids, 0 for none. The scripts merge it: the higher number stays.

// parseKnown returns the admissions by master. Those of proxies with other settings are none.
func (g *Guard) parseKnown(text string) []admission {
	known := make([]admission, len(g.masters))
	word := strings.Fields(text)
	if len(word) != len(known)+1 || word[0] != g.fingerprint {
		return known
	}
	for i := range known {
		if text := word[1+g.place[i]]; text != "0" {
			known[i] = parseNonce(text).admission
		}
	}
	return known
}

// knownText is the field for these admissions.
func (g *Guard) knownText(known []admission) string {
	word := make([]string, len(known)+1)
	word[0] = g.fingerprint
	for i, a := range known {
		text := "0"
		switch {
		case a.number > 0:
			text = nonce{a, 0}.String()
		case a.id != "":
			text = a.id
		}
		word[1+g.place[i]] = text
	}
	return strings.Join(word, " ")
}
