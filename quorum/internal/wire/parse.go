package wire

import "lockproxy/resp/respio"

// Limits on the answer of a master. No request of lockproxy comes near them.
const (
	maxLine  = 64 << 10
	maxBulk  = 1 << 20
	maxElems = 3 + 3*MaxLimit // of an Inspect
	maxDepth = 2              // arrays in arrays
	maxReply = 4 << 20        // all in all, which bounds the memory of a reader
)

var limits = respio.Limits{Line: maxLine, Text: maxBulk, Elems: maxElems, Depth: maxDepth, Reply: maxReply}

// Parse reads the reply that b begins with into r and returns its length in bytes. It returns 0
// as long as b holds only a part of it; r is of no use then. The error is ErrUnparsable or nil.
// r keeps no part of b.
func Parse(b []byte, r *Reply) (n int, err error) {
	if n, err = limits.Parse(b, r); err != nil {
		return 0, ErrUnparsable
	}
	return n, nil
}
