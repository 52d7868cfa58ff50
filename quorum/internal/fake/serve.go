package fake

import (
	"bytes"
	"time"
)

// serve runs what arrives on an in-memory connection until that ends.
func (m *Master) serve(c *Conn) {
	defer func() {
		m.Disconnect(c)
		_ = c.out.Close()
	}()
	var in []byte
	var arrived time.Time // time of the last read: commands read together wait for the lag once
	chunk := make([]byte, 64<<10)
	for {
		args, rest := CutCommand(in)
		if args == nil {
			n, err := c.out.Read(chunk)
			if err != nil {
				return
			}
			in, arrived = append(in, chunk[:n]...), time.Now().Add(c.lag)
			continue
		}
		in = rest
		time.Sleep(time.Until(arrived))
		m.waitOpen()
		answer, ok := m.Run(c, args)
		if !ok {
			return
		}
		_, _ = c.out.Write(answer) // a command runs even if its client is gone
	}
}

// waitOpen waits while the master is paused.
func (m *Master) waitOpen() {
	for wait := true; wait; {
		m.mu.Lock()
		gate := m.gate
		m.mu.Unlock()
		<-gate
		m.mu.Lock()
		wait = gate != m.gate
		m.mu.Unlock()
	}
}

// CutCommand takes a command off the front of b; nil if there is none that is complete.
func CutCommand(b []byte) (args []string, rest []byte) {
	n, rest, ok := cutNumber(b)
	if !ok {
		return nil, b
	}
	args = make([]string, n)
	for i := range args {
		var size int
		if size, rest, ok = cutNumber(rest); !ok || len(rest) < size+2 {
			return nil, b
		}
		args[i], rest = string(rest[:size]), rest[size+2:]
	}
	return args, rest
}

// cutNumber reads "*3\r\n" or "$3\r\n".
func cutNumber(b []byte) (n int, rest []byte, ok bool) {
	end := bytes.IndexByte(b, '\n')
	if end < 3 {
		return 0, b, false
	}
	for _, c := range b[1 : end-1] {
		n = 10*n + int(c-'0')
	}
	return n, b[end+1:], true
}
