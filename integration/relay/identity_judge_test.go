package relay

import (
	"bufio"
	"fmt"
	"strings"

	"lockproxy/integration/lab"
)

// How the answers that came through the proxy are judged.

// identityFault is what is wrong with a run.
type identityFault struct {
	kind string // one of those below; "" for nothing
	what string
}

// The kinds of faults, the worst first.
const (
	wrongGrant   = "granted to one who may not"
	wrongPlace   = "granted in a transaction or with subscriptions"
	wrongLanding = "refused, but the key was locked on the master"
	wrongRefusal = "refused to one who may"
	wrongCode    = "refused with another reason"
	wrongBytes   = "other bytes than directly"
	wrongSilence = "no answer"
)

// busyAnswers are those of a proxy that had no time. They count as granted, since permission comes
// before.
var busyAnswers = []string{"-NOQUORUM ", "-TRYAGAIN "}

// identityResult is how far an answer agrees with the twin's.
type identityResult struct {
	fault   identityFault
	more    bool   // it agrees, but is not complete
	refused []bool // of each lock command that was answered
	busy    int
	lenient int // refusals of one that the proxy cannot know
}

// judge compares what came until now with what the steps before upTo bring.
func judge(parts []identityPart, upTo int, got string) (r identityResult) {
	got = comparable(got)
	for i, p := range parts {
		if p.upTo > upTo {
			break
		}
		if p.lock == nil {
			if !strings.HasPrefix(got, p.literal) {
				r.more = strings.HasPrefix(p.literal, got)
				r.fault = identityFault{wrongBytes, fmt.Sprintf("part %d: got %s, directly %s", i, brief(got), brief(p.literal))}
				if r.more {
					r.fault = identityFault{wrongSilence, fmt.Sprintf("part %d: got only %s of %s", i, brief(got), brief(p.literal))}
				}
				return r
			}
			got = got[len(p.literal):]
			continue
		}
		answer, err := lab.ReadFrame(bufio.NewReader(strings.NewReader(got)))
		if err != nil {
			r.more = true
			r.fault = identityFault{wrongSilence, fmt.Sprintf("part %d: %s of user %.20q has no answer, but %s; want %q", i, p.lock.step, p.lock.user, brief(got), p.lock.want)}
			return r
		}
		if r.fault = r.answered(p.lock, answer); r.fault.kind != "" {
			r.fault.what = fmt.Sprintf("part %d: %s", i, r.fault.what)
			return r
		}
		got = got[len(answer):]
	}
	if upTo >= parts[len(parts)-1].upTo && got != "" {
		r.fault = identityFault{wrongBytes, fmt.Sprintf("more than directly: %s", brief(got))}
	}
	return r
}

// answered judges the answer to a lock command.
func (r *identityResult) answered(truth *identityTruth, answer string) identityFault {
	refused := strings.HasPrefix(answer, "-")
	r.refused = append(r.refused, refused)
	busy := strings.HasPrefix(answer, busyAnswers[0]) || strings.HasPrefix(answer, busyAnswers[1])
	kind := wrongCode
	for _, class := range truth.hidden {
		if strings.Contains(answer, "\r\n"+class) {
			return identityFault{wrongGrant, fmt.Sprintf("%s of user %.20q shows locks whose names begin with %s: %s", truth.step, truth.user, class, brief(answer))}
		}
	}
	switch {
	case strings.HasPrefix(answer, truth.want):
		return identityFault{}
	case truth.granted && (busy || strings.HasPrefix(answer, "-NOPERM lock-acl: i/o timeout")):
		r.busy++
		return identityFault{}
	case truth.or != "" && strings.HasPrefix(answer, truth.or):
		if truth.user == nameless {
			r.lenient++
		}
		return identityFault{}
	case !truth.granted && (busy || strings.HasPrefix(answer, grantOf(truth.step, false)) || strings.HasPrefix(answer, grantOf(truth.step, true)) || strings.Contains(answer, "$57\r\n")):
		if kind = wrongGrant; strings.HasPrefix(truth.want, "-ERR ") {
			kind = wrongPlace
		}
	case truth.granted && refused:
		kind = wrongRefusal
	case !refused && answer[0] != '$':
		kind = wrongBytes
	}
	return identityFault{kind, fmt.Sprintf("%s of user %.20q: got %.150q, want %q", truth.step, truth.user, answer, truth.want)}
}

// brief shows the beginning of bytes.
func brief(text string) string {
	if len(text) > 300 {
		return fmt.Sprintf("%.300q...", text)
	}
	return fmt.Sprintf("%q", text)
}
