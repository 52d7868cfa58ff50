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
		requests := make(chan []string, 2*packet)
		go readRequests(server, requests)
		go answerPackets(server, requests, answer)
		return client, nil
	}}, dials
}

// readRequests passes on the words of each request until the connection ends.
func readRequests(server net.Conn, requests chan<- []string) {
	defer close(requests)
	r := bufio.NewReader(server)
	for line := request(r); line != ""; line = request(r) {
		requests <- strings.Fields(line)
	}
}

// answerPackets sends the replies to a packet of requests at once. After an answer "" it closes
// the connection, but not before the client does.
func answerPackets(server net.Conn, requests <-chan []string, answer func(user, key string) string) {
	defer server.Close()
	for first := range requests {
		time.Sleep(packetTime)
		var replies strings.Builder
		ended := false
		for words := first; words != nil && !ended; words = pending(requests) {
			reply := replyTo(words, answer)
			replies.WriteString(reply)
			ended = reply == ""
		}
		io.WriteString(server, replies.String())
		if ended {
			for range requests {
			}
		}
	}
}

// pending returns the next request if it has come, else nil.
func pending(requests <-chan []string) []string {
	select {
	case words := <-requests:
		return words
	default:
		return nil
	}
}

// replyTo returns the reply to a request, "" if answer ends the answering.
func replyTo(words []string, answer func(user, key string) string) string {
	switch words[0] {
	case "acl":
		return answer(words[2], words[4])
	case "hello":
		return "-ERR unknown command 'hello'\r\n"
	default:
		return "+OK\r\n"
	}
}

const packetTime = 5 * time.Millisecond

// flood is user a, who asks about many fresh keys at once.
type flood struct {
	wg               sync.WaitGroup
	granted, refused atomic.Int32
}

// ask asks about n keys, each in a goroutine of its own. Every question is granted, or refused
// because too many others wait.
func (f *flood) ask(t *testing.T, p *Permission, n int) {
	for i := range n {
		f.wg.Go(func() {
			switch refusal, err := p.MayWrite(t.Context(), "a", fmt.Sprint("fresh-", i)); {
			case refusal == "" && err == nil:
				f.granted.Add(1)
			case errors.Is(err, errTooMany):
				f.refused.Add(1)
			default:
				t.Errorf("a got %q, %v", refusal, err)
			}
		})
	}
}

// answered is the number of questions that were granted or refused.
func (f *flood) answered() int32 { return f.granted.Load() + f.refused.Load() }

// wantQuickGrant: user b, who asks about a key, gets the right within three packets.
func wantQuickGrant(t *testing.T, p *Permission, key string) {
	t.Helper()
	start := time.Now()
	if refusal, err := p.MayWrite(t.Context(), "b", key); refusal != "" || err != nil {
		t.Errorf("b got %q, %v", refusal, err)
	}
	if took := time.Since(start); took > 3*packetTime {
		t.Errorf("b waited %v, want %v at most", took, 3*packetTime)
	}
}

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
		start := time.Now()
		var a flood
		a.ask(t, p, 5000)
		synctest.Wait()
		during := 0
		for i := range 20 {
			wantQuickGrant(t, p, fmt.Sprint("key-", i))
			if a.answered() < 5000 {
				during++
			}
		}
		a.wg.Wait()
		if took := time.Since(start); took > 30*packetTime || during < 5 || dials.Load() != 1 {
			t.Errorf("the flood took %v, %d questions of b fell into it, over %d connections", took, during, dials.Load())
		}
		if a.granted.Load() < maxWaiting || a.answered() != 5000 {
			t.Errorf("of a %d were granted, %d refused", a.granted.Load(), a.refused.Load())
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
		keys, want := thousandKeys()
		start := time.Now()
		if may := writable(t, p, keys); !slices.Equal(may, want) || asked.Load() != 1000 {
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
		wantRightLost(t, p, keys, len(want)-1)
		if may, err := p.Writable(t.Context(), "a", nil); len(may) != 0 || err != nil {
			t.Errorf("no keys: %q, %v", may, err)
		}
	})
}

// thousandKeys returns "known" and 999 others, and want, those that do not end in 0.
func thousandKeys() (keys, want []string) {
	keys, want = []string{"known"}, []string{"known"}
	for i := range 999 {
		key := fmt.Sprint("key-", i)
		if keys = append(keys, key); i%10 != 0 {
			want = append(want, key)
		}
	}
	return keys, want
}

// writable returns the keys that user a may write, in the order of keys.
func writable(t *testing.T, p *Permission, keys []string) []string {
	t.Helper()
	may, err := p.Writable(t.Context(), "a", keys)
	if err != nil {
		t.Fatal(err)
	}
	return may
}

// wantRightLost: the list leaves out "known", its first key, of which n others remain, and the
// answer to the list replaces the remembered one.
func wantRightLost(t *testing.T, p *Permission, keys []string, n int) {
	t.Helper()
	if may := writable(t, p, keys); len(may) != n || may[0] == "known" {
		t.Errorf("a right that was lost: %q", may[:2])
	}
	if refusal, known := p.Known("a", "known"); refusal != "no" || !known {
		t.Errorf("what the list learned of a known key does not count: %q, %v", refusal, known)
	}
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
