package locks

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// contest is clients that fight for one key through two proxies and leave in every way there is.
type contest struct {
	t       *testing.T
	addrs   [2]string
	stop    chan struct{}
	holder  atomic.Int64 // who believes to hold the lock, 0 for nobody
	free    atomic.Int64 // when it was given back last, in ns
	grants  atomic.Int64
	longest atomic.Int64 // time from a release to the next grant, in ns
}

// TestHoldersAndWaitersLeave: whatever way holders and waiters leave, and through whichever proxy
// the lock is released, the next waiter is woken and nobody gets a lock that is held; in
// the end no waiter, session lock or key is left.
func TestHoldersAndWaitersLeave(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--master-timeout", "2s") // the machine may be busy
	s := &contest{t: t, addrs: [2]string{p.Addr, p.Second.Addr}, stop: make(chan struct{})}
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	length := 6 * time.Second
	if os.Getenv("INTEGRATION_LONG") != "" {
		length = time.Minute
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for !s.stopped() && s.play(int64(i+1), r) {
			}
		})
	}
	lab.Pass(t, length)
	close(s.stop)
	wg.Wait()
	t.Logf("%d grants, at most %v from a release to the next", s.grants.Load(), time.Duration(s.longest.Load()))
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

// play is one connection: it waits for the lock, holds it and leaves; or it leaves before. It
// reports whether to go on.
func (s *contest) play(me int64, r *rand.Rand) bool {
	c, err := lab.Connect(s.addrs[r.IntN(2)])
	if err != nil {
		s.t.Error(err)
		return false
	}
	defer c.Close()
	leaves := r.IntN(4) == 0
	session := leaves || r.IntN(2) == 0 // a plain lock is lost with a client that leaves just after its reply has come
	request := lab.Encode("LOCK", "job", "30s", "WAIT", "20s")
	if session {
		request = lab.Encode("LOCK", "job", "30s", "WAIT", "20s", "SESSION")
	}
	if r.IntN(3) == 0 { // something before it, so that there is a connection to the upstream
		if reply, err := c.Ask("GET", "a"); err != nil || reply != lab.Null2 {
			s.t.Errorf("GET: %q, %v", reply, err)
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
		s.t.Errorf("LOCK WAIT: %q, %v", reply, err)
		return false
	}
	if !s.holder.CompareAndSwap(0, me) {
		s.t.Errorf("%d was granted the lock while %d held it", me, s.holder.Load())
		return false
	}
	s.grants.Add(1)
	if free := s.free.Load(); free > 0 {
		gap := time.Now().UnixNano() - free
		for old := s.longest.Load(); gap > old && !s.longest.CompareAndSwap(old, gap); old = s.longest.Load() {
		}
	}
	<-time.After(time.Duration(r.IntN(4000)) * time.Microsecond)
	s.holder.Store(0)
	s.free.Store(time.Now().UnixNano())
	return s.release(c, r, session, token)
}

// leaveWaiting ends the connection while the LOCK waits, or is being decided.
func (s *contest) leaveWaiting(c *lab.Conn, r *rand.Rand) {
	<-time.After(time.Duration(r.IntN(20000)) * time.Microsecond)
	switch r.IntN(4) {
	case 0:
		c.Reset()
	case 1:
		_ = c.Put(lab.Encode("GET", "a") + lab.Encode("LOCKINFO", "job"))
		c.Reset()
	case 2: // the reply, if one comes, is read by nobody
		_ = c.Put(lab.Encode("LOCKINFO", "job"))
		c.Close()
	default:
		c.Close()
	}
}

// release gives the lock back in one of the ways there are.
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
			s.t.Errorf("UNLOCK: %q, %v", reply, err)
			return false
		}
	case 2:
		c.Reset()
	case 3:
		_ = c.Put(lab.Encode("QUIT"))
	case 4: // it waits for itself, and leaves
		_ = c.Put(lab.Encode("LOCK", "job", "30s", "WAIT", "0") + lab.Encode("LOCKINFO", "job"))
		<-time.After(time.Duration(r.IntN(10)) * time.Millisecond)
		c.Reset()
	}
	return true
}
