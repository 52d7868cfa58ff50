package locks

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// contest has clients of two proxies that want one key. They leave in every way that a client can.
type contest struct {
	t      *testing.T
	addrs  [2]string
	stop   chan struct{}
	holder atomic.Int64 // the client that counts on the lock; 0 for none
	grants atomic.Int64
}

// TestHoldersAndWaitersMayLeaveInAnyWay: holders and waiters leave in every way, and release the
// lock through either proxy. The next waiter always wakes up, at most one client holds the lock at
// a time, and in the end no waiter, session lock or key is left.
func TestHoldersAndWaitersMayLeaveInAnyWay(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--master-timeout", "2s") // the machine may be busy
	s := &contest{t: t, addrs: [2]string{p.Addr, p.Second.Addr}, stop: make(chan struct{})}
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for !s.stopped() && s.play(int64(i+1), r) {
			}
		})
	}
	lab.Pass(t, lab.Long(3*time.Second, time.Minute))
	close(s.stop)
	wg.Wait()
	t.Logf("%d grants", s.grants.Load())
	for _, c := range []*lab.Client{p.Near, p.Far} {
		c.WaitWaiting(0)
		lab.WaitFor(t, "no session lock", lab.Patience, func() bool { return c.Counter("session_locks") == 0 })
	}
	lab.WantKeysGone(t, p.Masters, lab.Patience)
	p.WantNoStray(t)
}

func (s *contest) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// play opens a connection, waits for the lock, holds it and leaves; or it leaves while it waits.
// It reports whether the client goes on.
func (s *contest) play(me int64, r *rand.Rand) bool {
	c, err := lab.Connect(s.addrs[r.IntN(2)])
	if err != nil {
		s.t.Error(err)
		return false
	}
	defer c.Close()
	c.Timeout = 4 * lab.Patience
	leaves := r.IntN(4) == 0
	session := leaves || r.IntN(2) == 0 // a plain lock stays if its client leaves after the reply has come
	request := lab.Encode("LOCK", "job", "30s", "WAIT", "0")
	if session {
		request = lab.Encode("LOCK", "job", "30s", "WAIT", "0", "SESSION")
	}
	if r.IntN(3) == 0 { // the proxy then has a connection to the upstream
		if reply, err := c.Ask("GET", "a"); err != nil || reply != lab.Null2 {
			s.t.Errorf("GET: got %q, %v, want null", reply, err)
		}
	}
	if err := c.Put(request); err != nil {
		s.t.Error(err)
		return false
	}
	if leaves {
		s.leaveWaiting(c, r)
		return true
	}
	reply, err := c.Next()
	token := lab.TokenOf(reply)
	if err != nil || token == "" {
		s.t.Errorf("LOCK WAIT: got %q, %v, want a token", reply, err)
		return false
	}
	if !s.holder.CompareAndSwap(0, me) {
		s.t.Errorf("client %d got the lock while client %d held it", me, s.holder.Load())
		return false
	}
	s.grants.Add(1)
	<-time.After(time.Duration(r.IntN(4000)) * time.Microsecond)
	s.holder.Store(0)
	return s.release(c, r, session, token)
}

// leaveWaiting ends the connection while the LOCK waits or the masters decide it.
func (s *contest) leaveWaiting(c *lab.Conn, r *rand.Rand) {
	<-time.After(time.Duration(r.IntN(20000)) * time.Microsecond)
	switch r.IntN(4) {
	case 0:
		c.Reset()
	case 1:
		_ = c.Put(lab.Encode("GET", "a") + lab.Encode("LOCKINFO", "job"))
		c.Reset()
	case 2: // the client never reads the reply, if one comes
		_ = c.Put(lab.Encode("LOCKINFO", "job"))
		c.Close()
	default:
		c.Close()
	}
}

// release gives the lock back, by UNLOCK or by the end of the session.
func (s *contest) release(c *lab.Conn, r *rand.Rand, session bool, token string) bool {
	how := r.IntN(6)
	if !session {
		how %= 2
	}
	unlock := c
	switch how {
	case 1:
		other, err := lab.Connect(s.addrs[r.IntN(2)])
		if err != nil {
			s.t.Error(err)
			return false
		}
		defer other.Close()
		unlock = other
		fallthrough
	case 0:
		if reply, err := unlock.Ask("UNLOCK", "job", token); err != nil || reply != ":1\r\n" {
			s.t.Errorf("UNLOCK: got %q, %v, want 1", reply, err)
			return false
		}
	case 2:
		c.Reset()
	case 3:
		_ = c.Put(lab.Encode("QUIT"))
	case 4: // the client waits for its own lock, and leaves
		_ = c.Put(lab.Encode("LOCK", "job", "30s", "WAIT", "0") + lab.Encode("LOCKINFO", "job"))
		<-time.After(time.Duration(r.IntN(10)) * time.Millisecond)
		c.Reset()
	}
	return true
}
