//go:build !race

package integration

// raceEnabled tells that the tests run with the race detector; the binary is then built with it, too.
const raceEnabled = false
