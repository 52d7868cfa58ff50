package main

import (
	"os"
	"runtime"
)

// heapRoom is how much a small heap may grow before it is collected. The runtime waits for a heap to double, which at a few megabytes is
// over within a few thousand locks; a collection also empties the pools of buffers. It is room in the address space: the memory becomes real
// only as far as garbage fills as much.
const heapRoom = 32 << 20

// keepHeapRoom makes the collector count heapRoom bytes more, until release is called. With GOGC set that is left to whoever set it.
func keepHeapRoom() (release func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	room := make([]byte, heapRoom) // never written to, so the system gives no page for it
	return func() { runtime.KeepAlive(room) }
}
