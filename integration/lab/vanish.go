package lab

import "time"

// Phase is the progress of a LOCK when its client vanishes.
type Phase int

// The phases of a LOCK from its client's view.
const (
	Connected Phase = iota // the client has sent no byte
	HalfSent               // the client has sent a part of the command
	Sent                   // the client has just sent the command
	Waiting                // the client has waited for the given time
	Granted                // the reply has come, and the client has not read it
	Holding                // the client has read the reply
)

// Phases lists all phases.
var Phases = []Phase{Connected, HalfSent, Sent, Waiting, Granted, Holding}

// Manner is the way in which a client vanishes.
type Manner int

// The manners of vanishing.
const (
	Fin    Manner = iota // it closes the connection, like a process that exits
	Rst                  // its system resets the connection, like that of a process that dies with unread replies
	Frozen               // the connection stays open without a client, like that of a stopped process
)

// Manners lists all manners.
var Manners = []Manner{Fin, Rst, Frozen}

// Vanish ends the client in a manner. After Frozen the connection stays open until the caller
// closes it.
func (c *Conn) Vanish(manner Manner) {
	switch manner {
	case Fin:
		c.Close()
	case Rst:
		c.Reset()
	case Frozen:
	}
}

// VanishIn connects to a proxy, brings a command to a phase, and vanishes; waiting is the duration
// of Waiting. It returns the reply after Holding, and the connection, so that the caller can close
// a frozen one. For any goroutine.
func VanishIn(addr string, phase Phase, manner Manner, waiting time.Duration, args ...string) (c *Conn,
	reply string, err error) {
	if c, err = Connect(addr); err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			manner = Rst
		}
		c.Vanish(manner)
	}()
	raw := Encode(args...)
	switch phase {
	case Connected:
		return c, "", nil
	case HalfSent:
		return c, "", c.Put(raw[:len(raw)/2])
	}
	if err = c.Put(raw); err != nil {
		return c, "", err
	}
	switch phase {
	case Waiting:
		<-time.After(waiting)
	case Granted:
		if err = c.SetReadDeadline(time.Now().Add(c.Timeout)); err == nil {
			_, err = c.Reader.Peek(1)
		}
	case Holding:
		reply, err = c.Next()
	}
	return c, reply, err
}
