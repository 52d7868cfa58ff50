package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// lockModel defines the orders of operations on one key that the contract allows.
//
//   - LOCK is granted while no client holds a place that excludes it, with a fence greater than
//     those of all such places before. A holder has its place until it sends UNLOCK or its validity
//     ends. If its validity ends, the next LOCK must return after that, and so must all operations
//     after it in the order. This is how expiry enters a model without a clock.
//   - UNLOCK ends the claim of its token with any reply, because the holder no longer counts on the
//     lock. All its replies are legal: 1 also comes if masters that did not answer may have had the
//     token. After KEEP with reply 1 the place stays closed.
//   - EXTEND succeeds if no other client got the place since the token was granted. With reply 0 it
//     ends the claim, like UNLOCK. After SHARED with any reply the holder has a share.
//
// The model leaves two kinds of operations out. A LOCK with reply null or an error is always
// legal, because Redlock may fail for no visible reason. An EXTEND that failed changes no claim.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, o := state.(lockState), input.(*Op)
		if o.Return < s.now {
			return false, s
		}
		switch {
		case o.Kind == Lock:
			return s.grant(o)
		case endsClaim(o):
			return true, s.end(o)
		default:
			return s.extend(o)
		}
	},
	Equal:             func(a, b any) bool { return a.(lockState).equal(b.(lockState)) },
	DescribeOperation: func(input, _ any) string { return input.(*Op).String() },
	DescribeState:     func(state any) string { return state.(lockState).String() },
}

// counts reports whether the model looks at o.
func counts(o *Op) bool { return endsClaim(o) || o.Outcome == OK || o.downgrade() }

// Linear is check B: for each key there must be an order of the operations that agrees with their
// times and that the model of a lock with validity and fencing allows. A key that is undecided
// after timeout is a violation as well. Linear calls picture for each key without a legal order,
// with a page that shows it; picture may be nil.
func Linear(ops []Op, timeout time.Duration, picture func(key string, html []byte)) []Violation {
	byKey := map[string][]porcupine.Operation{}
	for i := range ops {
		if o := &ops[i]; counts(o) {
			byKey[o.Key] = append(byKey[o.Key], porcupine.Operation{
				ClientId: o.Client, Input: o, Call: int64(o.Call), Return: int64(o.Return)})
		}
	}
	var found []Violation
	deadline := time.Now().Add(timeout)
	for _, key := range keysOf(byKey) {
		left := max(time.Until(deadline), time.Millisecond)
		switch porcupine.CheckOperationsTimeout(lockModel, byKey[key], left) {
		case porcupine.Ok:
		case porcupine.Unknown:
			found = append(found, Violation{Check: "order", Key: key, Text: fmt.Sprintf(
				"%d operations not decided within %v", len(byKey[key]), timeout)})
		default:
			found = append(found, illegal(key, byKey[key], timeout, picture))
		}
	}
	return found
}
