//go:build !linux

package clock

import "time"

var processBegan = time.Now()

// ProcessorTime returns how long this process has run: here the time at work is not known.
func ProcessorTime() time.Duration { return time.Since(processBegan) }
