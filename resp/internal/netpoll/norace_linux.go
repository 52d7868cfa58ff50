//go:build !race

package netpoll

const raceDetector = false
