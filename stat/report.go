package stat

import (
	"strconv"
	"time"
)

// MasterReport is a Master as clients get it: an entry of LOCKPROXY MASTERS and, as JSON, of
// lockproxy status.
type MasterReport struct {
	Address  string `json:"address"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"` // of a slow master, how slow it is
	VotesIn  int64  `json:"votes_in_ms"`      // 0: not known
	Since    int64  `json:"since_ms"`
	RunID    string `json:"-"`
	RTT      int64  `json:"rtt_us"`
	Grants   int64  `json:"grants"`
	Refusals int64  `json:"refusals"`
	Errors   int64  `json:"errors"`
	Late     int64  `json:"late"`
	Slow     int64  `json:"slow_ms"`
}

// Report returns m as it is now.
func (m *Master) Report(now time.Time) MasterReport {
	return MasterReport{m.Name, string(m.State), m.Why(), ceilMillis(m.VotesIn), now.Sub(m.Since).Milliseconds(),
		m.RunID, m.RTT.Microseconds(), int64(m.Grants), int64(m.Refusals), int64(m.Errors), int64(m.Late),
		m.SlowMillis()}
}

// Fields returns the fields in the order of the reply.
func (r *MasterReport) Fields() []Field {
	return []Field{
		{Name: "address", Text: &r.Address}, {Name: "state", Text: &r.State}, {Name: "reason", Text: &r.Reason},
		{Name: "votes_in_ms", Number: &r.VotesIn}, {Name: "since_ms", Number: &r.Since},
		{Name: "run_id", Text: &r.RunID}, {Name: "rtt_us", Number: &r.RTT}, {Name: "grants", Number: &r.Grants},
		{Name: "refusals", Number: &r.Refusals}, {Name: "errors", Number: &r.Errors},
		{Name: "late", Number: &r.Late}, {Name: "slow_ms", Number: &r.Slow},
	}
}

// IsSlow is Master.IsSlow.
func (r *MasterReport) IsSlow() bool { return State(r.State) == StateVoting && r.Slow > 0 }

// Field is a field of a reply: a text or a number.
type Field struct {
	Name   string
	Text   *string
	Number *int64
}

// SetFields sets fields from a reply. A field that is missing, or is no number, is empty.
func SetFields(fields []Field, values map[string]string) {
	for _, f := range fields {
		if f.Text != nil {
			*f.Text = values[f.Name]
			continue
		}
		*f.Number = 0
		if n, err := strconv.ParseInt(values[f.Name], 10, 64); err == nil {
			*f.Number = n
		}
	}
}
