package lab

import "time"

// Phase is how far a LOCK has come when its client vanishes.
type Phase int

// The phases of a LOCK, as its client sees them.
const (
	Connected Phase = iota // nothing is sent
	HalfSent               // the command is sent in part
	Sent                   // the command is sent, and nothing else happens between
	Waiting                // the command is sent and has had the time given
	Granted                // the reply has come and is not read
	Holding                // the reply is read
)

// Phases lists them all.
var Phases = []Phase{Connected, HalfSent, Sent, Waiting, Granted, Holding}

// Manner is how a client vanishes.
type Manner int

// The manners of vanishing.
const (
	Fin    Manner = iota // it closes, as a process that ends in peace
	Rst                  // its system resets the connection, as when a process dies with replies unread
	Frozen               // the connection stays open and nobody is there, as when its process is stopped
)

// Manners lists them all.
var Manners = []Manner{Fin, Rst, Frozen}

// Vanish ends the client as a manner says. A Frozen one never reads again; its connection is open
// until closed otherwise.
func (c *Conn) Vanish(manner Manner) {
	switch manner {
	case Fin:
		c.Close()
	case Rst:
		c.Reset()
	case Frozen:
	}
}

// VanishIn connects to a proxy, brings a command as far as phase says, and vanishes; waiting is
// how long Waiting lasts. It returns the reply if the phase is Holding, and the connection, so
// that a frozen one can be closed in the end. For any goroutine.
func VanishIn(addr string, phase Phase, manner Manner, waiting time.Duration, args ...string) (c *Conn, reply string, err error) {
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
