package relay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The test sends the same random bytes directly to one Redis and, in random fragments, through
// the proxy to another: the replies must be equal byte for byte, and so must the state of the
// connections.
func TestRandomBytesGetTheSameReplies(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	for worker := range uint64(2) {
		t.Run(fmt.Sprintf("worker %d", worker), func(t *testing.T) {
			t.Parallel()
			c, direct := lab.StartCluster(t, 1), lab.StartRedis(t)
			for i := range lab.Long[uint64](120, 300) {
				run := differential{script{rand.New(rand.NewPCG(seed, worker<<32|i))}, c.Upstream, direct, c.Addr, i%2 == 1, 0}
				if !run.same(t) {
					t.Errorf("script %d of worker %d differs", i, worker)
					return
				}
			}
		})
	}
}

type differential struct {
	script
	upstream, direct *lab.Redis
	proxy            string
	resp3            bool
	patience         time.Duration // to wait for a reply that differs from the direct one; 0: lab.Patience
}

// same plays one script both ways, and reports a difference with the place of its first byte.
func (d differential) same(t *testing.T) bool {
	t.Helper()
	sent, got, want := d.play(t)
	// a changed byte made a HELLO, whose reply has a connection id
	if alike(got, want) || strings.Contains(want.Text, "\r\nid\r\n") {
		return true
	}
	_ = os.WriteFile(filepath.Join(t.ArtifactDir(), "script"), []byte(sent), 0o600)
	at := 0
	for at < len(got.Text) && at < len(want.Text) && got.Text[at] == want.Text[at] {
		at++
	}
	t.Errorf("RESP3 %v: replies differ at byte %d of %d\nthrough the proxy, %s: ...%.300q\ndirectly, %s: ...%.300q\nsent: %.3000q",
		d.resp3, at, len(want.Text), got.State, got.Text[at:], want.State, want.Text[at:], sent)
	return false
}

// play plays one script both ways, and returns the bytes it sent and both answers.
func (d differential) play(t *testing.T) (sent string, got, want lab.Heard) {
	t.Helper()
	for _, s := range []*lab.Redis{d.upstream, d.direct} {
		s.Do(t, "FLUSHALL")
		lab.WaitFor(t, "subscribers of the last script disconnected", lab.Patience, func() bool {
			return s.Do(t, "CLIENT", "LIST", "TYPE", "pubsub") == lab.Bulk("")
		})
	}
	text := d.bytes(1 + d.IntN(60))
	sentinel := fmt.Sprintf("sentinel-%016x", d.Uint64())
	sent = text + lab.Encode(sentinel)
	dialer := lab.Dial
	if d.resp3 {
		dialer = lab.Dial3
	}

	one := dialer(t, d.direct.Addr)
	defer one.Close()
	one.Send(sent)
	// Redis has read all that was sent when it has turned often enough
	want = lab.Hear(one.Conn, sentinel, func(lab.Heard) bool {
		for range 30 {
			d.direct.Do(t, "PING")
		}
		return true
	}, 50*time.Millisecond)

	two := dialer(t, d.proxy)
	defer two.Close()
	for rest := sent; rest != ""; {
		n := min(1+d.IntN(1<<d.IntN(14)), len(rest))
		if two.Put(rest[:n]) != nil {
			break // closed after an error, as Redis does
		}
		rest = rest[n:]
	}
	deadline := time.Now().Add(cmp.Or(d.patience, lab.Patience))
	got = lab.Hear(two.Conn, sentinel, func(got lab.Heard) bool { return alike(got, want) || time.Now().After(deadline) },
		50*time.Millisecond)
	if alike(got, want) && got.State != "closed" {
		got, want = lab.HearEnd(two), lab.HearEnd(one)
	}
	return sent, got, want
}

// alike compares answers. UNSUBSCRIBE without a channel answers in the order of a hash table, and
// each server has a hash of its own.
func alike(got, want lab.Heard) bool {
	return got == want || got.State == want.State && inOrder(got.Text) == inOrder(want.Text)
}

// inOrder returns the text with the channels of replies to UNSUBSCRIBE that follow each other
// sorted.
func inOrder(text string) string {
	list := frames(text)
	var run [][]string // the elements of replies that follow each other
	for i := 0; i <= len(list); i++ {
		if i < len(list) && strings.Contains(list[i][:min(len(list[i]), 32)], "unsubscribe\r\n") {
			if e := lab.Elements(list[i]); len(e) == 3 {
				run = append(run, e)
				continue
			}
		}
		channels := make([]string, len(run))
		for k, e := range run {
			channels[k] = e[1]
		}
		slices.Sort(channels)
		for k, e := range run {
			at := i - len(run) + k
			list[at] = list[at][:strings.Index(list[at], "\n")+1] + e[0] + channels[k] + e[2]
		}
		run = nil
	}
	return strings.Join(list, "")
}

// Through a plain TCP relay no script may differ, or the random scripts are not repeatable.
func TestRandomBytesAreRepeatable(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	servers := lab.StartMasters(t, 2)
	r := lab.StartRelay(t, servers[0].Addr)
	for i := range lab.Long[uint64](50, 100) {
		run := differential{script{rand.New(rand.NewPCG(seed, i))}, servers[0], servers[1], r.Addr, i%2 == 1, 0}
		if !run.same(t) {
			t.Fatalf("script %d differs", i)
		}
	}
	r.Spoil(true)
	found := 0
	for i := range uint64(10) {
		run := differential{script{rand.New(rand.NewPCG(seed, i))}, servers[0], servers[1], r.Addr, false,
			100 * time.Millisecond}
		if _, got, want := run.play(t); got != want {
			found++
		}
	}
	if found < 8 {
		t.Errorf("noticed %d of 10 changed replies, want at least 8", found)
	}
}
