package stat

import (
	"strconv"
	"time"
)

// MasterReport is a Master as clients get it: an entry of LOCKPROXY MASTERS, of lockproxy status
// and, but for a few names, of the operators' page.
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

// LockReport is a Lock as clients get it: the reply to LOCKINFO, and an entry of LOCKPROXY LOCKS and
// of lockproxy status.
type LockReport struct {
	Key     string       `json:"key"`
	Held    int64        `json:"held"`
	Masters int64        `json:"-"`
	TTL     int64        `json:"ttl"` // milliseconds; negative: for ever
	Fence   int64        `json:"fence"`
	Owner   string       `json:"owner"`
	Waiting int64        `json:"waiting"`
	Mode    string       `json:"mode"`
	Holders int64        `json:"holders"`
	Slots   []SlotReport `json:"slots,omitempty"`
}

// SlotReport is a Slot as clients get it.
type SlotReport struct {
	Slot  int64  `json:"slot"`
	Fence int64  `json:"fence"`
	Owner string `json:"owner"`
	TTL   int64  `json:"ttl"` // as LockReport.TTL
}

// Report returns l for clients.
func (l *Lock) Report() LockReport {
	r := LockReport{Key: l.Key, Held: int64(l.Held), Masters: int64(l.Masters), TTL: l.TTL.Milliseconds(),
		Fence: int64(l.Fence), Owner: l.Owner, Waiting: int64(l.Waiting), Mode: l.Mode, Holders: int64(l.Holders)}
	for _, s := range l.Slots {
		r.Slots = append(r.Slots, SlotReport{int64(s.Slot), int64(s.Fence), s.Owner, s.TTL.Milliseconds()})
	}
	return r
}

// Fields returns the fields in the order of the reply, without Slots. The key is the first; LOCKINFO
// leaves it out.
func (r *LockReport) Fields() []Field {
	return []Field{
		{Name: "key", Text: &r.Key}, {Name: "held", Number: &r.Held}, {Name: "masters", Number: &r.Masters},
		{Name: "ttl", Number: &r.TTL}, {Name: "fence", Number: &r.Fence}, {Name: "owner", Text: &r.Owner},
		{Name: "waiting", Number: &r.Waiting}, {Name: "mode", Text: &r.Mode}, {Name: "holders", Number: &r.Holders},
	}
}

// Fields returns the fields in the order of the reply.
func (r *SlotReport) Fields() []Field {
	return []Field{{Name: "slot", Number: &r.Slot}, {Name: "fence", Number: &r.Fence},
		{Name: "owner", Text: &r.Owner}, {Name: "ttl", Number: &r.TTL}}
}

// Field is a field of a report: a text or a number.
type Field struct {
	Name   string
	Text   *string
	Number *int64
}

// SetFields sets the fields of a report from a reply. A field that is missing, or is no number, is
// empty.
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
