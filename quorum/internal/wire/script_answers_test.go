package wire

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// answer is a line of a result, of the model or of a master. Its time is apart from the text,
// because clocks differ.
type answer struct {
	text string
	left int64 // ms; 0 for no time, -1 for ever
}

func say(format string, args ...any) []answer { return []answer{{text: fmt.Sprintf(format, args...)}} }

// inspect returns the answer to an Inspect.
func (m *model) inspect(l *lock) (all []answer) {
	if l == nil {
		return say("nothing")
	}
	text, isText := strings.CutPrefix(l.content, "string ")
	switch {
	case isText:
		return append(say("exclusive 1"), sayHolder(text, Entry{}, m.left(l)))
	case l.mode == foreign:
		return say("other")
	}
	for secret, h := range l.holders {
		all = append(all, sayHolder(secret, Entry{Slot: h.slot, Fence: h.fence, Owner: h.owner}, h.end-m.now))
	}
	return append(say("%v %d", l.mode, len(all)), sorted(all)...)
}

func sayHolder(id string, h Entry, left int64) answer {
	return answer{fmt.Sprintf("%q slot %d fence %d owner %q", id, h.Slot, h.Fence, h.Owner), left}
}

func sorted(all []answer) []answer {
	slices.SortFunc(all, func(a, b answer) int { return strings.Compare(a.text, b.text) })
	return all
}

// hear returns the answer of a master to an operation at now.
func hear(op *Op, r *Reply, now int64) []answer {
	switch {
	case r.IsError():
		return say("%s", r.Code())
	case op.Kind == Acquire:
		if fence, slot, ok := Granted(r); ok {
			return say("granted %d slot %d", fence, slot)
		}
		if left, ok := Refused(r); ok {
			return []answer{{"refused", milliseconds(left)}}
		}
	case op.Kind == Inspect:
		return hearInspect(r)
	case op.Kind == Refresh:
		return hearRefresh(r, now)
	case r.Kind == ':':
		return say("%d", r.Int)
	}
	if mode, h, ok := Extended(r); ok {
		return say("%v slot %d fence %d owner %q", mode, h.Slot, h.Fence, h.Owner)
	}
	return say("%s", text(r))
}

func hearRefresh(r *Reply, now int64) []answer {
	switch longer, h, ok := Refreshed(r); {
	case !ok:
		return say("%s", text(r))
	case longer != 0:
		return []answer{{fmt.Sprintf("longer fence %d owner %q", h.Fence, h.Owner), longer - now}}
	default:
		return say("%v slot %d fence %d owner %q", Exclusive, 0, h.Fence, h.Owner)
	}
}

func hearInspect(r *Reply) (all []answer) {
	found, ok := ParseInspect(r)
	switch {
	case !ok:
		return say("%s", text(r))
	case r.Null:
		return say("nothing")
	case found.Holders == nil:
		return say("other")
	}
	for _, h := range found.Holders {
		all = append(all, sayHolder(h.ID, h, milliseconds(h.Left)))
	}
	return append(say("%v %d", found.Mode, found.Count), sorted(all)...)
}

func milliseconds(d time.Duration) int64 {
	if d < 0 || d == Forever {
		return -1
	}
	return d.Milliseconds()
}

// alike compares answers. A master names at most MaxLimit holders.
func alike(want, got []answer) bool {
	if len(want) > 1+MaxLimit && len(got) == 1+MaxLimit {
		return want[0] == got[0]
	}
	return slices.EqualFunc(want, got, func(a, b answer) bool {
		return a.text == b.text && (a.left < 0) == (b.left < 0) && near(a.left, b.left)
	})
}

// tolerance is the largest difference in ms between readings of two clocks.
const tolerance = 2000

func near(a, b int64) bool { return max(a, b)-min(a, b) <= tolerance }

// describe names an operation in a report.
func describe(op *Op) string {
	kinds := strings.Fields("acquire raise release fade top-up extend check share inspect free refresh")
	text := fmt.Sprintf("%s %s%s %.6s counter %d ttl %v", kinds[op.Kind], op.Key, op.more(), op.Secret, op.Counter,
		op.TTL)
	if op.Kind == Raise || op.Kind == TopUp {
		text += fmt.Sprint(" fence ", op.Fence)
	}
	if op.Kind == Refresh {
		text += fmt.Sprint(" instead of ", op.End)
	}
	if t := op.Terms; t != nil {
		if text += fmt.Sprint(" ", t.Mode); t.Mode == Limited {
			text += fmt.Sprint(" ", t.Limit, t.Try, t.Slot)
		}
		if t.Waits > 0 {
			text += fmt.Sprint(" waits ", t.Waits)
		}
	}
	return text
}
