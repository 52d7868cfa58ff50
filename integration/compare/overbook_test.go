package compare

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// More than n holders of a lock for n: three sites, each of which reaches two of three masters.

const (
	permits  = 10
	perSite  = 10 // callers at each of the sites
	numSites = 3
)

func semaphores() subject { return nodeSubject("redis-semaphore", "redis-semaphore") }

// sites are fields on the same three masters. Each has relays of its own.
func sites(t *testing.T) (list [numSites]*field) {
	t.Helper()
	masters := lab.StartMasters(t, numSites)
	for i := range list {
		list[i] = &field{masters: masters, maxTTL: strayTTL}
		list[i].relays, _ = lab.StartRelays(t, masters)
		for _, r := range list[i].relays {
			list[i].addrs = append(list[i].addrs, r.Addr)
		}
	}
	return list
}

// overbook cuts each site off another master, and then lets all callers ask, the sites in turn.
// Each call of ask wants one permit, and never releases it.
func overbook(t *testing.T, fields [numSites]*field, ask func(site, i int) error) tally {
	t.Helper()
	for site, f := range fields {
		f.relays[site].Isolate()
	}
	var held atomic.Int32
	var wg sync.WaitGroup
	for i := range numSites * perSite {
		wg.Go(func() {
			<-time.After(time.Duration(i) * 50 * time.Millisecond)
			if err := ask(i%numSites, i); err == nil {
				held.Add(1)
			} else if i == 0 {
				t.Log(err)
			}
		})
	}
	wg.Wait()
	if held.Load() == 0 {
		t.Fatal("got no permit at all")
	}
	t.Logf("got %d holders of a lock for %d", held.Load(), permits)
	return tally{bad: max(0, int(held.Load())-permits), tries: numSites * perSite}
}

func overbookOurs(t *testing.T, _ size) tally {
	fields := sites(t)
	upstream := lab.StartRedis(t)
	var clients [numSites]proxied
	for i, f := range fields {
		flags := []string{"--upstream", upstream.Addr, "--masters", strings.Join(f.addrs, ","),
			"--max-ttl", millis(f.maxTTL) + "ms"}
		clients[i] = proxied{lab.StartProxy(t, flags...).Addr}
	}
	return overbook(t, fields, func(site, _ int) error {
		call, err := clients[site].ask("LOCK", "permits", millis(strayTTL),
			"LIMIT", fmt.Sprint(permits), "WAIT", "5s")
		if err == nil && !strings.HasPrefix(call.Reply, "$57") {
			err = fmt.Errorf("LOCK: got %q", call.Reply)
		}
		return err
	})
}

func overbookTheirs(t *testing.T, _ size) tally {
	fields := sites(t)
	var clients [numSites][2]client
	for i, f := range fields {
		clients[i] = semaphores().start(t, f)
	}
	ask := func(site, i int, key string) (nodeReply, error) {
		c := clients[site][i%2].(nodeClient)
		return c.worker.do(nodeCommand{Who: c.who, Op: "lock", Key: key,
			TTL: strayTTL.Milliseconds(), Limit: permits})
	}
	for site := range clients { // opens the connections
		if _, err := ask(site, 0, "warm-up"); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(site, 1, "warm-up"); err != nil {
			t.Fatal(err)
		}
	}
	return overbook(t, fields, func(site, i int) error {
		_, err := ask(site, i/numSites, "permits")
		return err
	})
}
