//go:build race

package sim

// raceDetector says that the race detector is on: everything takes several times as long, and
// goroutines that are ready at one instant run in any order.
const raceDetector = true
