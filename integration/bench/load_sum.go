package main

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sum puts the workers' figures together.
func (l *load) sum(r *loadResult) {
	var locks, both, hands []time.Duration
	r.Kinds = map[string]int{}
	for i, w := range l.workers {
		locks, both, hands = append(locks, w.locks...), append(both, w.both...), append(hands, w.hands...)
		r.Failed += w.failed
		for kind, n := range w.kinds {
			r.Kinds[kind] += n
		}
		if w.failure != nil && r.Failure == "" {
			r.Failure = w.failure.Error()
		}
		if i == 0 {
			r.Fewest = len(w.both)
		}
		r.Fewest, r.Most = min(r.Fewest, len(w.both)), max(r.Most, len(w.both))
	}
	r.Pairs = len(both)
	r.LockP50, r.LockP99, r.Longest = quantiles(locks)
	r.PairP50, r.PairP99, _ = quantiles(both)
	r.HandP50, r.HandP99, _ = quantiles(hands)
}

var (
	addressesOf = regexp.MustCompile(`127\.0\.0\.1:[0-9]+ `)
	numbersOf   = regexp.MustCompile(`[0-9]+`)
)

// errorKind is an error without what differs from one to the next: addresses, numbers, and the
// order and repetition of causes. Of a NOQUORUM it keeps the code and the causes.
func errorKind(err error) string {
	text := strings.NewReplacer(`\r\n`, "", `"`, "").Replace(err.Error())
	text = addressesOf.ReplaceAllString(text, "")
	text = numbersOf.ReplaceAllString(text, "N")
	head, causes, found := strings.Cut(text, " needed")
	if !found {
		return text
	}
	code, _, _ := strings.Cut(head, " N of ")
	_, causes, _ = strings.Cut(causes, ": ")
	list := strings.Split(causes, "; ")
	slices.Sort(list)
	return code + " " + strings.Join(slices.Compact(list), "; ")
}

// quantiles returns the median, the 99th percentile and the maximum in microseconds, or 0 for no
// values.
func quantiles(d []time.Duration) (p50, p99, most float64) {
	if len(d) == 0 {
		return 0, 0, 0
	}
	slices.Sort(d)
	return micros(d[len(d)/2]), micros(d[len(d)*99/100]), micros(d[len(d)-1])
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
