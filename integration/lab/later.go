package lab

import (
	"testing"
	"time"
)

// Answer is a reply with the time of its arrival.
type Answer struct {
	Reply string
	At    time.Time
	Err   error
}

// Later sends a command and returns a channel for its reply.
func (c *Client) Later(args ...string) <-chan Answer {
	c.T.Helper()
	c.Send(Encode(args...))
	ch := make(chan Answer, 1)
	go func() {
		reply, err := c.Next()
		ch <- Answer{reply, time.Now(), err}
	}()
	return ch
}

// WantToken waits for the reply to a LOCK that must be granted.
func WantToken(t testing.TB, what string, ch <-chan Answer) (token string, at time.Time) {
	t.Helper()
	select {
	case a := <-ch:
		if token = TokenOf(a.Reply); token == "" {
			t.Fatalf("%s: got %q (%v), want a token", what, a.Reply, a.Err)
		}
		return token, a.At
	case <-time.After(Patience):
		t.Fatalf("%s: got no reply within %v, want a token", what, Patience)
	}
	return "", time.Time{}
}

// WantSilence fails if a reply has come already.
func WantSilence(t testing.TB, what string, ch <-chan Answer) {
	t.Helper()
	select {
	case a := <-ch:
		t.Fatalf("%s: got %q (%v), want no reply yet", what, a.Reply, a.Err)
	default:
	}
}
