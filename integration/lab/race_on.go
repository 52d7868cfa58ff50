//go:build race

package lab

// Race tells that the tests run with the race detector; the binary is then built with it, too.
const Race = true
