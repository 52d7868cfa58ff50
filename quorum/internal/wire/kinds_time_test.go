package wire

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// slowly delays packets after their TIME, until the test ends.
func slowly(t *testing.T, d time.Duration) {
	quick := Packet
	t.Cleanup(func() { Packet = quick })
	const first = "local now = redis.call('TIME')\n"
	wait := "repeat local at = redis.call('TIME') until (at[1] - now[1]) * 1000 + (at[2] - now[2]) / 1000 >= " +
		strconv.FormatInt(d.Milliseconds(), 10) + "\n"
	body := strings.Replace(quick.Body, first, first+wait, 1)
	if body == quick.Body {
		t.Fatal("the packet does not ask for the time as it did")
	}
	Packet = newScript(body)
}

// A delayed script does not make a key expire before its holders.
func TestExpiryOfSlowScript(t *testing.T) {
	exclusive := func(secret string, ttl time.Duration) *Op { return lasting(Acquire, "lock:a", secret, ttl) }
	reader := func(secret string, ttl time.Duration) *Op { return shared("lock:a", secret, ttl) }
	slot := func(secret string, ttl time.Duration) *Op {
		o := limited("lock:a", secret, 3, 0, 1)
		o.TTL = ttl
		return o
	}
	share := func(secret string, ttl time.Duration) *Op { return lasting(Share, "lock:a", secret, ttl-time.Second) }
	top := func(secret string, ttl time.Duration) *Op { return topUp("lock:a", secret, ttl, 1) }
	for _, c := range []struct {
		name   string
		stands *Op
		then   func(secret string, ttl time.Duration) *Op
		secret string
	}{
		{"reader", reader(mine, 10*time.Second), reader, theirs},
		{"slot", slot(mine, 10*time.Second), slot, theirs},
		{"share", exclusive(mine, 10*time.Second), share, mine},
		{"top up", exclusive(mine, 10*time.Second), top, mine},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startRedis(t)
			s.run(c.stands)
			began := time.Now()
			until := s.do("PEXPIRETIME", "lock:a")
			if until[0] == '!' {
				t.Skip("this Redis does not tell when a key ends: ", until)
			}
			slowly(t, 300*time.Millisecond)
			s.run(c.then(c.secret, 10*time.Second-150*time.Millisecond-time.Since(began))) // it ends a little earlier
			is, _ := strconv.Atoi(s.do("PEXPIRETIME", "lock:a"))
			if was, _ := strconv.Atoi(until); is < was {
				t.Errorf("the key ends %d ms before one who holds it", was-is)
			}
		})
	}
}

// A script that is delayed for longer than the locks of its packet live leaves no key for ever.
func TestLocksEndDuringScript(t *testing.T) {
	exclusive := func(secret string) *Op { return lasting(Acquire, "lock:a", secret, 10*time.Second) }
	reader := func(secret string) *Op { return shared("lock:a", secret, 10*time.Second) }
	slot := func(secret string) *Op { return limited("lock:a", secret, 3, 0, 1) }
	const short = 40 * time.Millisecond
	for _, c := range []struct {
		name  string
		held  *Op
		stall *Op // with a ttl that ends before the script goes on
	}{
		{"the first reader", nil, shared("lock:a", mine, short)},
		{"a reader joins", shared("lock:a", mine, short), shared("lock:a", theirs, short)},
		{"the first slot", nil, lastingFor(slot(mine), short)},
		{"another slot", lastingFor(slot(mine), short), lastingFor(slot(theirs), short)},
		{"a reader is extended", shared("lock:a", mine, short/2), lasting(Extend, "lock:a", mine, short)},
		{"a slot is extended", lastingFor(slot(mine), short/2), lasting(Extend, "lock:a", mine, short)},
		{"a reader is kept", shared("lock:a", mine, short), keep("lock:a", mine, short)},
		{"a slot is kept", lastingFor(slot(mine), short), keep("lock:a", mine, short)},
		{"a reader fades", reader(mine), lasting(Fade, "lock:a", mine, short)},
		{"a lock is shared", lastingFor(exclusive(mine), short), lasting(Share, "lock:a", mine, short)},
		{"a reader is topped up", nil, as(topUp("lock:a", mine, short, 1), Shared, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startRedis(t)
			if c.held != nil {
				s.run(c.held)
			}
			slowly(t, 3*short)
			s.run(c.stall)
			if left := s.do("PTTL", "lock:a"); left == "-1" {
				t.Errorf("the key has no expiry: %s", s.do("ZRANGE", "lock:a", 0, -1, "WITHSCORES"))
			}
		})
	}
}

// lastingFor gives an operation another ttl.
func lastingFor(o *Op, ttl time.Duration) *Op {
	o.TTL = ttl
	return o
}
