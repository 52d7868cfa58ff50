package history

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// shown is the largest number of operations in a picture.
const shown = 400

// illegal finds the first operation with which no order is legal, and draws the operations before
// it.
func illegal(key string, ops []porcupine.Operation, timeout time.Duration, picture func(string, []byte)) Violation {
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	n := 1 + sort.Search(len(ops)-1, func(i int) bool {
		return porcupine.CheckOperationsTimeout(lockModel, returned(ops, i+1), timeout) == porcupine.Illegal
	})
	if picture != nil {
		_, info := porcupine.CheckOperationsVerbose(lockModel, lately(returned(ops, n)), timeout)
		var page bytes.Buffer
		if err := porcupine.Visualize(lockModel, info, &page); err == nil {
			picture(key, page.Bytes())
		}
	}
	culprit := ops[n-1].Input.(*Op)
	return Violation{Check: "order", Key: key, At: culprit.Return, Text: "no order is legal with " + culprit.String()}
}

// returned returns the history at the moment when the nth operation returned; ops are sorted by
// Return. It includes each operation that was under way at that moment and ends a claim, because
// that may have made room for a LOCK that had returned.
func returned(ops []porcupine.Operation, n int) []porcupine.Operation {
	list := slices.Clone(ops[:n])
	for _, o := range ops[n:] {
		if o.Call <= ops[n-1].Return && (endsClaim(o.Input.(*Op)) || o.Input.(*Op).downgrade()) {
			list = append(list, o)
		}
	}
	return list
}

// lately returns the end of a history, without any EXTEND whose LOCK came before.
func lately(ops []porcupine.Operation) []porcupine.Operation {
	ops = ops[max(0, len(ops)-shown):]
	granted := map[string]bool{}
	for _, o := range ops {
		if o := o.Input.(*Op); o.Kind == Lock {
			granted[o.Secret()] = true
		}
	}
	return slices.DeleteFunc(ops, func(o porcupine.Operation) bool {
		in := o.Input.(*Op)
		return in.Kind == Extend && !granted[in.Secret()]
	})
}
