package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
)

// GuardMode selects the treatment of a master that may have lost its memory: one that restarted,
// was flushed, stepped its clock or went back to an older state. Off must be chosen by all
// proxies of a deployment or by none.
type GuardMode uint8

const (
	On     GuardMode = iota // it stays out of the vote for MaxTTL and a margin; masters that are all new vote at once
	Strict                  // as On, but an operator admits masters if a majority may have lost its memory
	Off                     // it votes at once, and may grant a lock twice
)

// settings are what all proxies of a deployment must agree on, by name, in the order in which they
// are compared.
type settings []setting

type setting struct{ name, value string }

// settingsOf are those of o.
func settingsOf(o *Options) settings {
	masters := make([]string, len(o.IDs))
	for i, id := range o.IDs {
		masters[i] = url.QueryEscape(id)
	}
	slices.Sort(masters)
	onOff := map[bool]string{true: "on", false: "off"}
	return settings{
		{"format", strconv.Itoa(recordFormat)},
		{"max-ttl", strconv.FormatInt(o.MaxTTL.Milliseconds(), 10) + "ms"},
		{"fencing", onOff[o.Fencing]},
		{"restart-guard", onOff[o.Mode != Off]},
		{"key-prefix", url.QueryEscape(o.KeyPrefix)},
		{"masters", strings.Join(masters, ",")},
	}
}

// String is their text on a master: name=value, separated by blanks, without control bytes.
func (s settings) String() string {
	words := make([]string, len(s))
	for i, one := range s {
		words[i] = one.name + "=" + one.value
	}
	return strings.Join(words, " ")
}

// fingerprint is 16 hex digits that differ if the settings do.
func (s settings) fingerprint() string {
	sum := sha256.Sum256([]byte(s.String()))
	return hex.EncodeToString(sum[:8])
}

func parseSettings(text string) settings {
	var s settings
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		s = append(s, setting{name, value})
	}
	return s
}

func (s settings) value(name string) string {
	for _, one := range s {
		if one.name == name {
			return one.value
		}
	}
	return ""
}

// maxTTL is the max-ttl among s, 0 if it cannot be read.
func (s settings) maxTTL() time.Duration {
	d, err := time.ParseDuration(s.value("max-ttl"))
	if err != nil || d < 0 || d > maxWait {
		return 0
	}
	return d
}

// differ names the settings in which theirs differ from ours, without the addresses of masters.
func differ(theirs, ours settings) string {
	var all []string
	for _, our := range ours {
		their := theirs.value(our.name)
		switch {
		case their == our.value:
		case our.name == "masters":
			all = append(all, "another list of masters")
		case their == "":
			all = append(all, "another "+our.name)
		default:
			all = append(all, fmt.Sprintf("%s %.40s (here %s)", our.name, their, our.value))
		}
	}
	if len(all) == 0 {
		return "other settings"
	}
	return strings.Join(all, ", ")
}

// Describe returns the state of a master by its probe, in words, and the settings in which the
// proxies that it belongs to differ from o; "" if it belongs to none, or to those with o.
func (o *Options) Describe(p wire.ProbeReply) (state, differs string) {
	r := parseRecord(p.Record)
	words := map[recordKind]string{recordNone: "new", recordNew: "new", recordVotes: "admitted", recordOff: "admitted",
		recordMark: "in quarantine", recordUnknown: "has a record of another version"}
	ours := settingsOf(o)
	if r.fingerprint != "" && r.fingerprint != ours.fingerprint() {
		differs = differ(parseSettings(p.Settings), ours)
	}
	return words[r.kind], differs
}

// ListedClient is a connection to a master: its address and its name by CLIENT SETNAME.
type ListedClient struct{ Addr, Name string }

// clientName begins the names of lanes on the masters. Those of the first versions have no more.
const clientName = "lockproxy"

// ClientName returns the name of the lanes of proxies with these settings: lockproxy:, then 16 hex
// digits that differ if the settings do.
func (o *Options) ClientName() string { return clientName + ":" + settingsOf(o).fingerprint() }

// Others returns the addresses of those clients that are lanes of proxies with other settings, and
// the settings in which these differ, or "" if they are not known. p is a probe of the master.
//
// The settings of proxies of the first versions are not known: they count if the master belongs to
// others.
func (g *Guard) Others(p wire.ProbeReply, clients []ListedClient) (addrs []string, differs string) {
	theirs := parseSettings(p.Settings)
	for _, c := range clients {
		fingerprint, named := strings.CutPrefix(c.Name, clientName+":")
		switch {
		case named && fingerprint == g.fingerprint:
			continue
		case named && fingerprint == theirs.fingerprint():
			differs = differ(theirs, g.settings)
		case !named && (c.Name != clientName || !g.Takes(p)):
			continue
		}
		addrs = append(addrs, c.Addr)
	}
	return addrs, differs
}

// Takes reports whether an ADMIT of a master takes it from proxies with other settings.
func (g *Guard) Takes(p wire.ProbeReply) bool {
	of := parseRecord(p.Record).fingerprint
	return of != "" && of != g.fingerprint
}

// Options configure a Guard.
type Options struct {
	IDs           []string // the names that all proxies use for the masters, in the order of the lanes
	Names         []string // the operator's names for them
	KeyPrefix     string
	MaxTTL        time.Duration
	Fencing       bool
	Mode          GuardMode
	AllowEviction bool
	Nonce         func() string // draws 16 random hex digits
	Floor         *Floor        // shared with the code that issues fences
}
