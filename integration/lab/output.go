package lab

import (
	"bytes"
	"sync"
)

// Output collects what a process writes. Safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the collected text.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String returns all that was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Tail returns the last n bytes written so far, or all where there are fewer.
func (o *Output) Tail(n int) string {
	s := o.String()
	return s[max(0, len(s)-n):]
}
