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

// TestFloodOfQuestions: a user who asks about thousands of fresh keys does not make others wait,
// and has only questions of his own refused.
func TestFloodOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, dials := packetServer(func(string, string) string { return "+OK\r\n" })
		p := NewPermission(New(opts))
		defer p.Close()
		if _, err := p.MayWrite(t.Context(), "b", "first"); err != nil { // the connection stands
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

// TestOneQuestionWithoutAnswer: where the upstream answers some questions of a packet and then
// stalls, only the one that it does not answer fails, and what comes behind is asked at once.
func TestOneQuestionWithoutAnswer(t *testing.T) {
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
		wg.Go(func() { p.MayWrite(t.Context(), "a", "alone") }) // what comes meanwhile travels together
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
		if _, err := p.MayWrite(t.Context(), "a", "next"); err != nil || time.Since(start) > 3*packetTime || dials.Load() != 2 {
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

func TestTurns(t *testing.T) {
	var w turns
	for name := range strings.FieldsSeq("a1 a2 a3 a4 b1 c1 c2") {
		w.add(&inquiry{about: subject{name[:1], name}})
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
		w.add(&inquiry{about: subject{"a", "k"}})
	}
	if w.add(&inquiry{about: subject{"a", "k"}}) || !w.add(&inquiry{about: subject{"b", "k"}}) || w.n != maxWaiting+1 {
		t.Errorf("%d wait: one more of the same user is to be refused, one of another not", w.n)
	}
}
