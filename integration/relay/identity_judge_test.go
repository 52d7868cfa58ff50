package relay

import (
	"bufio"
	"fmt"
	"strings"

	"lockproxy/integration/lab"
)

// The verdict on the answers through the proxy.

// identityFault describes a fault that a run found.
type identityFault struct {
	kind string // one of the constants below; "" for no fault
	what string
}

// The kinds of faults, worst first.
const (
	wrongGrant   = "granted to one who may not"
	wrongPlace   = "granted in a transaction or with subscriptions"
	wrongLanding = "refused, but the key was locked on the master"
	wrongRefusal = "refused to one who may"
	wrongCode    = "refused with another reason"
	wrongBytes   = "other bytes than the direct answer"
	wrongSilence = "no answer"
)

// busyAnswers are the errors of an overloaded proxy. They count as granted, because the proxy
// checks permission first.
var busyAnswers = []string{"-NOQUORUM ", "-TRYAGAIN "}

// identityResult is the outcome of comparing an answer with the twin's.
type identityResult struct {
	fault   identityFault
	more    bool   // the answer agrees so far, but is incomplete
	refused []bool // one per lock command that was answered
	busy    int
	lenient int // refusals because the proxy cannot know the user
}

// judge compares the bytes so far with the answers that the steps before upTo must get.
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
			r.fault = identityFault{wrongSilence, fmt.Sprintf("part %d: %s of user %.20q has no answer, but %s; want %q", i,
				p.lock.step, p.lock.user, brief(got), p.lock.want)}
			return r
		}
		if r.fault = r.answered(p.lock, answer); r.fault.kind != "" {
			r.fault.what = fmt.Sprintf("part %d: %s", i, r.fault.what)
			return r
		}
		got = got[len(answer):]
	}
	if upTo >= parts[len(parts)-1].upTo && got != "" {
		r.fault = identityFault{wrongBytes, fmt.Sprintf("got more than the direct answer: %s", brief(got))}
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
			return identityFault{wrongGrant, fmt.Sprintf("%s of user %.20q shows locks whose names begin with %s: %s",
				truth.step, truth.user, class, brief(answer))}
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
	case !truth.granted && (busy || strings.HasPrefix(answer, grantOf(truth.step, false)) ||
		strings.HasPrefix(answer, grantOf(truth.step, true)) || strings.Contains(answer, "$57\r\n")):
		if kind = wrongGrant; strings.HasPrefix(truth.want, "-ERR ") {
			kind = wrongPlace
		}
	case truth.granted && refused:
		kind = wrongRefusal
	case !refused && answer[0] != '$':
		kind = wrongBytes
	}
	return identityFault{kind, fmt.Sprintf("%s of user %.20q: got %.150q, want %q", truth.step, truth.user, answer,
		truth.want)}
}

// brief quotes the beginning of text.
func brief(text string) string {
	if len(text) > 300 {
		return fmt.Sprintf("%.300q...", text)
	}
	return fmt.Sprintf("%q", text)
}
