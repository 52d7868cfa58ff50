package lab

import (
	"bytes"
	"sync"
)

// Output collects the output of a process. Safe for concurrent use.
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

// String returns all text so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Tail returns the last n bytes, or all if there are fewer.
func (o *Output) Tail(n int) string {
	s := o.String()
	return s[max(0, len(s)-n):]
}
