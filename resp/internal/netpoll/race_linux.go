//go:build race

package netpoll

// raceDetector: package syscall tells the detector that a read comes after the write of its bytes.
const raceDetector = true
