package tool

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lockproxy/conf"
	"lockproxy/plain"
)

// refusal is why the lock was not granted, and the exit code for it.
type refusal struct {
	code int
	why  string
}

// worst returns one refusal for those of all proxies.
func worst(all []refusal) refusal {
	one := refusal{code: exitUnavailable}
	var lines []string
	for _, r := range all {
		if r.code == exitDenied {
			one.code = exitDenied
		}
		lines = append(lines, r.why)
	}
	one.why = strings.Join(lines, "\n")
	return one
}

// lockErrorCode returns the exit code for an error reply to LOCK.
func lockErrorCode(text string) int {
	// the upstream is down; the user may be right
	if strings.HasPrefix(text, "NOAUTH the upstream has not said yet") {
		return exitUnavailable
	}
	var word string
	fmt.Sscan(text, &word)
	switch word {
	case "NOAUTH", "NOPERM", "WRONGPASS":
		return exitDenied
	case "LOCKQUEUEFULL":
		return exitTaken
	case "NOQUORUM", "TRYAGAIN":
		return exitUnavailable
	}
	return exitUsage // the key, the ttl or the owner
}

// namedLimit finds the limit that the proxy names when it refuses a ttl: max-ttl 60000, or 60s.
var namedLimit = regexp.MustCompile(`\b(max|min)-ttl ([0-9]+)(ms|s|m|h)?\b`)

// ttlLimit returns which limit an error reply names, max or min, and the limit.
func ttlLimit(text string) (which string, limit time.Duration) {
	found := namedLimit.FindStringSubmatch(text)
	if found == nil {
		return "", 0
	}
	unit := found[3]
	if unit == "" {
		unit = "ms"
	}
	limit, err := conf.ParseDuration(found[2] + unit)
	if err != nil || limit <= 0 {
		return "", 0
	}
	return found[1], limit
}

// fitTTL makes the default ttl fit the limit that the proxy has named. It reports whether it is
// worth asking again.
func (j *job) fitTTL(why string) bool {
	which, limit := ttlLimit(why)
	if which == "" || j.ttlGiven || which == "max" && j.hold.Duration > limit {
		return false
	}
	j.ttl.Duration = limit
	return true
}

// explain adds to the proxy's message which flags it concerns.
func (j *job) explain(why string) string {
	switch which, limit := ttlLimit(why); {
	case which == "max" && j.hold.Duration > limit:
		return fmt.Sprintf("--hold %s is more than the proxy's max-ttl, %s (%s)",
			plain.Duration(j.hold.Duration), plain.Duration(limit), why)
	case strings.HasPrefix(why, "ERR syntax error") && (j.shared || j.limit > 0 || len(j.keys) > 1):
		return "the proxy is too old for --shared, --limit and a second --key: " + why
	}
	return why
}

// askTimeout bounds a question to a proxy that has answered just before.
const askTimeout = 2 * time.Second

// taken returns the line for a lock that is taken, with the name of its holder if that can be had.
func (j *job) taken(l *link, why string) string {
	for _, key := range j.keys {
		r, err := l.call(askTimeout, 0, "LOCKINFO", key)
		if err != nil {
			return why
		}
		info := r.Fields()
		if info["mode"] == "foreign" {
			return fmt.Sprintf("%s is not a lock: a key of type %s, of another program, is in the way",
				key, plain.Line(info["type"]))
		}
		owner := plain.Line(info["owner"])
		if r.Null || owner == "" {
			continue
		}
		ttl, _ := strconv.ParseInt(info["ttl"], 10, 64)
		holders, _ := strconv.Atoi(info["holders"])
		switch {
		case info["mode"] == "kept":
			return fmt.Sprintf("%s is kept closed for another %s: %s held it last",
				key, shortTime(ttl), owner)
		case holders > 1:
			return fmt.Sprintf("%s is taken: %s and %d more hold it", key, owner, holders-1)
		default:
			return fmt.Sprintf("%s is taken: %s holds it", key, owner)
		}
	}
	return why
}
