package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the settings from the environment; doc.go explains them.
type options struct {
	rounds    int
	span      time.Duration // of one measurement
	quick     bool
	only      []string // empty: all parts but cpu and versions
	cases     []string // empty: all
	subjects  []string // empty: all
	lockproxy string
	base      string
	slock     string
	result    string
}

func readOptions(getenv func(string) string) (options, error) {
	o := options{
		rounds: 5, span: 2 * time.Second, quick: getenv("BENCH_QUICK") != "",
		only: list(getenv("BENCH_ONLY")), cases: list(getenv("BENCH_CASES")), subjects: list(getenv("BENCH_SUBJECTS")),
		lockproxy: getenv("BENCH_LOCKPROXY"), base: getenv("BENCH_BASE"), slock: getenv("BENCH_SLOCK"),
		result: getenv("BENCH_RESULT"),
	}
	if o.quick {
		o.rounds, o.span = 1, 500*time.Millisecond
	}
	var faults []error
	if text := getenv("BENCH_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			faults = append(faults, fmt.Errorf("BENCH_ROUNDS=%s: want a number from 1 to 100", text))
		}
		o.rounds = n
	}
	if text := getenv("BENCH_SECONDS"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || seconds < 0.1 || seconds > 60 {
			faults = append(faults, fmt.Errorf("BENCH_SECONDS=%s: want a number from 0.1 to 60", text))
		}
		o.span = time.Duration(seconds * float64(time.Second))
	}
	for _, name := range o.only {
		if !slices.Contains(strings.Split(partNames(), ", "), name) {
			faults = append(faults, fmt.Errorf("BENCH_ONLY=%s: want some of %s", name, partNames()))
		}
	}
	if o.lockproxy == "" {
		faults = append(faults, errors.New("BENCH_LOCKPROXY is not set: start with run.sh, which builds one"))
	}
	return o, errors.Join(faults...)
}

// list splits the value of a variable.
func list(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

// runs reports whether the run includes a part.
func (o options) runs(part string) bool {
	if len(o.only) == 0 {
		return part != "cpu" && part != "versions"
	}
	return slices.Contains(o.only, part)
}

// wants reports whether the run includes a subject.
func (o options) wants(subject string) bool {
	return len(o.subjects) == 0 || slices.Contains(o.subjects, subject)
}

// wantsCase reports whether the run includes a case of the relay.
func (o options) wantsCase(name string) bool {
	return len(o.cases) == 0 || slices.ContainsFunc(o.cases, func(part string) bool {
		return strings.Contains(name, part)
	})
}
