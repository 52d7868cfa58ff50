package main

import (
	"os"
	"runtime"
)

// heapRoom is how much a small heap may grow before it is collected. By default a heap may double.
// A few megabytes double within a few thousand locks, and each collection also empties the pools
// of buffers. Only the address space is reserved: memory is used as garbage fills it.
const heapRoom = 32 << 20

// keepHeapRoom makes the collector allow heapRoom more bytes until release is called. It has no
// effect if GOGC is set.
func keepHeapRoom() (release func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	room := make([]byte, heapRoom) // never written to, so it takes no memory
	return func() { runtime.KeepAlive(room) }
}
