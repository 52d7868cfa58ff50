package history

import (
	"fmt"
	"strings"
	"time"
)

// Found is a lock key as it stands on a master, or one live holder of a shared or limited one.
type Found struct {
	Master string
	Key    string        // without the key prefix
	Value  string        // 40 hex digits of the token, 16 digits of fence, the owner label
	Left   time.Duration // until it expires; negative: never
}

// secret and label are what Value is made of.
func (f *Found) secret() string { return f.Value[:min(40, len(f.Value))] }
func (f *Found) label() string  { return f.Value[min(56, len(f.Value)):] }

// keptMark begins what stands at a key that UNLOCK KEEP closed, in the place of the secret.
const keptMark = "kept"

// expiryGrain is how much later than its ttl a key may still be found: ttls are whole
// milliseconds.
const expiryGrain = 10 * time.Millisecond

// Strays is check E: of the keys found at a time when nothing was under way any more, those that
// belong to no live lock. A lock is live if its LOCK was granted, no UNLOCK of it was answered,
// and its ttl, counted from the last reply, is not over. A command without a reply may have left
// the lock standing, and have been carried out as late as healed, when the last fault was over:
// such a key is no stray until its ttl, counted from then, is over. What UNLOCK KEEP closed is known
// by the label and stands until that ttl is over, whatever the reply. A key that never expires is
// always a stray.
func Strays(found []Found, ops []Op, at, healed time.Duration) []Violation {
	stands := standing(ops, healed)
	var strays []Violation
	for _, f := range found {
		until := max(stands[f.Key+" "+f.secret()], stands[f.Key+" "+f.label()])
		if strings.HasPrefix(f.Value, keptMark) {
			until = stands[f.Key+" "+keptMark+f.label()]
		}
		if f.Left >= 0 && at < until+expiryGrain {
			continue
		}
		strays = append(strays, Violation{Check: "stray", Key: f.Key, At: at, Text: fmt.Sprintf("on %s, expires in %v: %.80s; %s",
			f.Master, f.Left, f.Value, strings.Join(concerning(ops, &f), "; "))})
	}
	return strays
}

// standing tells until when a lock may stand, by its key and its secret, or its owner label where
// no reply told the token.
func standing(ops []Op, healed time.Duration) map[string]time.Duration {
	stands := map[string]time.Duration{}
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
			stands[id] = max(stands[id], since+o.TTL)
		}
	}
	for i := range ops {
		o := &ops[i]
		if o.keeps() {
			id, since := o.Key+" "+keptMark+o.Label, max(o.Return, healed)
			if o.Outcome == OK {
				since = o.Return
			}
			stands[id] = max(stands[id], since+o.TTL)
		}
		if o.Kind == Unlock && o.Outcome != Unknown {
			delete(stands, o.Key+" "+o.Secret())
		}
	}
	return stands
}

// concerning returns the operations that a key on a master may come from.
func concerning(ops []Op, f *Found) []string {
	var list []string
	for i := range ops {
		if o := &ops[i]; o.Key == f.Key && (o.Secret() == f.secret() || o.Kind == Lock && o.Label == f.label()) {
			list = append(list, o.String())
		}
	}
	return list
}
