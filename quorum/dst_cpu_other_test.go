//go:build !linux

package quorum

import "time"

var processBegan = time.Now()

func processorTime() time.Duration { return time.Since(processBegan) }
