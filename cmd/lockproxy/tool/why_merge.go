package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockproxy/stat"
)

// mergeWhy returns the best answer as it is now, with additions from the others. A full answer is
// better than that of LOCKINFO, then one with a quorum, then a certain one, then the first. ok is
// false if no proxy answered.
func mergeWhy(answers []whyAnswer, now time.Time) (report whyReport, ok bool) {
	var good []*whyAnswer
	for i := range answers {
		if answers[i].err == nil {
			good = append(good, &answers[i])
		}
	}
	if len(good) == 0 {
		return report, false
	}
	rank := func(a *whyAnswer) int {
		switch {
		case a.Limited != "":
			return 3
		case !a.why.Quorum:
			return 2
		case a.why.Error != "":
			return 1
		}
		return 0
	}
	slices.SortStableFunc(good, func(a, b *whyAnswer) int { return cmp.Compare(rank(a), rank(b)) })
	best := good[0]
	report.Why, report.Proxies, report.limited = best.why, answers, best.Limited != ""
	report.Advice = append([]string{}, report.Advice...)
	report.Waiters, report.Last, report.Waiting = []stat.WhyWaiter{}, []stat.WhyHolder{}, 0
	report.pass(now.Sub(best.at))
	asked := map[string]bool{}
	var said []*whyAnswer
	for _, a := range good {
		if a.why.Asked != "" && asked[a.why.Asked] {
			continue // one proxy by two addresses
		}
		asked[a.why.Asked] = true
		said = append(said, a)
		if a.Limited == "" || report.limited { // LOCKINFO does not say which proxy it is
			report.add(&a.why, now.Sub(a.at))
		}
	}
	report.Disagree = disagreements(said)
	slices.SortStableFunc(report.Waiters, func(a, b stat.WhyWaiter) int { return cmp.Compare(b.Age, a.Age) })
	slices.SortStableFunc(report.Last, func(a, b stat.WhyHolder) int { return cmp.Compare(b.Since, a.Since) })
	return report, true
}

// pass lets the time of the answer pass until now: silent proxies were waited for meanwhile.
func (r *whyReport) pass(age time.Duration) {
	r.age = age
	shorten := func(left *int64) {
		if *left > 0 {
			*left = max(*left-age.Milliseconds(), 0)
		}
	}
	r.Voters, r.Slots = append([]stat.WhyMaster{}, r.Voters...), slices.Clone(r.Slots)
	shorten(&r.TTL)
	for i := range r.Voters {
		shorten(&r.Voters[i].TTL)
	}
	for i := range r.Slots {
		shorten(&r.Slots[i].TTL)
	}
}

// add adds what one proxy knew some time ago: its waiters, who held the lock before, and the
// grant.
func (r *whyReport) add(w *stat.Why, ago time.Duration) {
	r.Waiting += w.Waiting
	for _, one := range w.Waiters {
		one.Proxy = w.Asked
		one.Age += ago.Milliseconds() // so that waiters of several proxies can be compared
		r.Waiters = append(r.Waiters, one)
	}
	for _, one := range w.Last {
		one.Proxy = w.Asked
		r.Last = append(r.Last, one)
	}
	if r.Since == 0 && w.Since != 0 && w.Fence == r.Fence && w.Owner == r.Owner && w.Mode == r.Mode {
		r.Since, r.Granted, r.Client, r.Proxy = w.Since, w.Granted, w.Client, w.Proxy
	}
}

// disagreements returns a line about the holder and one about the masters if proxies see them
// differently.
func disagreements(said []*whyAnswer) (lines []string) {
	if text := contrast(said, (*whyAnswer).aboutHolder); text != "" {
		lines = append(lines, "the proxies disagree about the holder, or it has just changed: "+text)
	}
	text := ""
	if slices.ContainsFunc(said, (*whyAnswer).hidesMasters) {
		text = contrast(said, (*whyAnswer).aboutNumbers)
	} else if text = contrast(said, (*whyAnswer).aboutMasters); text == "" {
		text = contrast(said, (*whyAnswer).aboutSilent)
	}
	if text != "" {
		lines = append(lines, "the proxies disagree about the masters: "+text)
	}
	return lines
}

// contrast returns which proxies say what, or "" if all say the same. about returns "" for a proxy
// that does not say.
func contrast(said []*whyAnswer, about func(*whyAnswer) string) string {
	var claims, parts []string
	by := map[string][]string{}
	for _, a := range said {
		if claim := about(a); claim != "" {
			if by[claim] == nil {
				claims = append(claims, claim)
			}
			by[claim] = append(by[claim], a.Proxy)
		}
	}
	if len(claims) < 2 {
		return ""
	}
	for _, claim := range claims {
		parts = append(parts, strings.Join(by[claim], ", ")+": "+claim)
	}
	return strings.Join(parts, "; ")
}

func (a *whyAnswer) aboutHolder() string {
	switch w := &a.why; {
	case w.Mode == "" && w.Error != "":
		return "" // it does not know
	case w.Mode == "":
		return "not held"
	case w.Mode == "foreign":
		return "another program's key"
	case w.Mode == "kept":
		return "kept closed"
	default:
		return fmt.Sprintf("held by %s, fence %d", cmp.Or(w.Owner, "a client without a label"), w.Fence)
	}
}

// hidesMasters reports whether the proxy has show-masters off.
func (a *whyAnswer) hidesMasters() bool {
	return len(a.why.Voters) > 0 && a.why.Voters[0].Master == "master 1"
}

func (a *whyAnswer) aboutNumbers() string {
	if len(a.why.Voters) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d answer", a.why.Seen, a.why.Masters)
}

func (a *whyAnswer) aboutMasters() string {
	if len(a.why.Voters) == 0 {
		return ""
	}
	return "asks " + a.masters(func(*stat.WhyMaster) bool { return true })
}

func (a *whyAnswer) aboutSilent() string {
	if silent := a.masters(func(m *stat.WhyMaster) bool { return !m.Answered }); silent != "" {
		return "no answer of " + silent
	}
	return a.aboutNumbers()
}

// masters returns the addresses of some masters, in order.
func (a *whyAnswer) masters(which func(*stat.WhyMaster) bool) string {
	var names []string
	for _, m := range a.why.Voters {
		if which(&m) {
			names = append(names, m.Master[strings.LastIndex(m.Master, "@")+1:])
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
