// Package admission decides which masters may vote. A master that may have lost its memory, or
// that went back to an older state, would grant a lock twice.
//
// It is pure: it opens no connection, starts no goroutine and decides without a clock. The caller
// feeds a Guard with observations, and carries out the actions that Evaluate returns.
package admission
