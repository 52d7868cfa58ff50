package integration

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// storm is clients that fight for one key through two proxies and leave in every way there is.
type storm struct {
	t       *testing.T
	addrs   [2]string
	stop    chan struct{}
	holder  atomic.Int64 // who believes to hold the lock, 0 for nobody
	free    atomic.Int64 // when it was given back last, in ns
	grants  atomic.Int64
	longest atomic.Int64 // time from a release to the next grant, in ns
}

// TestStorm: whatever way holders and waiters leave, and through whichever proxy the lock is released, the next waiter is woken at once and
// nobody gets a lock that is held; in the end no waiter, session lock or key is left.
func TestStorm(t *testing.T) {
	p := startPair(t)
	s := &storm{t: t, addrs: [2]string{p.addr, p.two.addr}, stop: make(chan struct{})}
	seed := seedOf(t, uint64(time.Now().UnixNano()))
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
	pauseBetween(t, length)
	close(s.stop)
	wg.Wait()
	t.Logf("%d grants, at most %v from a release to the next", s.grants.Load(), time.Duration(s.longest.Load()))
	if longest := time.Duration(s.longest.Load()); longest > 400*time.Millisecond*slack {
		t.Errorf("once the next waiter was served %v after the release", longest)
	}
	for _, c := range []*client{p.desk, p.far} {
		c.waitWaiting(0)
		waitFor(t, "no session lock", patience, func() bool { return c.counter("session_locks") == 0 })
	}
	wantKeysGone(t, p.masters, 3*time.Second*slack)
	p.wantNoStray(t)
}

func (s *storm) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// play is one connection: it waits for the lock, holds it and leaves; or it leaves before. It reports whether to go on.
func (s *storm) play(me int64, r *rand.Rand) bool {
	c, err := connect(s.addrs[r.IntN(2)])
	if err != nil {
		s.t.Error(err)
		return false
	}
	defer c.Close()
	leaves := r.IntN(4) == 0
	session := leaves || r.IntN(2) == 0 // a plain lock is lost with a client that leaves just after its reply has come
	request := encode("LOCK", "job", "30s", "WAIT", "20s")
	if session {
		request = encode("LOCK", "job", "30s", "WAIT", "20s", "SESSION")
	}
	if r.IntN(3) == 0 { // something before it, so that there is a connection to the upstream
		if reply, err := c.do("GET", "a"); err != nil || reply != null2 {
			s.t.Errorf("GET: %q, %v", reply, err)
		}
	}
	if err := c.write(request); err != nil {
		s.t.Error(err)
		return false
	}
	if leaves {
		s.leaveWaiting(c, r)
		return true
	}
	reply, err := c.read()
	token := tokenOf(reply)
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
func (s *storm) leaveWaiting(c *conn, r *rand.Rand) {
	<-time.After(time.Duration(r.IntN(20000)) * time.Microsecond)
	switch r.IntN(4) {
	case 0:
		c.reset()
	case 1:
		_ = c.write(encode("GET", "a") + encode("LOCKINFO", "job"))
		c.reset()
	case 2: // the reply, if one comes, is read by nobody
		_ = c.write(encode("LOCKINFO", "job"))
		c.Close()
	default:
		c.Close()
	}
}

// release gives the lock back in one of the ways there are.
func (s *storm) release(c *conn, r *rand.Rand, session bool, token string) bool {
	how := r.IntN(6)
	if !session {
		how %= 2
	}
	unlock := c
	switch how {
	case 1:
		other, err := connect(s.addrs[r.IntN(2)])
		if err != nil {
			s.t.Error(err)
			return false
		}
		defer other.Close()
		unlock = other
		fallthrough
	case 0:
		if reply, err := unlock.do("UNLOCK", "job", token); err != nil || reply != ":1\r\n" {
			s.t.Errorf("UNLOCK: %q, %v", reply, err)
			return false
		}
	case 2:
		c.reset()
	case 3:
		_ = c.write(encode("QUIT"))
	case 4: // it waits for itself, and leaves
		_ = c.write(encode("LOCK", "job", "30s", "WAIT", "0") + encode("LOCKINFO", "job"))
		<-time.After(time.Duration(r.IntN(10)) * time.Millisecond)
		c.reset()
	}
	return true
}
