package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// series is one figure over the rounds, in their order; NaN if a round has none.
type series []float64

// sorted returns the figures that are there, in rising order.
func (s series) sorted() series {
	v := slices.DeleteFunc(slices.Clone(s), math.IsNaN)
	slices.Sort(v)
	return v
}

// median is NaN for no figures.
func (s series) median() float64 {
	v := s.sorted()
	n := len(v)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// over is the ratios of s to t, round by round.
func (s series) over(t series) series {
	var ratios series
	for i := range min(len(s), len(t)) {
		if t[i] != 0 {
			ratios = append(ratios, s[i]/t[i])
		}
	}
	return ratios
}

// show is the median and, of more than one figure, smallest to largest: "1.02 (0.98-1.05)".
func (s series) show(format func(float64) string) string {
	v := s.sorted()
	switch {
	case len(v) == 0:
		return "-"
	case len(v) == 1:
		return format(v[0])
	}
	return fmt.Sprintf("%s (%s-%s)", format(v.median()), format(v[0]), format(v[len(v)-1]))
}

// showInterval is the median and the interval that holds the true median in 95 of 100 cases:
// "1.016 (0.998-1.031)". It assumes no distribution.
func (s series) showInterval(format func(float64) string) string {
	v := s.sorted()
	if len(v) == 0 {
		return "-"
	}
	ranks := int(0.98*math.Sqrt(float64(len(v)))) + 1
	low, high := max(0, len(v)/2-ranks), min(len(v)-1, len(v)/2+ranks)
	return fmt.Sprintf("%s (%s-%s)", format(v.median()), format(v[low]), format(v[high]))
}

// Formats of figures.
func ratio(v float64) string       { return fmt.Sprintf("%.2f", v) }
func thousandths(v float64) string { return fmt.Sprintf("%.3f", v) }
func whole(v float64) string       { return fmt.Sprintf("%.0f", v) }
func tenth(v float64) string       { return fmt.Sprintf("%.1f", v) }
func thousands(v float64) string {
	if v < 9950 {
		return fmt.Sprintf("%.1fk", v/1000)
	}
	return fmt.Sprintf("%.0fk", v/1000)
}

// micros is a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// mega is bytes in MB.
func mega(bytes float64) float64 { return bytes / (1 << 20) }
