package lab

import "time"

// Call is a command that ran between two times on this process's monotonic clock.
type Call struct {
	Sent, Back time.Time
	Reply      string // raw; "" after an error
	Err        error
}

// Call sends a command and waits for its reply, for at most timeout.
func (c *Conn) Call(timeout time.Duration, args ...string) Call {
	c.Timeout = timeout
	call := Call{Sent: time.Now()}
	call.Reply, call.Err = c.Ask(args...)
	call.Back = time.Now()
	return call
}
