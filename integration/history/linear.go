package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// lockModel says which order of operations on one key the contract allows.
//
//   - LOCK is granted while nobody holds what it cannot be beside, with a fence greater than all
//     such before. A holder has its place until it sends UNLOCK or its validity is over; for the
//     latter the LOCK must have returned after that, and so must all that follows in the order.
//     This is how expiry enters a model without a clock.
//   - UNLOCK ends the claim of its token, whatever the reply: the holder does not count on the
//     lock from then on. Its replies are always legal: 1 comes also when masters that gave no
//     answer might have held the token. With KEEP and 1 the place stays taken.
//   - EXTEND that succeeded: nobody was granted the place since the token was. One answered 0 ends
//     the claim, as UNLOCK. With SHARED the holder has a share from then on, whatever the reply.
//
// LOCK answered null or with an error is always legal, as Redlock may fail for no visible reason;
// EXTEND that failed changes nothing that a client may count on. Both are left out of what is
// checked.
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

// Linear is check B: for each key there is an order of the operations, in keeping with their
// times, that the model of a lock with validity and fencing allows. A key that cannot be decided
// within timeout is a violation as well. picture is called for each violation with the page that
// shows it; it may be nil.
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
