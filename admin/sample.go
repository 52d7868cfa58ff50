package admin

import (
	"sort"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"lockproxy/stat"
)

// keepSamples is how many seconds the charts show.
const keepSamples = 300

// Sample is one second of the charts. Rates are per second, times are in milliseconds. A time
// without measurements is null.
type Sample struct {
	At       int64    `json:"at"` // milliseconds since 1970
	Granted  float64  `json:"granted"`
	Taken    float64  `json:"taken"` // answered with null
	Errors   float64  `json:"errors"`
	Commands float64  `json:"commands"` // relayed
	Lock50   *float64 `json:"lock50"`
	Lock99   *float64 `json:"lock99"`
	Wait50   *float64 `json:"wait50"`
	Wait99   *float64 `json:"wait99"`
	Waiters  int      `json:"waiters"`

	Faults map[string]uint64 `json:"faults,omitempty"` // errors of this second, by kind
}

// sampler makes samples of the differences between two calls.
type sampler struct {
	m *Meter

	last       time.Time
	granted    float64
	taken      float64
	errors     float64
	commands   uint64
	lock, wait *buckets
	faults     map[fault]uint64
}

func newSampler(m *Meter, now time.Time) *sampler {
	s := &sampler{m: m, last: now}
	s.next(Snapshot{}, now)
	return s
}

// next returns the sample since the last call.
func (s *sampler) next(state Snapshot, now time.Time) Sample {
	seconds := max(now.Sub(s.last).Seconds(), 0.001)
	rate := func(last *float64, value float64) float64 {
		d := (value - *last) / seconds
		*last = value
		return max(d, 0)
	}
	sample := Sample{At: now.UnixMilli(), Waiters: state.Waiters,
		Faults: s.risen(s.m.faults(state.Masters))}
	var taken, failed float64
	for command, counters := range s.m.commands {
		for outcome, c := range counters {
			if outcome.Failed() {
				failed += valueOf(c)
			}
			if command == "lock" && (outcome == stat.OutcomeTaken || outcome == stat.OutcomeTimeout ||
				outcome == stat.OutcomeGone) {
				taken += valueOf(c)
			}
		}
	}
	failed += valueOf(s.m.sessions[stat.OutcomeLost])
	sample.Granted = rate(&s.granted, valueOf(s.m.commands["lock"][stat.OutcomeGranted]))
	sample.Taken = rate(&s.taken, taken)
	sample.Errors = rate(&s.errors, failed)
	if state.Traffic.Commands > s.commands {
		sample.Commands = float64(state.Traffic.Commands-s.commands) / seconds
	}
	s.commands, s.last = state.Traffic.Commands, now
	lock, wait := bucketsOf(s.m.took["lock"]), bucketsOf(s.m.waited)
	sample.Lock50, sample.Lock99 = lock.since(s.lock, 0.5), lock.since(s.lock, 0.99)
	sample.Wait50, sample.Wait99 = wait.since(s.wait, 0.5), wait.since(s.wait, 0.99)
	s.lock, s.wait = lock, wait
	return sample
}

func valueOf(c prometheus.Counter) float64 {
	var out dto.Metric
	if c == nil || c.Write(&out) != nil {
		return 0
	}
	return out.GetCounter().GetValue()
}

// buckets are the cumulative counts of a histogram.
type buckets struct {
	bounds []float64 // seconds
	counts []uint64  // up to each bound
	total  uint64
}

func bucketsOf(h prometheus.Histogram) *buckets {
	var out dto.Metric
	b := &buckets{}
	if h.Write(&out) != nil {
		return b
	}
	for _, bucket := range out.GetHistogram().GetBucket() {
		b.bounds, b.counts = append(b.bounds, bucket.GetUpperBound()), append(b.counts, bucket.GetCumulativeCount())
	}
	b.total = out.GetHistogram().GetSampleCount()
	return b
}

// since returns the quantile of the observations made after before, in milliseconds. Like
// Prometheus it assumes that observations are spread evenly within a bucket, and uses the last
// bound for all above. It returns nil without observations.
func (b *buckets) since(before *buckets, quantile float64) *float64 {
	if before == nil || b.total <= before.total || len(b.bounds) == 0 || len(before.counts) != len(b.counts) {
		return nil
	}
	count := func(i int) float64 { return float64(b.counts[i] - before.counts[i]) }
	rank := quantile * float64(b.total-before.total)
	i := sort.Search(len(b.bounds), func(i int) bool { return count(i) >= rank })
	var value float64
	switch {
	case i == len(b.bounds):
		value = b.bounds[i-1]
	case i == 0:
		value = b.bounds[0] * rank / max(count(0), 1)
	default:
		low, inside := count(i-1), count(i)-count(i-1)
		value = b.bounds[i-1] + (b.bounds[i]-b.bounds[i-1])*(rank-low)/max(inside, 1)
	}
	value *= 1000
	return &value
}
