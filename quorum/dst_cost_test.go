package quorum

import "time"

// heldForAWhile is the longest hold that costs a master two scripts, even if answers are late. A lock
// that is held for longer may be checked.
const heldForAWhile = time.Second
