package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// packetServer answers all questions that have come packetTime after the first of them, in a
// bubble. answer says what to each; "" ends the answering on that connection.
func packetServer(answer func(user, key string) string) (opts Options, dials *atomic.Int32) {
	dials = new(atomic.Int32)
	return Options{Name: "slow", Addr: "10.0.0.1:1", Dial: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		client, server := net.Pipe()
		came := make(chan []string, 2*packet)
		go func() {
			defer close(came)
			for r := bufio.NewReader(server); ; {
				line := request(r)
				if line == "" {
					return
				}
				came <- strings.Fields(line)
			}
		}()
		go func() {
			defer server.Close()
			for first := range came {
				time.Sleep(packetTime)
				var replies strings.Builder
				for words, ended := first, false; words != nil && !ended; {
					switch {
					case words[0] == "acl":
						text := answer(words[2], words[4])
						ended = text == ""
						replies.WriteString(text)
					case words[0] == "hello":
						replies.WriteString("-ERR unknown command 'hello'\r\n")
					default:
						replies.WriteString("+OK\r\n")
					}
					select {
					case words = <-came:
					default:
						words = nil
					}
					if ended {
						io.WriteString(server, replies.String())
						for range came {
						}
						return
					}
				}
				io.WriteString(server, replies.String())
			}
		}()
		return client, nil
	}}, dials
}

const packetTime = 5 * time.Millisecond

// TestFloodDelaysNoOtherUser: a user who asks about thousands of fresh keys does not make others
// wait, and has only questions of his own refused.
func TestFloodDelaysNoOtherUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, dials := packetServer(func(string, string) string { return "+OK\r\n" })
		p := NewPermission(New(opts))
		defer p.Close()
		if _, err := p.MayWrite(t.Context(), "b", "first"); err != nil { // connects
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var granted, refused atomic.Int32
		flood := time.Now()
		for i := range 5000 {
			wg.Go(func() {
				switch refusal, err := p.MayWrite(t.Context(), "a", fmt.Sprint("fresh-", i)); {
				case refusal == "" && err == nil:
					granted.Add(1)
				case errors.Is(err, errTooMany):
					refused.Add(1)
				default:
					t.Errorf("a got %q, %v", refusal, err)
				}
			})
		}
		synctest.Wait()
		during := 0
		for i := range 20 {
			start := time.Now()
			if refusal, err := p.MayWrite(t.Context(), "b", fmt.Sprint("key-", i)); refusal != "" || err != nil {
				t.Errorf("b got %q, %v", refusal, err)
			}
			if took := time.Since(start); took > 3*packetTime {
				t.Errorf("b waited %v, want %v at most", took, 3*packetTime)
			}
			if granted.Load()+refused.Load() < 5000 {
				during++
			}
		}
		wg.Wait()
		if took := time.Since(flood); took > 30*packetTime || during < 5 || dials.Load() != 1 {
			t.Errorf("the flood took %v, %d questions of b fell into it, over %d connections", took, during, dials.Load())
		}
		if granted.Load() < maxWaiting || granted.Load()+refused.Load() != 5000 {
			t.Errorf("of a %d were granted, %d refused", granted.Load(), refused.Load())
		}
	})
}

// TestWritableFiltersInOrder: a list is filtered in order, one packet of keys a round trip, and
// known answers are used. New answers are remembered only for keys that already have one.
func TestWritableFiltersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var lost atomic.Bool // the right to "known"
		opts, _ := packetServer(func(_, key string) string {
			asked.Add(1)
			if strings.HasSuffix(key, "0") || key == "known" && lost.Load() {
				return "$2\r\nno\r\n"
			}
			return "+OK\r\n"
		})
		p := NewPermission(New(opts))
		defer p.Close()
		if refusal, err := p.MayWrite(t.Context(), "a", "known"); refusal != "" || err != nil {
			t.Fatal(refusal, err)
		}
		keys, want := []string{"known"}, []string{"known"}
		for i := range 999 {
			key := fmt.Sprint("key-", i)
			if keys = append(keys, key); i%10 != 0 {
				want = append(want, key)
			}
		}
		list := func() []string {
			t.Helper()
			may, err := p.Writable(t.Context(), "a", keys)
			if err != nil {
				t.Fatal(err)
			}
			return may
		}
		start := time.Now()
		if may := list(); !slices.Equal(may, want) || asked.Load() != 1000 {
			t.Errorf("%d keys of %d, want %d; asked %d times", len(may), len(keys), len(want), asked.Load())
		}
		if took := time.Since(start); took > 2*4*packetTime { // a packet may be split in two
			t.Errorf("four packets took %v", took)
		}
		if n := len(p.known.young); n != 1 {
			t.Errorf("%d answers are remembered", n)
		}
		time.Sleep(verdictLasts)
		lost.Store(true)
		if may := list(); len(may) != len(want)-1 || may[0] == "known" {
			t.Errorf("a right that was lost: %q", may[:2])
		}
		if refusal, known := p.Known("a", "known"); refusal != "no" || !known {
			t.Errorf("what the list learned of a known key does not count: %q, %v", refusal, known)
		}
		if may, err := p.Writable(t.Context(), "a", nil); len(may) != 0 || err != nil {
			t.Errorf("no keys: %q, %v", may, err)
		}
	})
}

// TestWritableIsBounded: however many lists are asked for, and however slowly the upstream
// answers, each ends in time, and questions about locks wait for a packet at most.
func TestWritableIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, _ := packetServer(func(_, key string) string {
			if strings.HasPrefix(key, "slow") {
				time.Sleep(100 * time.Millisecond)
			}
			return "+OK\r\n"
		})
		p := NewPermission(New(opts))
		defer p.Close()
		if _, err := p.MayWrite(t.Context(), "b", "first"); err != nil { // connects
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { askFastList(t, p, i) })
		}
		synctest.Wait()
		for i := range 10 {
			p.mu.Lock()
			waiting := p.waiting.n
			p.mu.Unlock()
			if waiting > packet {
				t.Errorf("%d questions of lists wait", waiting)
			}
			start := time.Now()
			if _, err := p.MayWrite(t.Context(), "a", fmt.Sprint("lock-", i)); err != nil || time.Since(start) > 3*packetTime {
				t.Errorf("a question of the same user: %v after %v", err, time.Since(start))
			}
		}
		wg.Wait()

		gone, cancel := context.WithCancelCause(t.Context())
		cancel(io.EOF)
		if _, err := p.Writable(gone, "a", []string{"left"}); !errors.Is(err, io.EOF) {
			t.Errorf("of a client that left: %v", err)
		}

		askSlowLists(t, p)
		time.Sleep(time.Minute) // the server answers the rest
	})
}

// askFastList asks for a list of 1,000 keys of its own.
func askFastList(t *testing.T, p *Permission, list int) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("fast-", list, "-", i)
	}
	if may, err := p.Writable(t.Context(), "a", keys); err != nil || len(may) != len(keys) {
		t.Errorf("list %d: %d keys, %v", list, len(may), err)
	}
}

// askSlowLists asks for three lists at once that take longer than listTime.
func askSlowLists(t *testing.T, p *Permission) {
	var wg sync.WaitGroup
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("slow-", i)
	}
	start := time.Now()
	for range 3 {
		wg.Go(func() {
			may, err := p.Writable(t.Context(), "a", keys)
			if err == nil || may != nil || time.Since(start) > listTime {
				t.Errorf("a slow list: %d keys, %v after %v", len(may), err, time.Since(start))
			}
		})
	}
	wg.Wait()
}

// TestMissingAnswerFailsOneQuestion: if the upstream answers some questions of a packet and then
// stalls, only the next question fails, and those after it are asked again at once.
func TestMissingAnswerFailsOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, dials := packetServer(func(_, key string) string {
			if key == "stalls" {
				return ""
			}
			return "+OK\r\n"
		})
		p := NewPermission(New(opts))
		defer p.Close()
		var wg sync.WaitGroup
		wg.Go(func() { p.MayWrite(t.Context(), "a", "alone") }) // meanwhile further questions gather in one packet
		synctest.Wait()
		for i, key := range []string{"one", "two", "stalls", "three"} {
			wg.Go(func() {
				start := time.Now()
				_, err := p.MayWrite(t.Context(), "a", key)
				if failed := err != nil; failed != (i == 2) || failed && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: got %v after %v", key, err, time.Since(start))
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		start := time.Now()
		if _, err := p.MayWrite(t.Context(), "a", "next"); err != nil || time.Since(start) > 3*packetTime ||
			dials.Load() != 2 {
			t.Errorf("the next question: %v after %v, %d connections", err, time.Since(start), dials.Load())
		}
	})
}

// TestClosedConnectionIsReplaced: an upstream that closes an idle connection costs no answer.
func TestClosedConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		p := NewPermission(New(Options{Addr: "u", Dial: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				request(bufio.NewReader(server))
				io.WriteString(server, "+OK\r\n")
			}()
			return client, nil
		}}))
		defer p.Close()
		for i := range 3 {
			if _, err := p.MayWrite(t.Context(), "a", fmt.Sprint(i)); err != nil || int(dials.Load()) != i+1 {
				t.Errorf("question %d: %v, %d connections", i, err, dials.Load())
			}
			synctest.Wait()
		}
	})
}

func TestUsersTakeTurns(t *testing.T) {
	var w turns
	for name := range strings.FieldsSeq("a1 a2 a3 a4 b1 c1 c2") {
		w.add(&inquiry{about: subject{user: name[:1], key: name}})
	}
	names := func(n int) (got []string) {
		for _, q := range w.take(n) {
			got = append(got, q.about.key)
		}
		return got
	}
	for _, want := range []string{"a1 b1", "c1 a2 c2", "a3 a4", ""} {
		if got := names(max(2, len(strings.Fields(want)))); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for range maxWaiting {
		w.add(&inquiry{about: subject{user: "a", key: "k"}})
	}
	if w.add(&inquiry{about: subject{user: "a", key: "k"}}) || !w.add(&inquiry{about: subject{user: "b", key: "k"}}) ||
		w.n != maxWaiting+1 {
		t.Errorf("%d wait: one more of the same user is to be refused, one of another not", w.n)
	}
}
