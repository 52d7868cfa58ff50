package load

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestHoldersBesideLoad: locks that are held stay held while thousands of others lock and unlock as
// fast as they can: the proxy renews session locks, and EXTEND goes before LOCK.
func TestHoldersBesideLoad(t *testing.T) {
	l := lab.Start(t, lab.Config{Masters: 5, Plain: true, Flags: defaults})
	addr := l.Proxies[0].Addr
	all := gather(t, l.Proxies[0], "job", 2000)
	sessions := map[*lab.Client][2]string{} // key and token
	for i := range 20 {
		c, key := lab.Dial3(t, addr), fmt.Sprintf("session-%d", i)
		sessions[c] = [2]string{key, c.LockSession(key, "2s")}
	}

	var workers, holders outcome
	stop := all.work(&workers, "30s", 0)
	defer stop()
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for i := range 10 {
		c, key := lab.Dial(t, addr), fmt.Sprintf("holder-%d", i)
		token := lab.LockSoon(t, c, key, "30s") // even if the load refuses some
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(250 * time.Millisecond):
				}
				sent := time.Now()
				reply, err := c.Ask("EXTEND", key, token, "30s")
				if holders.note("EXTEND", reply, err, sent); err != nil {
					return
				}
			}
		})
	}
	lab.Pass(t, 5*time.Second)
	close(ended)
	wg.Wait()
	stop()

	workers.wantNone(t)
	if n := len(holders.refused); n > 0 {
		t.Errorf("%d EXTENDs of plain holders did not answer 1: %s", n, kinds(holders.refused))
	}
	for c, held := range sessions {
		reply := c.Do("EXTEND", held[0], held[1], "2s")
		for lab.IsPush(reply) {
			t.Errorf("%s: push %q", held[0], strings.ReplaceAll(reply, "\r\n", " "))
			reply = c.Frame()
		}
		if reply != ":1\r\n" {
			t.Errorf("EXTEND of %s: %q, want it held", held[0], reply)
		}
	}
}
