package wire

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// slowly makes packets take their time behind TIME, until the test ends.
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

// A script that is held up makes no key end before those who hold it.
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
