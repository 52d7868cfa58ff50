package history

import (
	"fmt"
	"strings"
	"time"
)

// Found is a lock key on a master, or one live holder in a shared or limited key.
type Found struct {
	Master string
	Key    string        // without the key prefix
	Value  string        // 40 hex digits of the token, 16 digits of fence, the owner label
	Left   time.Duration // until it expires; negative if it never does
}

// secret and label return parts of Value.
func (f *Found) secret() string { return f.Value[:min(40, len(f.Value))] }
func (f *Found) label() string  { return f.Value[min(56, len(f.Value)):] }

// keptMark begins the value of a key that UNLOCK KEEP closed, in the place of the secret.
const keptMark = "kept"

// expiryGrain is how long a key may outlive its ttl, which is a whole number of milliseconds.
const expiryGrain = 10 * time.Millisecond

// Strays is check E: it returns the keys that belong to no live lock, of those found while no
// command was under way. A lock is live if its LOCK was granted, no UNLOCK of it has a reply, and
// its ttl, counted from the last reply, has not passed. A command without a reply may have been
// executed as late as healed, when the last fault ended. Its key is a stray only when its ttl,
// counted from then, has passed. The label identifies a key that UNLOCK KEEP closed; it may stay
// until that ttl has passed, with any reply. A key that never expires is always a stray.
func Strays(found []Found, ops []Op, at, healed time.Duration) []Violation {
	ends := latestEnds(ops, healed)
	var strays []Violation
	for _, f := range found {
		until := max(ends[f.Key+" "+f.secret()], ends[f.Key+" "+f.label()])
		if strings.HasPrefix(f.Value, keptMark) {
			until = ends[f.Key+" "+keptMark+f.label()]
		}
		if f.Left >= 0 && at < until+expiryGrain {
			continue
		}
		strays = append(strays, Violation{Check: "stray", Key: f.Key, At: at,
			Text: fmt.Sprintf("on %s, expires in %v: %.80s; %s",
				f.Master, f.Left, f.Value, strings.Join(concerning(ops, &f), "; "))})
	}
	return strays
}

// latestEnds returns the time until which a lock may be on a master, by its key and its secret, or
// by its key and its owner label if no reply contained the token.
func latestEnds(ops []Op, healed time.Duration) map[string]time.Duration {
	ends := map[string]time.Duration{}
	for i := range ops {
		o := &ops[i]
		id, since := o.Key+" "+o.Secret(), o.Return
		if o.Outcome == Unknown {
			since = max(since, healed)
			if o.Kind == Lock {
				id = o.Key + " " + o.Label
			}
		}
		if o.Kind == Lock && o.Outcome <= OK || o.Kind == Extend && o.Outcome != No {
			ends[id] = max(ends[id], since+o.TTL)
		}
	}
	for i := range ops {
		o := &ops[i]
		if o.keeps() {
			id, since := o.Key+" "+keptMark+o.Label, max(o.Return, healed)
			if o.Outcome == OK {
				since = o.Return
			}
			ends[id] = max(ends[id], since+o.TTL)
		}
		if o.Kind == Unlock && o.Outcome != Unknown {
			delete(ends, o.Key+" "+o.Secret())
		}
	}
	return ends
}

// concerning returns the operations that may have set a key on a master.
func concerning(ops []Op, f *Found) []string {
	var list []string
	for i := range ops {
		if o := &ops[i]; o.Key == f.Key && (o.Secret() == f.secret() || o.Kind == Lock && o.Label == f.label()) {
			list = append(list, o.String())
		}
	}
	return list
}
