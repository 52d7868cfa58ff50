//go:build !race

package lab

// Race reports whether the tests, and so the binary, have the race detector.
const Race = false
